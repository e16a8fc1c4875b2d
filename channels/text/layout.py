"""Blocks become one text with styles, for platforms that take text and styles apart from each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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
)

LINE = "─" * 12
BULLET = "•"
BOXES = {True: "☑", False: "☐"}
GAP = Run("\n\n")
BREAK = Run("\n")


def laid_out(blocks: Blocks) -> Runs:
    """The blocks below each other, with an empty line between them."""
    return merged(_joined((_block(block, nested=False) for block in blocks), GAP))


def _joined(parts: Iterable[Runs], separator: Run) -> Runs:
    runs: list[Run] = []
    for part in parts:
        if runs and part:
            runs.append(separator)
        runs.extend(part)
    return tuple(runs)


def _block(block: Block, *, nested: bool) -> Runs:
    match block:
        case Paragraph():
            return block.runs
        case Heading():
            return tuple(replace(run, style=run.style | Style.BOLD) for run in block.runs)
        case Code():
            return (Run(block.text, Style.PRE, language=block.language),) if block.text else ()
        case Rule():
            return (Run(LINE),)
        case Quote():
            return _quote(block, nested=nested)
        case List():
            return _joined((_item(item) for item in block.items), GAP if block.loose else BREAK)


def _quote(quote: Quote, *, nested: bool) -> Runs:
    inner = _joined((_block(child, nested=True) for child in quote.blocks), BREAK if nested else GAP)
    if nested:
        # Quotes in quotes or lists have no markup of their own on Telegram.
        return _indented(inner, Run("> "), "> ") if inner else ()
    return tuple(replace(run, style=run.style | Style.QUOTE) for run in inner)


def _item(item: Item) -> Runs:
    sign = item.marker if item.numbered else BULLET
    if item.done is not None:
        sign = f"{sign} {BOXES[item.done]}" if item.numbered else BOXES[item.done]
    inner = _joined((_block(child, nested=True) for child in item.blocks), BREAK)
    if inner and Style.PRE in inner[0].style:
        return (Run(f"{sign}\n"), *_indented(inner, Run(""), "  "))
    return _indented(inner, Run(f"{sign} "), "  ")


def _indented(runs: Runs, first: Run, others: str) -> Runs:
    """The runs with a prefix on every line. Code is left as it is, to be copied."""
    return (first, *(_with_prefix(run, others) for run in runs))


def _with_prefix(run: Run, prefix: str) -> Run:
    if "\n" not in run.text or Style.PRE in run.style:
        return run
    return replace(run, text=run.text.replace("\n", "\n" + prefix))
