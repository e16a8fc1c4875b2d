"""The two agents of `make test-agents`: where they were installed, and what they need to ask our model."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Where `make test-agents` installs what requirements/agents pins.
INSTALLED = Path(__file__).parents[2] / "build" / "agents" / "node_modules"


@dataclass(frozen=True, slots=True)
class RealAgent:
    """One agent, and the configuration that points it to a model of ours."""

    preset: str
    package: str
    #: What it is not to load in the minute in which it was made.
    loads_later: bool = False

    @property
    def version(self) -> str:
        return str(json.loads((INSTALLED / self.package / "package.json").read_text())["version"])

    def table(self, repo: str, url: str) -> dict[str, Any]:
        """As it stands in a configuration: what the preset does not know is where our model is."""
        program = INSTALLED / ".bin" / "gemini" if self.preset == "gemini" else _opencode_program()
        env = _gemini(url) if self.preset == "gemini" else {"OPENCODE_DISABLE_MODELS_FETCH": "1"}
        return {
            "kind": "acp",
            "preset": self.preset,
            "command": [str(program)],
            "repo": repo,
            "permissions": "ask",
            "env": dict(env),
        }


def _opencode_program() -> Path:
    """Its launcher is put in place by a script of the package, and those do not run here."""
    baseline = "avx2" not in Path("/proc/cpuinfo").read_text().split()
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    return INSTALLED / f"opencode-linux-{machine}{'-baseline' * baseline}" / "bin" / "opencode"


def _gemini(url: str) -> Mapping[str, str]:
    return {"GEMINI_API_KEY": "fake", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_MODEL": "gemini-2.5-flash"}


def settle_opencode(home: Path, url: str) -> None:
    """Its settings, as somebody keeps them at home; that it has to ask is the preset's affair."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": f"{url}/v1", "apiKey": "fake"},
        "models": {"fake-model": {"name": "Fake"}},
    }
    config = {"model": "fake/fake-model", "small_model": "fake/fake-model", "provider": {"fake": provider}}
    file = home / ".config" / "opencode" / "opencode.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(config))


GEMINI = RealAgent("gemini", "@google/gemini-cli", loads_later=True)
OPENCODE = RealAgent("opencode", "opencode-ai")


def processes(home: Path) -> list[int]:
    """Those of installed agents that live in a home directory, also if nobody is their parent any more."""
    mark = f"HOME={home}".encode()
    return [pid for pid in _everybody() if mark in _read(pid, "environ").split(b"\0") and _is_agent(pid)]


def _is_agent(pid: int) -> bool:
    return str(INSTALLED).encode() in _read(pid, "cmdline")


def _everybody() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has just ended, or is not ours
        return b""


def memory_mb(pids: list[int]) -> int:
    """Proportional: what processes share is counted once."""
    lines = [line for pid in pids for line in _read(pid, "smaps_rollup").splitlines() if line.startswith(b"Pss:")]
    return sum(int(line.split()[1]) for line in lines) // 1024
