"""Who decides about a tool call: the configuration at once, or a person. Paths outside the repository are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from gateway.agents.protocol import Option, OptionKind, ToolUpdate
from routing import workspace


class Mode(StrEnum):
    """What happens when an agent asks for permission."""

    ASK = "ask"
    #: Reading and searching in the repository is allowed, the rest is asked.
    ALLOW_READS = "allow-reads"
    ALLOW = "allow"
    DENY = "deny"


class Verdict(StrEnum):
    ALLOW = "allow"
    REJECT = "reject"
    ASK = "ask"
    #: It reaches beyond the repository.
    OUTSIDE = "outside"


_READING = {"read", "search"}
#: Where tools keep paths in what they are called with; each agent has its own names.
_PATHS = ("path", "file_path", "absolute_path", "filePath", "filename", "dir_path", "directory", "abs_path")


def judge(mode: Mode, call: ToolUpdate, repo: Path) -> Verdict:
    """What an agent says about its call is its own claim; a call that names no path may still reach anything."""
    if mode is Mode.DENY:
        return Verdict.REJECT
    if not all(inside(repo, path) for path in paths(call)):
        return Verdict.OUTSIDE
    if mode is Mode.ALLOW or (mode is Mode.ALLOW_READS and call.args.get("kind") in _READING):
        return Verdict.ALLOW
    return Verdict.ASK


def inside(repo: Path, path: str) -> bool:
    """Whether a path that an agent names lies in its repository, with symlinks followed."""
    try:
        return workspace.inside(repo, (repo / path).resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def paths(call: ToolUpdate) -> Iterator[str]:
    yield from (path for path in call.args.get("locations", ()) if isinstance(path, str))
    yield from (diff.path for diff in call.diffs)
    given: Any = call.args.get("input")
    if isinstance(given, dict):
        yield from (given[name] for name in _PATHS if isinstance(given.get(name), str))


def allowing(options: Sequence[Option]) -> str | None:
    return _first(options, OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS)


def rejecting(options: Sequence[Option]) -> str | None:
    """A refusal is a choice like any other; "cancelled" is for a turn that was broken off."""
    return _first(options, OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)


def rejects(options: Sequence[Option], chosen: str | None) -> bool:
    kind = next((one.kind for one in options if one.id == chosen), None)
    return kind in {None, OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS}


def _first(options: Sequence[Option], *kinds: OptionKind) -> str | None:
    return next((one.id for kind in kinds for one in options if one.kind is kind), None)
