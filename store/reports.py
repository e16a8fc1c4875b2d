"""Numbers for people who look after the daemon: tokens, people, and how much there is of everything."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum

from store import migrations, people
from store.backup import size_of
from store.content import Json
from store.ids import Micros, to_datetime
from store.people import PersonRow


class By(StrEnum):
    AGENT = "agent"
    DAY = "day"
    PERSON = "person"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of some turns. What no provider reported is estimated, or unknown and counted as turns only."""

    turns: int
    input: int
    output: int
    #: How many of all are estimates.
    estimated: int
    #: Turns of whose tokens nothing is known.
    unknown: int
    cached: int = 0
    reasoning: int = 0
    #: Millionths of a US dollar, of the turns that have a price; None if none has.
    cost: int | None = None
    #: Ended turns without a price.
    unpriced: int = 0

    @property
    def total(self) -> int:
        return self.input + self.cached + self.output + self.reasoning

    @property
    def share(self) -> float:
        """The estimated part of all tokens."""
        return self.estimated / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    #: An agent, a day, or the public id of a person or a session; None for turns of nobody.
    key: str | None
    #: What people call it: a person's name, a session's title.
    name: str | None
    tokens: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Somebody:
    row: PersonRow
    identities: tuple[tuple[str, str], ...]
    sessions: int
    created_at: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    schema: tuple[str, ...]
    #: Bytes of the database, what is only in its log included.
    size: int
    sessions: dict[str, int]
    running: int
    waiting: int
    outbox: dict[str, int]


_TOKENS = (
    "coalesce(t.input_tokens, 0) + coalesce(t.cached_tokens, 0)"
    " + coalesce(t.output_tokens, 0) + coalesce(t.reasoning_tokens, 0)"
)

_COUNTS = "input_tokens, cached_tokens, output_tokens, reasoning_tokens, usage_source, cost"
_SPENT = f"created_at, created_by, agent, chat, {_COUNTS}"


def everything(turns: str = "", outlays: str = "") -> str:
    """Turns, and what was spent outside of them, as one table `t`; each with conditions of its own."""
    return (
        f"(SELECT session, 1 AS is_turn, status, reserved_tokens, reserved_cost, {_SPENT} FROM turns {turns}"
        f" UNION ALL SELECT session, 0, 'completed', NULL, NULL, {_SPENT} FROM outlays {outlays}) t"
    )


#: For `tokens_of`, over what is called `t`.
SUMS = (
    "coalesce(sum(t.is_turn), 0), coalesce(sum(t.input_tokens), 0), coalesce(sum(t.output_tokens), 0),"
    f" coalesce(sum(CASE t.usage_source WHEN 'estimated' THEN {_TOKENS} END), 0),"
    " coalesce(sum(coalesce(t.input_tokens, t.cached_tokens, t.output_tokens, t.reasoning_tokens) IS NULL), 0),"
    " coalesce(sum(t.cached_tokens), 0), coalesce(sum(t.reasoning_tokens), 0), sum(t.cost),"
    " coalesce(sum(t.cost IS NULL AND t.status <> 'pending'), 0)"
)

#: Key, name and order of each grouping.
_GROUPS = {
    By.AGENT: ("coalesce(t.agent, s.agent_id)", "NULL", "total DESC, 1"),
    By.DAY: ("day_of(t.created_at)", "NULL", "1 DESC"),
    By.PERSON: ("p.public_id", "p.name", "total DESC, 1"),
    By.SESSION: ("s.public_id", "s.title", "total DESC, 1"),
}

#: Everybody with whom they were merged into, at the end of the way.
_SURVIVORS = """
    WITH RECURSIVE one (id, last) AS (
        SELECT id, id FROM people WHERE merged_into IS NULL
        UNION SELECT people.id, one.last FROM people JOIN one ON people.merged_into = one.id
    )
"""


def usage(db: sqlite3.Connection, by: By, limit: int, zone: tzinfo = UTC) -> list[Usage]:
    """Tokens of the turns that are there: the largest first, days (as the time zone has them) from the newest on."""
    key, name, order = _GROUPS[by]
    # SQLite knows no time zones.
    db.create_function("day_of", 1, lambda at: to_datetime(at).astimezone(zone).date().isoformat(), deterministic=True)
    rows = db.execute(
        f"{_SURVIVORS} SELECT {key}, {name}, {SUMS}, sum({_TOKENS}) AS total"
        f" FROM {everything()} JOIN sessions s ON s.id = t.session"
        " LEFT JOIN one ON one.id = t.created_by LEFT JOIN people p ON p.id = one.last"
        f" GROUP BY 1 ORDER BY {order} LIMIT ?",
        (limit,),
    ).fetchall()
    return [Usage(key=row[0], name=row[1] or None, tokens=tokens_of(row[2:11])) for row in rows]


def total(db: sqlite3.Connection) -> Tokens:
    return tokens_of(db.execute(f"SELECT {SUMS} FROM {everything()}").fetchone())


def everybody(db: sqlite3.Connection, limit: int, offset: int) -> tuple[list[Somebody], int]:
    """Those who are somebody: not who was forgotten, nor who turned out to be another one."""
    known = (
        "merged_into IS NULL AND (owner OR known OR name <> ''"
        " OR EXISTS (SELECT 1 FROM identities WHERE identities.person = people.id))"
    )
    (count,) = db.execute(f"SELECT count(*) FROM people WHERE {known}").fetchone()
    rows = db.execute(
        f"SELECT id, created_at, (SELECT count(*) FROM sessions WHERE sessions.person = people.id) FROM people"
        f" WHERE {known} ORDER BY owner DESC, known DESC, id DESC LIMIT ? OFFSET ?",
        (limit, offset),
    ).fetchall()
    return [_somebody(db, *row) for row in rows], count


def counts(db: sqlite3.Connection) -> Counts:
    return Counts(
        schema=tuple(migrations.applied(db)),
        size=size_of(db),
        sessions=dict(db.execute("SELECT status, count(*) FROM sessions GROUP BY status").fetchall()),
        running=_count(db, "turns WHERE status = 'pending'"),
        waiting=_count(db, "inbox WHERE state = 'waiting'"),
        outbox=dict(db.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall()),
    )


def _count(db: sqlite3.Connection, what: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {what}").fetchone()[0])


def tokens_of(row: tuple[Json, ...]) -> Tokens:
    return Tokens(
        turns=row[0],
        input=row[1],
        output=row[2],
        estimated=row[3],
        unknown=row[4],
        cached=row[5],
        reasoning=row[6],
        cost=row[7],
        unpriced=row[8],
    )


def _somebody(db: sqlite3.Connection, number: int, created_at: Micros, sessions: int) -> Somebody:
    identities = db.execute(
        "SELECT channel, user_id FROM identities WHERE person = ? ORDER BY channel, user_id", (number,)
    ).fetchall()
    return Somebody(row=people.get(db, number), identities=tuple(identities), sessions=sessions, created_at=created_at)
