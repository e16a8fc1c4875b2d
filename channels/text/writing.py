"""Blocks become Markdown again, such that reading it gives the same blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from channels.text.delimiters import Dialect, written
from channels.text.inlines import BREAK, inline_runs
from channels.text.plain import with_addresses
from channels.text.tree import (
    Block,
    Code,
    Heading,
    Item,
    List,
    Paragraph,
    Quote,
    Rule,
    Run,
    Runs,
    Style,
    merged,
    stripped,
    text_of,
)

SPECIAL = re.compile(r"[\\`*_\[\]<>~|&#]")
LINE_START = re.compile(r"^[-+=:]", re.MULTILINE)
NUMBER_START = re.compile(r"^(\d{1,9})([.)])(?=\s|$)", re.MULTILINE)


def write_blocks(blocks: Iterable[Block]) -> str:
    """The blocks as Markdown, with an empty line between them."""
    return "\n".join(_apart(_lines(block) for block in blocks))


def _apart(parts: Iterable[list[str]]) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines:
            lines.append("")
        lines.extend(part)
    return lines


def _lines(block: Block) -> list[str]:
    match block:
        case Paragraph():
            return write_inline(block.runs).split("\n")
        case Heading():
            one_line = tuple(replace(run, text=run.text.replace("\n", " ")) for run in block.runs)
            return [f"{'#' * block.level} {write_inline(one_line)}"]
        case Code():
            return _fenced(block)
        case Rule():
            return ["___"]
        case Quote():
            return [f"> {line}".rstrip() for line in _apart(_lines(child) for child in block.blocks)]
        case List():
            items = [_item(item) for item in block.items]
            return _apart(items) if block.loose else [line for item in items for line in item]


def _fenced(code: Code) -> list[str]:
    longest = max((len(ticks) for ticks in re.findall("`+", code.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + code.language, *code.text.split("\n"), fence]


def _item(item: Item) -> list[str]:
    indent = " " * (len(item.marker) + 1)
    lines = _apart(_lines(child) for child in item.blocks)
    if item.done is not None:
        lines[:1] = [f"[{'x' if item.done else ' '}] {''.join(lines[:1])}"]
    head, *rest = [f"{indent}{line}".rstrip() for line in lines] or [""]
    return [f"{item.marker} {head.strip()}".rstrip(), *rest]


def write_inline(runs: Runs) -> str:
    """The runs as Markdown. Styles that Markdown cannot express here are left out, text never."""
    runs = _normal(runs)
    if not any(run.style or run.link for run in runs):
        return _guarded(_escape(text_of(runs)))
    for attempt in (runs, _without_emphasis(runs)):
        text = _guarded(written(attempt, DIALECT))
        if _content(inline_runs(text)) == _content(attempt):
            return text
    return _guarded(_escape(text_of(with_addresses(runs))))


def _normal(runs: Runs) -> Runs:
    return merged(stripped(tuple(Run(BREAK.sub("\n", run.text), run.style, run.link) for run in runs)))


def _content(runs: Runs) -> list[tuple[str, str]]:
    """What must survive: the text without white space, and where its links go."""
    inked = [run for run in runs if not run.text.isspace()]
    return [(link, "".join(text_of(group).split())) for link, group in groupby(inked, key=lambda run: run.link)]


def _without_emphasis(runs: Runs) -> Runs:
    return merged(replace(run, style=run.style & Style.CODE) for run in runs)


def _guarded(text: str) -> str:
    """The text with nothing at the begin of a line that would begin a block."""
    text = re.sub(r"\s*\n\s*", "\n", text.strip())
    return NUMBER_START.sub(r"\1\\\2", LINE_START.sub(r"\\\g<0>", text))


def _escape(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text)


def _code(text: str) -> str:
    lengths = {len(ticks) for ticks in re.findall("`+", text)}
    fence = "`" * next(length for length in range(1, len(lengths) + 2) if length not in lengths)
    return f"{fence} {text} {fence}" if lengths else f"{fence}{text}{fence}"


def _link_end(url: str) -> str:
    return f"](<{url.replace('&', '&amp;')}>)"


DIALECT = Dialect(
    marks={Style.BOLD: "**", Style.ITALIC: "*", Style.STRIKE: "~~", Style.SPOILER: "||"},
    escape=_escape,
    code=_code,
    link_end=_link_end,
)
