"""What turns have used and what they hold back: sums over rows, so that no crash leaves a counter wrong."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from store import filters, people
from store.ids import Micros
from store.people import PersonRow
from store.records import Usage
from store.reports import SUMS, Tokens, everything, tokens_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Of which turns a sum is; what is None does not matter."""

    #: The rows of one person.
    people: tuple[int, ...] | None = None
    agent: str | None = None
    chat: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    tokens: int = 0
    #: Millionths of a US dollar.
    cost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlay:
    """What was spent outside of turns, such as on a summary."""

    model: str | None
    usage: Usage
    cost: int | None


#: A pending turn counts with what was held back for it, an ended one with what is known of its use.
_AMOUNT = (
    "coalesce(sum(CASE status WHEN 'pending' THEN coalesce(reserved_tokens, 0) ELSE coalesce(input_tokens, 0)"
    " + coalesce(cached_tokens, 0) + coalesce(output_tokens, 0) + coalesce(reasoning_tokens, 0) END), 0),"
    " coalesce(sum(CASE status WHEN 'pending' THEN coalesce(reserved_cost, 0) ELSE coalesce(cost, 0) END), 0)"
)


def spend(db: sqlite3.Connection, session: int, outlay: Outlay, now: Micros) -> None:
    """Whoever asked last in a session pays for it."""
    used = outlay.usage
    db.execute(
        "INSERT INTO outlays (session, created_at, created_by, agent, chat, model, input_tokens, cached_tokens,"
        " output_tokens, reasoning_tokens, usage_source, cost)"
        " SELECT session, ?, created_by, agent, chat, ?, ?, ?, ?, ?, ?, ? FROM turns WHERE session = ?"
        " ORDER BY id DESC LIMIT 1",
        (now, outlay.model, used.input, used.cached, used.output, used.reasoning, used.source, outlay.cost, session),
    )


def amount(db: sqlite3.Connection, whose: Whose, since: Micros) -> Amount:
    """What the turns that began since then used, and hold back."""
    source, values = _spent(whose, since)
    tokens, cost = db.execute(f"SELECT {_AMOUNT} FROM {source}", values).fetchone()
    return Amount(tokens=tokens, cost=cost)


def used(db: sqlite3.Connection, whose: Whose, since: Micros) -> Tokens:
    """What is known of the turns that began since then, by buckets."""
    source, values = _spent(whose, since)
    return tokens_of(db.execute(f"SELECT {SUMS} FROM {source}", values).fetchone())


def of_session(db: sqlite3.Connection, session: int) -> Tokens:
    source = everything("WHERE session = ?", "WHERE session = ?")
    return tokens_of(db.execute(f"SELECT {SUMS} FROM {source}", (session, session)).fetchone())


def survivor(db: sqlite3.Connection, person: int) -> tuple[PersonRow, tuple[int, ...]]:
    """The person whom a row stands for now, and all rows that do."""
    numbers = tuple(filters.same_person(db, people.get(db, person).public_id))
    marks = ", ".join("?" * len(numbers))
    (last,) = db.execute(f"SELECT id FROM people WHERE id IN ({marks}) AND merged_into IS NULL", numbers).fetchone()
    return people.get(db, last), numbers


def allow(db: sqlite3.Connection, budget: str, scope: str, more: Amount, now: Micros) -> None:
    """Add to what a budget allows in this period; whoever comes near its end again is warned again."""
    db.execute(
        "INSERT INTO allowances (budget, scope, tokens, cost, at) VALUES (?, ?, ?, ?, ?)",
        (budget, scope, more.tokens, more.cost, now),
    )
    db.execute("DELETE FROM budget_warnings WHERE budget = ? AND scope = ?", (budget, scope))


def allowed(db: sqlite3.Connection, budget: str, scope: str, since: Micros) -> Amount:
    """What was allowed on top since then."""
    tokens, cost = db.execute(
        "SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0) FROM allowances"
        " WHERE budget = ? AND scope = ? AND at >= ?",
        (budget, scope, since),
    ).fetchone()
    return Amount(tokens=tokens, cost=cost)


def warn_once(db: sqlite3.Connection, budget: str, scope: str, period: Micros) -> bool:
    """Whether this is the first warning of the period; the next one is not."""
    changed = db.execute(
        "INSERT INTO budget_warnings (budget, scope, period) VALUES (?, ?, ?)"
        " ON CONFLICT (budget, scope) DO UPDATE SET period = excluded.period WHERE period <> excluded.period",
        (budget, scope, period),
    ).rowcount
    return changed > 0


def spenders(db: sqlite3.Connection, since: Micros) -> list[tuple[int | None, str | None, str | None]]:
    """Person, agent and chat of the turns that began since then, each combination once."""
    return db.execute(
        "SELECT DISTINCT created_by, agent, chat FROM turns INDEXED BY turns_created WHERE created_at >= ?", (since,)
    ).fetchall()


def _spent(whose: Whose, since: Micros) -> tuple[str, tuple[object, ...]]:
    """By the index that leaves the fewest turns to look at; of the rest there are few."""
    conditions, values = ["created_at >= ?"], list[object]((since,))
    index = "turns_created"
    for name, value in (("agent", whose.agent), ("chat", whose.chat)):
        if value is not None:
            conditions.append(f"{name} = ?")
            values.append(value)
            index = f"turns_by_{name}"
    if whose.people is not None:
        conditions.append(f"created_by IN ({', '.join('?' * len(whose.people))})")
        values.extend(whose.people)
        index = "turns_by_person"
    where = f"WHERE {' AND '.join(conditions)}"
    return everything(f"INDEXED BY {index} {where}", where), (*values, *values)
