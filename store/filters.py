"""Which sessions a list shows, in which order, and from where on."""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from store.ids import Micros
from store.records import Session, Status

#: What fewer sessions than this share is looked up and sorted; what more share is met soon by walking.
_MANY = 200


class Order(StrEnum):
    """Newest first; of the same moment the later made."""

    CREATED = "created"
    UPDATED = "updated"

    @property
    def column(self) -> str:
        return "created_at" if self is Order.CREATED else "updated_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    key: str | None = None
    agent_id: str | None = None
    #: Of the key, or one that somebody wrote from: a collapsed key has no channel of its own.
    channel: str | None = None
    account_id: str | None = None
    peer_kind: str | None = None
    peer_id: str | None = None
    #: The public id of the one it belongs to, or who wrote in it.
    person: str | None = None
    #: The public id of a repository.
    repo_id: str | None = None
    statuses: tuple[Status, ...] = ()
    created_after: Micros | None = None
    created_before: Micros | None = None
    updated_after: Micros | None = None
    updated_before: Micros | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last session of a page; the next page begins behind it, however deep that is."""

    order: Order
    at: Micros
    id: int

    @classmethod
    def behind(cls, session: Session, order: Order) -> Cursor:
        return cls(order, session.created_at if order is Order.CREATED else session.updated_at, session.id)

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(json.dumps([self.order, self.at, self.id]).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Raises ValueError for anything that `str` did not make."""
        try:
            order, at, number = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
            cursor = cls(Order(order), int(at), int(number))
        except (binascii.Error, TypeError, OverflowError, RecursionError) as exc:
            raise ValueError("not a cursor") from exc
        if str(cursor) != text or not max(abs(cursor.at), abs(cursor.id)) < 2**63:
            raise ValueError("not a cursor")
        return cursor


def where(
    db: sqlite3.Connection,
    which: SessionFilter,
    agent: str | None,
    order: Order | None = None,
    after: Cursor | None = None,
) -> tuple[str, list[object]]:
    """The condition, and the values of its marks.

    With an order the rows are walked in it, up to the limit: what many sessions share must not be looked up (hence
    the `+`), or all that share it would be sorted for each page. What few share is looked up, or all would be walked.
    """
    terms: list[tuple[str, object]] = [
        ("key = ?", which.key),
        (_agent(db, agent, order), agent),
        ("peer_kind = ?" if order is None else "+peer_kind = ?", which.peer_kind),
        ("peer_id = ?", which.peer_id),
        ("repo = (SELECT id FROM repos WHERE public_id = ?)", which.repo_id),
        ("created_at > ?", which.created_after),
        ("created_at < ?", which.created_before),
        ("updated_at > ?", which.updated_after),
        ("updated_at < ?", which.updated_before),
    ]
    clauses = [term for term, value in terms if value is not None]
    values = [value for _, value in terms if value is not None]
    if which.statuses:
        clauses.append(_term(db, f"status IN ({_marks(which.statuses)})", which.statuses, order))
        values.extend(which.statuses)
    for clause, more in (_place(which), _person(db, which.person)):
        if clause:
            clauses.append(clause)
            values.extend(more)
    if after is not None:
        clauses.append(f"({after.order.column}, id) < (?, ?)")
        values.extend((after.at, after.id))
    return (" WHERE " + " AND ".join(clauses) if clauses else ""), values


def _agent(db: sqlite3.Connection, agent: str | None, order: Order | None) -> str:
    # The index of agents has the order of creation as well.
    return _term(db, "agent_id = ?", (agent,), None if agent is None or order is Order.CREATED else order)


def _term(db: sqlite3.Connection, term: str, values: Sequence[object], order: Order | None) -> str:
    """The term as it is, to be looked up; or so that it is only checked while rows are walked in an order."""
    if order is None:
        return term
    shared = db.execute(f"SELECT 1 FROM sessions WHERE {term} LIMIT {_MANY}", values).fetchall()
    return f"+{term}" if len(shared) == _MANY else term


def _place(which: SessionFilter) -> tuple[str, list[object]]:
    given = {"channel": which.channel, "account": which.account_id}
    asked = {name: value for name, value in given.items() if value is not None}
    if not asked:
        return "", []
    own = " AND ".join(f"{'account_id' if name == 'account' else name} = ?" for name in asked)
    seen = " AND ".join(f"{name} = ?" for name in asked)
    clause = f"({own} OR id IN (SELECT session FROM participants WHERE {seen}))"
    return clause, [*asked.values(), *asked.values()]


def _person(db: sqlite3.Connection, person: str | None) -> tuple[str, list[object]]:
    if person is None:
        return "", []
    same = same_person(db, person)
    marks = _marks(same)
    clause = f"(person IN ({marks}) OR id IN (SELECT session FROM participants WHERE person IN ({marks})))"
    return clause, [*same, *same]


def same_person(db: sqlite3.Connection, public_id: str) -> list[int]:
    """The rows of a person: the one that is left, and those that were merged into it."""
    rows = db.execute(
        """
        WITH RECURSIVE
            up (id, into_) AS (
                SELECT id, merged_into FROM people WHERE public_id = ?
                UNION SELECT people.id, people.merged_into FROM people JOIN up ON people.id = up.into_
            ),
            same (id) AS (
                SELECT id FROM up WHERE into_ IS NULL
                UNION SELECT people.id FROM people JOIN same ON people.merged_into = same.id
            )
        SELECT id FROM same ORDER BY id
        """,
        (public_id,),
    ).fetchall()
    return [number for (number,) in rows]


def _marks(values: list[int] | tuple[Status, ...]) -> str:
    return ", ".join("?" * len(values))
