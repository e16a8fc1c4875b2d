"""What a run changed in files, as one file for people to read."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from gateway import phrases
from gateway.agents.protocol import Diff
from gateway.questions.wording import line

#: Characters of one file: comparing longer ones takes too long.
_FILE = 200_000
#: Characters of the whole.
_WHOLE = 500_000
_PATH = 300


def unified(diffs: Sequence[Diff]) -> str:
    """One unified diff after the other; too much of it is left out, and that is said."""
    parts: list[str] = []
    size = 0
    for number, diff in enumerate(diffs):
        part = "".join(_lines(diff))
        size += len(part)
        if size > _WHOLE:
            parts.append(phrases.CHANGES_CUT.format(count=len(diffs) - number) + "\n")
            break
        parts.append(part)
    return "".join(parts)


def _lines(diff: Diff) -> Iterator[str]:
    path = line(diff.path, _PATH)
    before = "/dev/null" if diff.old is None else path
    if len(diff.old or "") + len(diff.new) > _FILE:
        yield f"--- {before}\n+++ {path}\n{phrases.CHANGE_TOO_LARGE}\n"
        return
    old, new = _split(diff.old or ""), _split(diff.new)
    for one in difflib.unified_diff(old, new, before, path):
        yield one if one.endswith("\n") else f"{one}\n\\ No newline at end of file\n"


def _split(text: str) -> list[str]:
    """Only line feeds end a line, as other programs read it."""
    return text.splitlines(keepends=True) if "\r" not in text else [f"{one}\n" for one in text.split("\n")]
