"""The intermediate form: blocks of styled runs, the same for every platform."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import TypeVar


class Style(Flag):
    """How a run looks. PRE and QUOTE come from blocks, the others from the text itself."""

    NONE = 0
    BOLD = auto()
    ITALIC = auto()
    STRIKE = auto()
    SPOILER = auto()
    CODE = auto()
    PRE = auto()
    QUOTE = auto()


@dataclass(frozen=True, slots=True)
class Run:
    """Text in one style. Line breaks are newlines; the text is never empty."""

    text: str
    style: Style = Style.NONE
    link: str = ""
    #: The language of a block of code (style PRE).
    language: str = ""


Runs = tuple[Run, ...]
#: First and one past the last line in the source, for blocks that stand there whole.
Lines = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Paragraph:
    runs: Runs
    lines: Lines = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    runs: Runs
    lines: Lines = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Code:
    """A block of code, or a table that is drawn with characters of one width."""

    text: str
    language: str = ""
    lines: Lines = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Rule:
    lines: Lines = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: tuple[Block, ...]
    lines: Lines = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a list."""

    #: As written: "-", "*" or "+", or a number with "." or ")".
    marker: str
    blocks: tuple[Block, ...]
    #: For entries of a task list: whether it is done.
    done: bool | None = None
    #: For entries of a list that is in nothing else.
    lines: Lines = field(default=None, compare=False)

    @property
    def numbered(self) -> bool:
        return self.marker[-1] in ".)"


@dataclass(frozen=True, slots=True)
class List:
    items: tuple[Item, ...]
    #: Whether the entries stand apart, with an empty line between them.
    loose: bool = False
    lines: Lines = field(default=None, compare=False)


Block = Paragraph | Heading | Code | Rule | Quote | List
Blocks = tuple[Block, ...]
AnyBlock = TypeVar("AnyBlock", Paragraph, Heading, Code, Rule, Quote, List)


def merged(runs: Iterable[Run]) -> Runs:
    """The same runs, without empty ones and with neighbours of the same look joined."""
    joined: list[Run] = []
    same: list[str] = []
    for run in runs:
        if not run.text:
            continue
        if joined and alike(joined[-1], run):
            same.append(run.text)
            continue
        if same:
            joined[-1] = _longer(joined[-1], same)
            same = []
        joined.append(run)
    if same:
        joined[-1] = _longer(joined[-1], same)
    return tuple(joined)


def _longer(run: Run, more: list[str]) -> Run:
    return Run("".join((run.text, *more)), run.style, run.link, run.language)


def alike(one: Run, other: Run) -> bool:
    """Whether two runs look the same."""
    return one.style == other.style and one.link == other.link and one.language == other.language


def text_of(runs: Iterable[Run]) -> str:
    return "".join(run.text for run in runs)


def stripped(runs: Runs) -> Runs:
    """The runs without white space at both ends."""
    kept = list(runs)
    while kept and (text := kept[0].text.lstrip()) != kept[0].text:
        kept[0:1] = [replace(kept[0], text=text)] if text else []
    while kept and (text := kept[-1].text.rstrip()) != kept[-1].text:
        kept[-1:] = [replace(kept[-1], text=text)] if text else []
    return tuple(kept)


def texts(block: Block) -> Iterator[str]:
    """Every piece of text of a block, in order, and something for each sign that is drawn without text."""
    match block:
        case Paragraph() | Heading():
            for run in block.runs:
                yield run.text
        case Code():
            yield block.text
        case Rule():
            yield "—"
        case Quote():
            for child in block.blocks:
                yield from texts(child)
        case List():
            for item in block.items:
                yield item.marker
                for child in item.blocks:
                    yield from texts(child)
