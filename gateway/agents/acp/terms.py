"""How an agent's sessions are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.agents.acp.permissions import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    agent: str
    #: What people know it by.
    name: str
    repo: Path
    mode: Mode
    #: Without a sign of life for so long, people are told, in seconds.
    silence: float
    #: After a turn that was broken off, the process is started again.
    restarts: bool
    #: Masks what must not be stored.
    redact: Callable[[str], str]
