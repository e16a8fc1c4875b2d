"""A home of its own for an agent whose settings decide whether a session can be taken up; nobody's own are touched."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from gateway.agents.acp.presets import Preset

#: Gemini CLI removes sessions at its start, by mistake also the one that is to be taken up, and takes one up only if
#: the way to log in was chosen.
_GEMINI = {
    "general": {"sessionRetention": {"enabled": False}},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}


def home(preset: Preset | None, folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Variables that lead the agent there. Without a key it needs the login in the home of the user, and gets none."""
    if preset is not Preset.GEMINI or "GEMINI_API_KEY" not in env or "GEMINI_CLI_HOME" in env:
        return {}
    settings = folder / "gemini" / ".gemini" / "settings.json"
    settings.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # What is there stays: the agent writes to it as well.
    with contextlib.suppress(FileExistsError), open(settings, "x", opener=_private) as file:
        json.dump(_GEMINI, file, indent=2)
    return {"GEMINI_CLI_HOME": str(folder / "gemini")}


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
