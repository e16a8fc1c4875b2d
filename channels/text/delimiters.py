"""Runs become text with marks around them, for the Markdown of any dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from channels.text.nesting import Mark, steps
from channels.text.tree import Run, Runs, Style, merged


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one kind of Markdown writes what is in a line."""

    marks: Mapping[Style, str]
    escape: Callable[[str], str]
    code: Callable[[str], str]
    link_end: Callable[[str], str]
    #: Put between two marks that would be read as one.
    between: str = ""


def written(runs: Runs, dialect: Dialect) -> str:
    """The runs in a dialect. White space stands outside of marks, where it does no harm."""
    if len(runs) == 1 and not runs[0].style and not runs[0].link:
        return dialect.escape(runs[0].text)
    out: list[str] = []
    in_code = False
    for step in steps(_settled(runs)):
        closing = "".join(_close(mark, dialect) for mark in step.closed)
        opening = "".join(_open(mark, dialect) for mark in step.opened)
        in_code = _code_after(step.closed, step.opened, in_code)
        if closing and opening:
            closing += dialect.between
        if closing and out and out[-1].isspace():
            out.insert(len(out) - 1, closing)
        else:
            out.append(closing)
        if step.text.isspace():
            out.extend((step.text, opening))
        else:
            out.extend((opening, dialect.code(step.text) if in_code else dialect.escape(step.text)))
    return "".join(out)


def _code_after(closed: tuple[Mark, ...], opened: tuple[Mark, ...], in_code: bool) -> bool:
    if any(mark.style is Style.CODE for mark in opened):
        return True
    return in_code and not any(mark.style is Style.CODE for mark in closed)


def _open(mark: Mark, dialect: Dialect) -> str:
    return "[" if mark.link else dialect.marks.get(mark.style, "")


def _close(mark: Mark, dialect: Dialect) -> str:
    return dialect.link_end(mark.link) if mark.link else dialect.marks.get(mark.style, "")


def _settled(runs: Runs) -> Runs:
    """The runs with white space at their ends as runs of their own, in the look that both neighbours share."""
    parts = [part for run in runs for part in _parts(run)]
    settled: list[Run] = []
    for index, part in enumerate(parts):
        if not part.text.isspace():
            settled.append(part)
            continue
        before = settled[-1] if settled else Run("")
        after = next((later for later in parts[index + 1 : index + 4] if not later.text.isspace()), Run(""))
        link = before.link if before.link == after.link else ""
        settled.append(Run(part.text, before.style & after.style & ~Style.CODE, link))
    return merged(settled)


def _parts(run: Run) -> Iterator[Run]:
    text = run.text.replace("\n", " ") if run.link else run.text
    core = text.strip()
    if not core:
        yield Run(text, run.style, run.link)
        return
    start = text.index(core)
    for piece in (text[:start], core, text[start + len(core) :]):
        if piece:
            yield Run(piece, run.style, run.link)
