"""What was said in a group and not to the agent: the newest lines, for its next turn there."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from routing.keys import SessionKey, in_moved_chat
from store.content import clean
from store.ids import Micros

#: Characters of one line.
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Line:
    #: Channel and numeric id, such as `telegram:7`.
    sender: str
    name: str
    text: str


def note(db: sqlite3.Connection, key: SessionKey, line: Line, keep: int, now: Micros) -> None:
    db.execute(
        "INSERT INTO overheard (key, sender, name, text, at) VALUES (?, ?, ?, ?, ?)",
        (str(key), clean(line.sender), clean(line.name), clean(line.text[:_LONGEST]), now),
    )
    db.execute(
        "DELETE FROM overheard WHERE key = ?1 AND id NOT IN"
        " (SELECT id FROM overheard WHERE key = ?1 ORDER BY id DESC LIMIT ?2)",
        (str(key), keep),
    )


def take(db: sqlite3.Connection, key: SessionKey) -> list[Line]:
    """All of it, oldest first; it is told once."""
    rows = db.execute(
        "DELETE FROM overheard WHERE key = ? RETURNING id, sender, name, text",
        (str(key),),
    ).fetchall()
    return [Line(*row[1:]) for row in sorted(rows)]


def move_chat(db: sqlite3.Connection, channel: str, account: str, old: str, new: str) -> None:
    for (text,) in db.execute("SELECT DISTINCT key FROM overheard").fetchall():
        key = in_moved_chat(SessionKey.parse(text), channel, account, old, new)
        db.execute("UPDATE overheard SET key = ? WHERE key = ?", (str(key), text))


def prune(db: sqlite3.Connection, before: Micros) -> int:
    """What nobody came back to."""
    return db.execute("DELETE FROM overheard WHERE at < ?", (before,)).rowcount
