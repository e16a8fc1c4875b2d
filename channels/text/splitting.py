"""A long text becomes parts that fit, each of them Markdown that stands for itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby

from channels.text.cutting import cut, cut_block, weight
from channels.text.parse import normalized, parse, visible
from channels.text.tree import Block, Blocks, Lines, List
from channels.text.writing import write_blocks

#: The rendered size of some blocks.
Measure = Callable[[Blocks], int]
#: Longer blocks are cut into pieces of that many parts first.
COARSE = 4


def split_to_fit(markdown: str, limit: int, measure: Measure) -> list[str]:
    """The text in parts whose rendered size is within the limit. No part is blank; a blank text has no parts."""
    blocks = parse(markdown)
    if not blocks:
        return []
    if sum(weight(block, 2 * limit) for block in blocks) <= 2 * limit and measure(blocks) <= limit:
        return [markdown]
    return list(_Splitter(normalized(markdown).split("\n"), limit, measure).parts(blocks))


class _Splitter:
    def __init__(self, lines: list[str], limit: int, measure: Measure) -> None:
        self.lines = lines
        self.limit = limit
        self.measure = measure
        self.room = limit

    def parts(self, blocks: Blocks) -> Iterator[str]:
        waiting = deque(piece for block in blocks for piece in self._coarse(block))
        # Only the next blocks are looked at, so that the time does not grow with the square of the length.
        most = self.limit // 2
        while waiting:
            head, tail = self._next(tuple(waiting.popleft() for _ in range(min(most, len(waiting)))))
            waiting.extendleft(reversed(tail))
            if head:
                yield head

    def _coarse(self, block: Block) -> Iterator[Block]:
        """A block that is very long in pieces, because each cut costs as much as what is left."""
        size = COARSE * self.limit
        pieces: Blocks = (block,)
        while pieces and weight(pieces[0], size) > size:
            head, tail = cut_block(pieces[0], size)
            yield from head
            pieces = (*tail, *pieces[1:])
        yield from pieces

    def _next(self, blocks: Blocks) -> tuple[str, Blocks]:
        """The next part, as much as fits, and the blocks after it."""
        # Begin with what the last part has shown to be possible.
        room = min(self.limit, self.room * 5 // 4 + 16)
        while True:
            head, tail = cut(blocks, room)
            if not any(visible(block) for block in head):
                return "", tail
            size = self.measure(head)
            if size <= self.limit or room == 1:
                part = self._written(head)
                size = self._size_when_read(part, head)
                if size <= self.limit or room == 1:
                    self.room = room
                    return part, tail
            room = max(1, min(room - 1, room * self.limit // size, sum(weight(block, room) for block in head) - 1))

    def _written(self, head: Blocks) -> str:
        """Blocks that stand whole in the source are taken from there, the others are written anew."""
        pieces: list[str] = []
        for whole, group in groupby(head, key=_stands_in_source):
            together = list(group)
            pieces.append(self._source(together) if whole else write_blocks(together))
        return "\n\n".join(pieces)

    def _source(self, blocks: list[Block]) -> str:
        first, last = _source_lines(blocks[0]), _source_lines(blocks[-1])
        assert first
        assert last
        return "\n".join(self.lines[first[0] : last[1]]).rstrip()

    def _size_when_read(self, part: str, head: Blocks) -> int:
        if all(_stands_in_source(block) for block in head):
            return 0
        return self.measure(parse(part))


def _stands_in_source(block: Block) -> bool:
    return _source_lines(block) is not None


def _source_lines(block: Block) -> Lines:
    """Where a block stands. A part of a list stands there too, if it has whole entries only."""
    if isinstance(block, List) and not block.lines:
        first, last = block.items[0].lines, block.items[-1].lines
        return (first[0], last[1]) if first and last and all(item.lines for item in block.items) else None
    return block.lines
