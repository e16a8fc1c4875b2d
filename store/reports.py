"""Numbers for people who look after the daemon: tokens, people, and how much there is of everything."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from enum import StrEnum

from store import migrations, people
from store.backup import size_of
from store.content import Json
from store.ids import Micros
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
    #: How many of both are estimates.
    estimated: int
    #: Turns of whose tokens nothing is known.
    unknown: int

    @property
    def share(self) -> float:
        """The estimated part of all tokens."""
        total = self.input + self.output
        return self.estimated / total if total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    #: An agent, a day (UTC), or the public id of a person or a session; None for turns of nobody.
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


_SUMS = (
    "count(*), coalesce(sum(t.input_tokens), 0), coalesce(sum(t.output_tokens), 0),"
    " coalesce(sum(CASE t.usage_source WHEN 'estimated' THEN"
    " coalesce(t.input_tokens, 0) + coalesce(t.output_tokens, 0) END), 0),"
    " sum(t.input_tokens IS NULL AND t.output_tokens IS NULL)"
)

#: Key, name and order of each grouping.
_GROUPS = {
    By.AGENT: ("s.agent_id", "NULL", "total DESC, 1"),
    By.DAY: ("date(t.created_at / 1000000, 'unixepoch')", "NULL", "1 DESC"),
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


def usage(db: sqlite3.Connection, by: By, limit: int) -> list[Usage]:
    """Tokens of the turns that are there: the largest first, days from the newest on."""
    key, name, order = _GROUPS[by]
    rows = db.execute(
        f"{_SURVIVORS} SELECT {key}, {name}, {_SUMS}, sum(coalesce(t.input_tokens, 0) + coalesce(t.output_tokens, 0))"
        " AS total FROM turns t JOIN sessions s ON s.id = t.id >> 32"
        " LEFT JOIN one ON one.id = t.created_by LEFT JOIN people p ON p.id = one.last"
        f" GROUP BY 1 ORDER BY {order} LIMIT ?",
        (limit,),
    ).fetchall()
    return [Usage(key=row[0], name=row[1] or None, tokens=_tokens(row[2:7])) for row in rows]


def total(db: sqlite3.Connection) -> Tokens:
    return _tokens(db.execute(f"SELECT {_SUMS} FROM turns t").fetchone())


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


def _tokens(row: tuple[Json, ...]) -> Tokens:
    return Tokens(turns=row[0], input=row[1], output=row[2], estimated=row[3], unknown=row[4] or 0)


def _somebody(db: sqlite3.Connection, number: int, created_at: Micros, sessions: int) -> Somebody:
    identities = db.execute(
        "SELECT channel, user_id FROM identities WHERE person = ? ORDER BY channel, user_id", (number,)
    ).fetchall()
    return Somebody(row=people.get(db, number), identities=tuple(identities), sessions=sessions, created_at=created_at)
