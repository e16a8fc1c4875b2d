"""Markdown for Discord: its own dialect, with everything escaped that it would misread."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from channels.text.characters import URL, utf16_length
from channels.text.delimiters import Dialect, written
from channels.text.layout import BOXES, LINE
from channels.text.parse import parse
from channels.text.plain import with_addresses
from channels.text.splitting import split_to_fit
from channels.text.tree import (
    Block,
    Blocks,
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
    text_of,
)

MAX_LENGTH = 2000
#: Discord has no escapes inside code; an invisible space keeps three backticks from ending it.
APART = "\u200b"
SPECIAL = re.compile(r"[\\*`~|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?:\A|(?<=\]))\(|<(?=[@#:/&]|[at]:|id:|https?:)")
LINE_START = re.compile(r"^([ \t]*)(>|#{1,3}(?= )|-(?=[ #])|\+(?= ))", re.MULTILINE)
NUMBER_START = re.compile(r"^([ \t]*\d+)\.(?=\s|$)", re.MULTILINE)
#: A line of the message, and whether it may be indented: code may not.
Line = tuple[str, bool]


def render(markdown: str) -> str:
    """A Markdown text for Discord. All its text is visible, whatever its markup."""
    return _message(parse(markdown))


def split(markdown: str, limit: int = MAX_LENGTH) -> list[str]:
    """The text in parts whose rendering Discord takes as one message each."""
    return split_to_fit(markdown, limit, lambda blocks: utf16_length(_message(blocks)))


def _message(blocks: Blocks) -> str:
    lines: list[Line] = []
    for index, block in enumerate(blocks):
        # Headings have a margin of their own.
        if index and not isinstance(blocks[index - 1], Heading):
            lines.append(("", True))
        lines.extend(_block(block, nested=False))
    return "\n".join(text for text, _ in lines).strip()


def _block(block: Block, *, nested: bool) -> Iterator[Line]:
    match block:
        case Paragraph():
            yield from _lines(_inline(block.runs))
        case Heading():
            yield _heading(block, nested=nested)
        case Code():
            text = re.sub("`(?=``)", "`" + APART, block.text)
            yield from ((line, False) for line in (f"```{block.language}", *text.split("\n"), "```"))
        case Rule():
            yield LINE, True
        case Quote():
            prefix = r"\> " if nested else "> "
            for line, indentable in _below(block.blocks):
                yield prefix + line, indentable
        case List():
            yield from _list(block)


def _below(blocks: Iterable[Block]) -> Iterator[Line]:
    for block in blocks:
        yield from _block(block, nested=True)


def _lines(text: str) -> Iterator[Line]:
    return ((line, True) for line in text.split("\n"))


def _heading(heading: Heading, *, nested: bool) -> Line:
    runs = tuple(replace(run, text=run.text.replace("\n", " ")) for run in heading.runs)
    if heading.level <= 3 and not nested:
        return f"{'#' * heading.level} {_inline(runs)}", True
    return _inline(tuple(replace(run, style=run.style | Style.BOLD) for run in runs)), True


def _list(block: List) -> Iterator[Line]:
    in_order = _counts_up(block.items)
    for index, item in enumerate(block.items):
        if index and block.loose:
            yield "", True
        yield from _item(item, in_order=in_order)


def _counts_up(items: tuple[Item, ...]) -> bool:
    """Whether Discord, which counts by itself, would show the numbers that are written."""
    numbers = [int(item.marker[:-1]) for item in items if item.numbered]
    return all(number == numbers[0] + index for index, number in enumerate(numbers))


def _item(item: Item, *, in_order: bool) -> Iterator[Line]:
    sign = item.marker if item.numbered else "-"
    if item.numbered and not in_order:
        sign = rf"{sign[:-1]}\{sign[-1]}"
    if item.done is not None:
        sign += f" {BOXES[item.done]}"
    indent = "   " if item.numbered else "  "
    lines = list(_below(item.blocks)) or [("", True)]
    if not lines[0][1]:
        lines.insert(0, ("", True))
    for index, (line, indentable) in enumerate(lines):
        if index == 0:
            yield f"{sign} {line}".rstrip(), True
        else:
            yield (indent + line if indentable else line), indentable


def _inline(runs: Runs) -> str:
    text = written(_with_possible_links(runs), DIALECT)
    return NUMBER_START.sub(r"\1\\.", LINE_START.sub(r"\1\\\2", text))


def _with_possible_links(runs: Runs) -> Runs:
    """The runs with the links that Discord has: text for an http address. Others show the address."""
    if not any(run.link for run in runs):
        return runs
    shown: list[Run] = []
    for link, group in groupby(runs, key=lambda run: run.link):
        label = tuple(group)
        if link.lower().startswith("http") and text_of(label) != link:
            shown.extend(label)
        else:
            shown.extend(replace(run, link="") for run in with_addresses(label))
    return merged(shown)


def _escape(text: str) -> str:
    out: list[str] = []
    end = 0
    for match in URL.finditer(text):
        out += (SPECIAL.sub(r"\\\g<0>", text[end : match.start()]), match.group())
        end = match.end()
    return "".join((*out, SPECIAL.sub(r"\\\g<0>", text[end:])))


def _code(text: str) -> str:
    text = re.sub("`(?=``)", "`" + APART, text)
    lengths = {len(ticks) for ticks in re.findall("`+", text)}
    if lengths == {1, 2}:
        text = text.replace("``", f"`{APART}`")
    fence = "``" if 1 in lengths else "`"
    return f"{fence} {text} {fence}" if lengths else f"{fence}{text}{fence}"


def _link_end(url: str) -> str:
    return f"]({url.replace('(', '%28').replace(')', '%29')})"


DIALECT = Dialect(
    marks={Style.BOLD: "**", Style.ITALIC: "*", Style.STRIKE: "~~", Style.SPOILER: "||"},
    escape=_escape,
    code=_code,
    link_end=_link_end,
    between=APART,
)
