"""Whether what a provider remembers of a conversation is still all of it."""

from __future__ import annotations

import sqlite3

from store.ids import Micros, pack


def changed_since(db: sqlite3.Connection, session: int, since: Micros, before_seq: int, known_seq: int) -> bool:
    """Whether a compaction, or anything but failed attempts, changed the history before a message since then.

    `known_seq` is the last message that the provider has.
    """
    compacted = db.execute(
        "SELECT 1 FROM compactions WHERE session = ? AND (created_at > ? OR undone_at > ?) LIMIT 1",
        (session, since, since),
    ).fetchone()
    # A message of a turn that failed in between is new and harmless: it is no part of what was answered.
    said = db.execute(
        "SELECT 1 FROM messages WHERE session = ?1 AND changed_at > ?2 AND id < ?3 AND (id <= ?4 OR turn IS NULL)"
        " LIMIT 1",
        (session, since, pack(session, before_seq), pack(session, known_seq)),
    ).fetchone()
    return compacted is not None or said is not None
