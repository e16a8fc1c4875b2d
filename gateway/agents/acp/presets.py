"""Agents that are known by name: how they are started, and what they are called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import PurePath


class Preset(StrEnum):
    GEMINI = "gemini"
    CLAUDE = "claude"
    CODEX = "codex"
    OPENCODE = "opencode"
    QWEN = "qwen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How an agent is started."""

    #: What people know it by.
    name: str
    #: `{workspace}` in an argument becomes the absolute path of the repository.
    command: tuple[str, ...]
    #: For versions that do not know an argument of it.
    older: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    #: It spoils a session that is loaded in the minute in which it was made.
    loads_later: bool = False


_OPENCODE = {
    "permission": {"bash": "ask", "edit": "ask", "webfetch": "ask"},
    "autoupdate": False,
    "share": "disabled",
}

_LAUNCHES = {
    # Without NO_RELAUNCH the process that we start is only a shell around the one that works.
    Preset.GEMINI: Launch(
        name="Gemini CLI",
        command=("gemini", "--acp"),
        older=("gemini", "--experimental-acp"),
        env={"GEMINI_CLI_NO_RELAUNCH": "true", "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        loads_later=True,
    ),
    Preset.CLAUDE: Launch(name="Claude Agent", command=("claude-agent-acp",)),
    Preset.CODEX: Launch(name="Codex", command=("codex-acp",)),
    # Unless it is told to, it asks for nothing. Merged over the settings in files.
    Preset.OPENCODE: Launch(
        name="opencode",
        command=("opencode", "acp"),
        env={"OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE)},
    ),
    Preset.QWEN: Launch(name="Qwen Code", command=("qwen", "--acp")),
}


def launch(preset: Preset | None, command: tuple[str, ...]) -> Launch:
    """A preset, perhaps with another program (a command of one element) or another command; or a command alone."""
    if preset is None:
        return Launch(name=PurePath(command[0]).name, command=command)
    known = _LAUNCHES[preset]
    if len(command) > 1:
        return replace(known, command=command, older=None)
    if command:
        older = None if known.older is None else (*command, *known.older[1:])
        return replace(known, command=(*command, *known.command[1:]), older=older)
    return known
