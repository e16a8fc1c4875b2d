"""Lists, filters, pages and search: what they cost among ten thousand and among a million messages."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks import databases
from benchmarks.databases import COMMON, LONG, PERSON, RARE, SOMETIMES
from benchmarks.measuring import instructions, medians, table
from store import messages, search, sessions
from store.database import connect
from store.filters import Cursor, Order, SessionFilter
from store.messages import HistoryOptions
from store.records import Status
from tests.store.scale import START

SMALL, LARGE, FEW, MANY = 10_000, 1_000_000, 100, 10_000
BOUND = 1.5
#: Between the first session's beginning and the last one's, in databases of `MANY` sessions.
MIDDLE = START + MANY // 2 * 1000

Question = Callable[[sqlite3.Connection], object]


def _list(order: Order = Order.UPDATED, **filters: object) -> Question:
    which = SessionFilter(**filters)  # type: ignore[arg-type]
    return lambda db: sessions.list_all(db, which, 20, order=order)


def _behind(db: sqlite3.Connection) -> object:
    """A page in the middle of the list, by its cursor."""
    return sessions.list_all(db, SessionFilter(), 20, order=Order.CREATED, after=Cursor(Order.CREATED, MIDDLE, 0))


def _page(**options: int) -> Question:
    return lambda db: messages.page(db, 1, HistoryOptions(**options))


def _find(text: str, **how: object) -> Question:
    return lambda db: search.find(db, text, **how)  # type: ignore[arg-type]


LISTS: dict[str, Question] = {
    "list: all, last active first": _list(),
    "list: all, newest first": _list(Order.CREATED),
    "list: a page in the middle": _behind,
    "filter: agent with most of them": _list(agent_id="ada"),
    "filter: agent with twenty": _list(agent_id="eve"),
    "filter: agent with none": _list(agent_id="nobody"),
    "filter: two states": _list(statuses=(Status.ACTIVE, Status.IDLE)),
    "filter: channel, account, kind": _list(channel="telegram", account_id="main", peer_kind="group"),
    "filter: person": _list(person=PERSON),
    "filter: active since": _list(updated_after=MIDDLE),
    "filter: made between": _list(created_after=MIDDLE, created_before=MIDDLE + 1_000_000),
}
PAGES: dict[str, Question] = {
    "page: newest 50": _page(),
    "page: 50 in the middle": _page(before=LONG // 2),
    "page: first 50": _page(after=0),
}
SEARCHES: dict[str, Question] = {
    "search: word of 20 messages": _find(RARE),
    "search: word of every message": _find(COMMON),
    "search: two such words": _find(f"{COMMON} fine"),
    "search: phrase of every message": _find(f'"{COMMON} in town"'),
    "search: such a word, in one session": _find(COMMON, session=1),
    "search: such a word, of one agent": _find(COMMON, agent="bob"),
    "search: word of no message": _find("xyzzy"),
}
#: These have a hundred times the hits among a hundred times the messages, so they are shown and not judged.
MORE_HITS: dict[str, Question] = {
    "search: word of every 100th message": _find(SOMETIMES),
    "search: word of every message, agent with twenty sessions": _find(COMMON, agent="eve"),
}


def compare(small: sqlite3.Connection, large: sqlite3.Connection, questions: dict[str, Question]) -> list[list[str]]:
    rows = []
    for name, ask in questions.items():
        took = medians({"small": lambda ask=ask: ask(small), "large": lambda ask=ask: ask(large)})  # type: ignore[misc]
        steps = [instructions(db, lambda db=db, ask=ask: ask(db)) for db in (small, large)]  # type: ignore[misc]
        rows.append(
            [
                name,
                f"{took['small']:.2f}",
                f"{took['large']:.2f}",
                f"{took['large'] / took['small']:.2f}",
                f"{steps[1] / steps[0]:.2f}",
            ]
        )
    return rows


def judge(rows: list[list[str]]) -> str:
    over = [row[0] for row in rows if float(row[3]) > BOUND]
    return f"Over {BOUND}x: {', '.join(over)}." if over else f"All {len(rows)} are within {BOUND}x."


def report() -> list[str]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:

        def made(count: int, sessions: int) -> sqlite3.Connection:
            path = Path(directory) / f"{count}-{sessions}.db"
            databases.make(path, messages=count, sessions=sessions)
            return stack.enter_context(closing(connect(path, read_only=True)))

        few, small, large = made(SMALL, FEW), made(SMALL, MANY), made(LARGE, MANY)
        by_messages = compare(small, large, {**LISTS, **PAGES, **SEARCHES})
        more_hits = compare(small, large, MORE_HITS)
        by_sessions = compare(few, small, LISTS)
    return [
        f"{MANY:,} sessions with {SMALL:,} and with {LARGE:,} messages: milliseconds (median), ratio of the times,",
        "ratio of SQLite's instructions (the full-text index does not count its own). Lists come with their total.",
        "",
        *table(["", "10 k", "1 M", "time", "steps"], by_messages),
        "",
        judge(by_messages),
        "",
        *table(["", "10 k", "1 M", "time", "steps"], more_hits),
        "",
        "These have a hundred times the hits here. The cost grows up to a thousand: no more are put in order.",
        "",
        f"The same {SMALL:,} messages in {FEW} and in {MANY:,} sessions: a hundred times as many match, and the total",
        "counts them all. The rows of a page cost the same. Not judged.",
        "",
        *table(["", "100", "10 k", "time", "steps"], by_sessions),
    ]
