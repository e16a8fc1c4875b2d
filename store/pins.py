"""Pins: a mark in a message's metadata, so that it goes where the message goes, with an index of its own."""

from __future__ import annotations

import sqlite3

from store import messages, sessions
from store.content import to_json
from store.ids import Micros, seq_of, session_of
from store.records import Message

_MARK = "pinned"


def of_session(db: sqlite3.Connection, session: int, before: int) -> list[Message]:
    """The pinned messages before a sequence number, oldest first; the cost is theirs alone."""
    rows = db.execute(
        "SELECT id FROM messages INDEXED BY messages_pinned"
        " WHERE session = ? AND json_extract(metadata, '$.pinned') = 1 ORDER BY id",
        (session,),
    ).fetchall()
    seqs = [seq_of(packed) for (packed,) in rows if seq_of(packed) < before]
    return [row for seq in seqs for row in messages.between(db, session, seq, seq)]


def put(db: sqlite3.Connection, message: Message, now: Micros) -> None:
    _mark(db, message, {**message.metadata, _MARK: True}, now)


def take(db: sqlite3.Connection, message: Message, now: Micros) -> None:
    _mark(db, message, {name: value for name, value in message.metadata.items() if name != _MARK}, now)


def _mark(db: sqlite3.Connection, message: Message, metadata: dict[str, object], now: Micros) -> None:
    _, when = sessions.advance(db, session_of(message.id), 0, now)
    db.execute("UPDATE messages SET metadata = ?, changed_at = ? WHERE id = ?", (to_json(metadata), when, message.id))
