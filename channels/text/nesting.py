"""Runs become spans that lie inside each other or apart, and never cross."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from channels.text.tree import Run, Style

MARKS = (Style.QUOTE, Style.SPOILER, Style.BOLD, Style.ITALIC, Style.STRIKE, Style.PRE, Style.CODE)
#: These hold text only, so that they are opened last.
INNERMOST = frozenset({Style.PRE, Style.CODE})


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that a stretch of text is: a style, or a link to somewhere."""

    style: Style = Style.NONE
    link: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens at one place: marks end, marks begin, then there is text."""

    closed: tuple[Mark, ...]
    opened: tuple[Mark, ...]
    text: str = ""


def steps(runs: Sequence[Run]) -> Iterator[Step]:
    """The runs as properly nested beginnings and ends; the last step has ends only."""
    reach = _reaches(runs)
    stack: list[Mark] = []
    for run, ends in zip(runs, reach, strict=True):
        closed: list[Mark] = []
        while any(mark not in ends for mark in stack):
            closed.append(stack.pop())
        missing = [mark for mark in ends if mark not in stack]
        # What lasts longest is opened first, and so need not be closed for the others' sake.
        missing.sort(key=lambda mark: (mark.style in INNERMOST, -ends[mark]))
        stack.extend(missing)
        yield Step(tuple(closed), tuple(missing), run.text)
    yield Step(tuple(reversed(stack)), ())


def _reaches(runs: Sequence[Run]) -> list[dict[Mark, int]]:
    """For each run its marks, and up to which run each of them goes on."""
    reaches: list[dict[Mark, int]] = []
    after: dict[Mark, int] = {}
    for index in range(len(runs) - 1, -1, -1):
        after = {mark: after.get(mark, index) for mark in _marks(runs[index])}
        reaches.append(after)
    reaches.reverse()
    return reaches


def _marks(run: Run) -> Iterator[Mark]:
    if run.link:
        yield Mark(link=run.link)
    if not run.style:
        return
    for style in MARKS:
        if style in run.style:
            yield Mark(style, language=run.language if style is Style.PRE else "")
