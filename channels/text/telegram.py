"""Markdown for Telegram: text, and entities that say what its stretches are.

Entities instead of a parse mode: no text can make them malformed, so Telegram has no reason to refuse a message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from channels.text.characters import utf16_length
from channels.text.layout import laid_out
from channels.text.nesting import Mark, steps
from channels.text.parse import parse
from channels.text.plain import with_addresses
from channels.text.splitting import split_to_fit
from channels.text.tree import Blocks, Run, Runs, Style, merged, text_of

MAX_LENGTH = 4096
MAX_ENTITIES = 100

TYPES = {
    Style.BOLD: "bold",
    Style.ITALIC: "italic",
    Style.STRIKE: "strikethrough",
    Style.SPOILER: "spoiler",
    Style.CODE: "code",
    Style.PRE: "pre",
    Style.QUOTE: "blockquote",
}
#: What is kept first if there are too many: what carries meaning before what is only emphasis.
IMPORTANT = ("text_link", "pre", "blockquote", "spoiler", "code")


@dataclass(frozen=True, slots=True)
class Entity:
    """What a stretch of text is. Offset and length count UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message for Telegram."""

    text: str
    entities: tuple[Entity, ...] = ()


def render(markdown: str) -> Rendered:
    """A Markdown text for Telegram. All its text is visible, whatever its markup."""
    runs = _runs(parse(markdown))
    entities = tuple(_entities(runs))
    if sum(entity.type == "text_link" for entity in entities) > MAX_ENTITIES:
        runs = merged(replace(run, link="") for run in with_addresses(runs))
        entities = tuple(_entities(runs))
    return Rendered(text_of(runs), _most_important(entities))


def split(markdown: str, limit: int = MAX_LENGTH) -> list[str]:
    """The text in parts whose rendering, and whose plain form too, Telegram takes as one message each.

    The limit is another one for captions of pictures and files.
    """
    return split_to_fit(markdown, limit, lambda blocks: _size(blocks, limit))


def _size(blocks: Blocks, limit: int) -> int:
    """The length; for too many entities a length that is as much too large."""
    runs = _runs(blocks)
    length = utf16_length(text_of(with_addresses(runs)))
    entities = sum(len(step.opened) for step in steps(runs))
    return max(length, entities * limit // MAX_ENTITIES if entities > MAX_ENTITIES else 0)


def _runs(blocks: Blocks) -> Runs:
    return _trimmed([_telegram_style(run) if run.style else run for run in laid_out(blocks)])


def _telegram_style(run: Run) -> Run:
    """The run without what Telegram forbids together: code goes with quotes only, and not with links."""
    if Style.PRE in run.style:
        return replace(run, style=run.style & (Style.PRE | Style.QUOTE), link="")
    if Style.CODE in run.style:
        allowed = Style.QUOTE if run.link else Style.CODE | Style.QUOTE
        return replace(run, style=run.style & allowed)
    return run


def _trimmed(runs: list[Run]) -> Runs:
    """The runs as Telegram trims them: all white space at the end, and at the begin if it is not that of code."""
    while runs and Style.PRE not in runs[0].style:
        runs[0] = replace(runs[0], text=runs[0].text.lstrip())
        if runs[0].text:
            break
        del runs[0]
    while runs:
        runs[-1] = replace(runs[-1], text=runs[-1].text.rstrip())
        if runs[-1].text:
            break
        del runs[-1]
    return merged(runs)


def _entities(runs: Runs) -> Iterator[Entity]:
    """Entities in the order of their ends; those of nothing but white space are left out."""
    begun: list[tuple[Mark, int, int]] = []
    text: list[str] = []
    offset = 0
    for step in steps(runs):
        for _ in step.closed:
            mark, start, index = begun.pop()
            if not "".join(text[index:]).isspace():
                yield _entity(mark, start, offset - start)
        begun.extend((mark, offset, len(text)) for mark in step.opened)
        text.append(step.text)
        offset += utf16_length(step.text)


def _entity(mark: Mark, offset: int, length: int) -> Entity:
    if mark.link:
        return Entity("text_link", offset, length, url=mark.link)
    return Entity(TYPES[mark.style], offset, length, language=mark.language or None)


def _most_important(entities: tuple[Entity, ...]) -> tuple[Entity, ...]:
    ranked = sorted(enumerate(entities), key=lambda pair: pair[1].type not in IMPORTANT)[:MAX_ENTITIES]
    # Of two that cover the same text, the one that ended last is the outer one.
    ranked.sort(key=lambda pair: (pair[1].offset, -pair[1].length, -pair[0]))
    return tuple(entity for _, entity in ranked)
