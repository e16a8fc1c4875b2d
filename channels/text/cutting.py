"""Blocks are cut in two at the best place before some number of characters."""

from __future__ import annotations

from dataclasses import replace

from channels.text.characters import best_cut
from channels.text.parse import LEADING_BLANK_LINES
from channels.text.tree import (
    Block,
    Blocks,
    Code,
    Heading,
    List,
    Paragraph,
    Quote,
    Rule,
    Run,
    Runs,
    stripped,
    text_of,
    texts,
)

Halves = tuple[Blocks, Blocks]


def weight(block: Block, enough: int) -> int:
    """Roughly the number of characters of a block; counting stops when there are enough."""
    total = 2
    for text in texts(block):
        total += len(text)
        if total > enough:
            break
    return total


def cut(blocks: Blocks, room: int) -> Halves:
    """The blocks up to roughly `room` characters, and the others. The first half is never empty.

    The end of a block is the best place, if the first half gets half full; else the block is cut.
    """
    used = 0
    for index, block in enumerate(blocks):
        cost = weight(block, room)
        if used + cost <= room:
            used += cost
            continue
        if index and used >= room // 2:
            return _keeping_headings(blocks, index)
        if index and (room - used < 16 or isinstance(block, Rule)):
            return blocks[:index], blocks[index:]
        head, tail = cut_block(block, max(1, room - used))
        return (*blocks[:index], *head), (*tail, *blocks[index + 1 :])
    return blocks, ()


def _keeping_headings(blocks: Blocks, index: int) -> Halves:
    """A cut that leaves no heading alone at the end."""
    last = index
    while last > 1 and isinstance(blocks[last - 1], Heading):
        last -= 1
    return blocks[:last], blocks[last:]


def cut_block(block: Block, room: int) -> Halves:
    """One block in two halves, neither of which still stands in the source."""
    match block:
        case Paragraph():
            first, rest = _cut_runs(block.runs, room)
            return (Paragraph(first),), (Paragraph(rest),) if rest else ()
        case Heading():
            first, rest = _cut_runs(block.runs, room)
            return (Heading(block.level, first),), (Heading(block.level, rest),) if rest else ()
        case Code():
            return _cut_code(block, room)
        case Rule():
            return (block,), ()
        case Quote():
            head, tail = cut(block.blocks, room)
            return (Quote(head),), (Quote(tail),) if tail else ()
        case List():
            return _cut_list(block, room)


def _cut_runs(runs: Runs, room: int) -> tuple[Runs, Runs]:
    # Only as much text as matters: the rest may be long.
    taken, length = 0, 0
    while taken < len(runs) and length <= room:
        length += len(runs[taken].text)
        taken += 1
    place = best_cut(text_of(runs[:taken]), room)
    first: list[Run] = []
    for index, run in enumerate(runs[:taken]):
        if place < len(run.text):
            rest = (replace(run, text=run.text[place:]), *runs[index + 1 :])
            if place:
                first.append(replace(run, text=run.text[:place]))
            return stripped(tuple(first)), stripped(rest)
        place -= len(run.text)
        first.append(run)
    return stripped(tuple(first)), stripped(runs[taken:])


def _cut_code(code: Code, room: int) -> Halves:
    place = code.text.rfind("\n", 0, room + 1)
    if place <= 0:
        place = best_cut(code.text[: room + 1], room)
    head = Code(code.text[:place].rstrip(), code.language)
    tail = Code(LEADING_BLANK_LINES.sub("", code.text[place:]), code.language)
    return (head,), (tail,) if tail.text.strip() else ()


def _cut_list(block: List, room: int) -> Halves:
    used = 0
    for index, item in enumerate(block.items):
        part = List((item,))
        cost = weight(part, room)
        if used + cost <= room:
            used += cost
            continue
        if index and (used >= room // 2 or not item.blocks or room - used < 16):
            return (_part(block, 0, index),), (_part(block, index),)
        return _cut_item(block, index, max(1, room - used - len(item.marker)))
    return (_part(block, 0),), ()


def _cut_item(block: List, index: int, room: int) -> Halves:
    """A list cut inside one of its entries. The entry goes on without its sign."""
    item = block.items[index]
    head, tail = cut(item.blocks, room) if item.blocks else ((), ())
    first = replace(_part(block, 0, index), items=(*block.items[:index], replace(item, blocks=head, lines=None)))
    return (first,), (*tail, _part(block, index + 1)) if block.items[index + 1 :] else tail


def _part(block: List, start: int, end: int | None = None) -> List:
    return List(block.items[start:end], block.loose)
