"""Questions that an agent asks of people. Whoever decides one, it is decided once: the database says by whom."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from routing.messages import Address
from store import messages, sessions
from store.content import Json, Text, clean, to_json
from store.ids import Micros, session_of
from store.inbox import decode_address
from store.schema import REMOVED

_COLUMNS = (
    "id, token, turn, asker, answerers, text, options, state, chosen, decided_by, outcome, expires_at, created_at,"
    " message"
)


class QuestionState(StrEnum):
    OPEN = "open"
    #: Somebody chose an option.
    CHOSEN = "chosen"
    #: Nobody did in time.
    TIMED_OUT = "timed_out"
    #: There is nothing to decide any more.
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Choice:
    """An option as people see it."""

    id: str
    label: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuestion:
    #: What the buttons carry. It cannot be guessed, and it tells nothing.
    token: str
    turn: int
    asker: int | None
    #: Besides the owner: names of people, or channel:id.
    answerers: tuple[str, ...]
    text: str
    options: tuple[Choice, ...]
    expires_at: Micros
    #: The row of the history that says it.
    message: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(NewQuestion):
    id: int
    state: QuestionState
    #: The id of the option; None if none was chosen.
    chosen: str | None
    decided_by: int | None
    #: How it ended, in words.
    outcome: str | None
    created_at: Micros

    @property
    def session(self) -> int:
        return session_of(self.turn)

    @property
    def open(self) -> bool:
        return self.state is QuestionState.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """How a question ends."""

    state: QuestionState
    outcome: str
    chosen: str | None = None
    by: int | None = None


def ask(db: sqlite3.Connection, new: NewQuestion, now: Micros) -> Question:
    row = db.execute(
        "INSERT INTO questions (token, turn, asker, answerers, text, options, expires_at, created_at, changed_at,"
        f" message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}",
        (
            new.token,
            new.turn,
            new.asker,
            to_json(list(new.answerers)),
            clean(new.text),
            to_json([asdict(option) for option in new.options]),
            new.expires_at,
            now,
            now,
            new.message,
        ),
    ).fetchone()
    return _question(row)


def decide(db: sqlite3.Connection, question: int, decision: Decision, now: Micros) -> Question | None:
    """End an open question; None if it was decided already. The text of its messages follows from this."""
    row = db.execute(
        "UPDATE questions SET state = ?, chosen = ?, decided_by = ?, outcome = ?, changed_at = ?"
        f" WHERE id = ? AND state = 'open' RETURNING {_COLUMNS}",
        (decision.state, decision.chosen, decision.by, clean(decision.outcome), now, question),
    ).fetchone()
    return None if row is None else _question(row)


def get(db: sqlite3.Connection, question: int) -> Question | None:
    return _one(db, "id = ?", question)


def by_token(db: sqlite3.Connection, token: str) -> Question | None:
    return _one(db, "token = ?", token)


def open_of_turn(db: sqlite3.Connection, turn: int) -> list[Question]:
    return _many(db, "turn = ? AND state = 'open'", turn)


def all_open(db: sqlite3.Connection) -> list[Question]:
    return _many(db, "state = 'open'")


def open_at(db: sqlite3.Connection, place: str) -> list[Question]:
    """Those that were put to people at a place."""
    where = "state = 'open' AND id IN (SELECT question FROM outbox WHERE place = ? AND question IS NOT NULL)"
    rows = db.execute(f"SELECT {_COLUMNS} FROM questions WHERE {where} ORDER BY id", (place,)).fetchall()
    return [_question(row) for row in rows]


def open_of_session(db: sqlite3.Connection, session: int) -> list[Question]:
    return [one for one in all_open(db) if one.session == session]


def attach(db: sqlite3.Connection, question: int, delivery: int) -> None:
    """A message of the outbox carries a question."""
    db.execute("UPDATE outbox SET question = ? WHERE id = ?", (question, delivery))


def show(db: sqlite3.Connection, question: int, text: str, now: Micros) -> list[str]:
    """The messages of a question say this from now on; the places where they are.

    One that is on its way at this moment is noticed when it has arrived (`shown`). One that was given up stays so.
    """
    rows = db.execute(
        "UPDATE outbox SET text = ?, changed_at = ?, attempts = 0, next_at = 0, part = 0,"
        " state = CASE state WHEN 'sent' THEN 'ready' ELSE state END"
        " WHERE question = ? AND state IN ('ready', 'sending', 'sent') RETURNING place",
        (clean(text), now, question),
    ).fetchall()
    return [place for (place,) in rows]


def shown(db: sqlite3.Connection, delivery: int, sent_id: str, text: str, now: Micros) -> bool:
    """A message of a question has arrived with this text; false if it has to say something else by now."""
    row = db.execute(
        "UPDATE outbox SET sent_id = ?, uncertain = 0, error = NULL, changed_at = ?, part = (text = ?3),"
        " state = CASE text WHEN ?3 THEN 'sent' ELSE 'ready' END WHERE id = ? RETURNING state",
        (sent_id, now, text, delivery),
    ).fetchone()
    return row is None or row[0] == "sent"


def addresses(db: sqlite3.Connection, question: int) -> list[Address]:
    """Where it was asked, as far as the outbox remembers."""
    rows = db.execute("SELECT address FROM outbox WHERE question = ?", (question,)).fetchall()
    return [decode_address(address) for (address,) in rows]


def forget(db: sqlite3.Connection, persons: Sequence[int], now: Micros) -> None:
    """Who chose is forgotten, here, in the history and in what was sent; what was chosen stays."""
    chosen = to_json(list(persons))
    db.execute("UPDATE questions SET asker = NULL WHERE asker IN (SELECT value FROM json_each(?))", (chosen,))
    for one in _many(db, "decided_by IN (SELECT value FROM json_each(?))", chosen):
        text = f"{one.text}\n\n{REMOVED}"
        db.execute("UPDATE questions SET decided_by = NULL, outcome = ? WHERE id = ?", (REMOVED, one.id))
        db.execute("UPDATE outbox SET text = ? WHERE question = ?", (text, one.id))
        if one.message is not None:
            _, when = sessions.advance(db, one.session, 0, now)
            messages.replace(db, one.message, Text(text), when)


def wants_thoughts(db: sqlite3.Connection, place: str) -> bool:
    return db.execute("SELECT 1 FROM thoughtful WHERE place = ?", (place,)).fetchone() is not None


def set_thoughts(db: sqlite3.Connection, place: str, *, wanted: bool) -> None:
    if wanted:
        db.execute("INSERT OR IGNORE INTO thoughtful (place) VALUES (?)", (place,))
    else:
        db.execute("DELETE FROM thoughtful WHERE place = ?", (place,))


def _one(db: sqlite3.Connection, where: str, value: int | str) -> Question | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM questions WHERE {where}", (value,)).fetchone()
    return None if row is None else _question(row)


def _many(db: sqlite3.Connection, where: str, *values: int | str) -> list[Question]:
    rows: Sequence[tuple[Json, ...]] = db.execute(
        f"SELECT {_COLUMNS} FROM questions WHERE {where} ORDER BY id", values
    ).fetchall()
    return [_question(row) for row in rows]


def _question(row: tuple[Json, ...]) -> Question:
    return Question(
        id=row[0],
        token=row[1],
        turn=row[2],
        asker=row[3],
        answerers=tuple(json.loads(row[4])),
        text=row[5],
        options=tuple(Choice(**option) for option in json.loads(row[6])),
        state=QuestionState(row[7]),
        chosen=row[8],
        decided_by=row[9],
        outcome=row[10],
        expires_at=row[11],
        created_at=row[12],
        message=row[13],
    )
