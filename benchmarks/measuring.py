"""What the measurements share: fair timing of things that are compared, SQLite's instructions, tables."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name")
ROUNDS = 41


def medians(works: Mapping[Name, Callable[[], object]], rounds: int = ROUNDS) -> dict[Name, float]:
    """Milliseconds of each. They take turns, so that what disturbs the machine disturbs all of them."""
    spent: dict[Name, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            spent[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(times) for name, times in spent.items()}


def instructions(db: sqlite3.Connection, work: Callable[[], object]) -> int:
    """How many instructions of SQLite's machine the work takes: the same number however busy the machine is."""
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    db.set_progress_handler(count, 1)
    try:
        work()
    finally:
        db.set_progress_handler(None, 0)
    return counted


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they must be; the first to the left, numbers to the right."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        return "  ".join([first.strip().ljust(widths[0]), *others])

    return [line(row) for row in (head, *rows)]
