"""Where the small model is kept. The configuration asks, so nothing of it is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

#: Small enough for every machine, and a toy.
SMALL_MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def small_model(env: Mapping[str, str]) -> Path | None:
    """What `trunkline local fetch` gets lies here; None without a home directory."""
    folder = _cache(env)
    return folder / "models" / SMALL_MODEL if folder else None


def _cache(env: Mapping[str, str]) -> Path | None:
    # systemd separates several directories by colons; the first is the unit's own.
    if unit := env.get("CACHE_DIRECTORY", "").partition(":")[0]:
        return Path(unit)
    cache = Path(env.get("XDG_CACHE_HOME", ""))
    if cache.is_absolute():  # the specification wants relative ones ignored
        return cache / "trunkline"
    home = env.get("HOME")
    return Path(home) / ".cache" / "trunkline" if home else None
