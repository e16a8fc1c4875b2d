"""The text alone, for when a platform refuses the markup, and for places that have none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from channels.text.layout import laid_out
from channels.text.parse import parse
from channels.text.tree import Blocks, Run, Runs, text_of


def plain(markdown: str) -> str:
    """All text of a Markdown text without markup, with the addresses of links."""
    return plain_text(parse(markdown))


def plain_text(blocks: Blocks) -> str:
    return text_of(with_addresses(laid_out(blocks))).strip()


def with_addresses(runs: Runs) -> Iterator[Run]:
    """The runs with the address behind the text of each link."""
    for link, group in groupby(runs, key=lambda run: run.link):
        label = list(group)
        yield from label
        if link and text_of(label) not in (link, link.removeprefix("mailto:")):
            yield Run(f" ({link})")
