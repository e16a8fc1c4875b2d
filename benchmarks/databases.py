"""Databases to ask: sessions of several agents, states and people, and messages with words in them, indexed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from store import search
from store.database import connect
from tests.store.scale import build

#: The first session has so many messages, whatever the size of the rest.
LONG = 1_000
#: In every message; in every hundredth; in twenty.
COMMON, SOMETIMES, RARE = "weather", "umbrella", "zeppelin"
PERSON = "00000000-0000-7000-8000-00000000beef"

_STATEMENTS = (
    f"""
    UPDATE messages SET content = json_set(content, '$.text', 'the {COMMON} in town number ' || (id % 97) || ' is fine'
        || CASE WHEN (id * 7 + (id >> 32)) % 100 = 0 THEN ' without {SOMETIMES}' ELSE '' END
        || CASE WHEN id >> 32 BETWEEN 2 AND 21 AND id & 0xffffffff = 1 THEN ' and {RARE}' ELSE '' END)
    """,
    # A tenth belongs to one agent, twenty in ten thousand to another. The key names the agent, too.
    """
    UPDATE sessions SET
        agent_id = CASE WHEN id % 500 = 7 THEN 'eve' WHEN id % 10 = 3 THEN 'bob' ELSE agent_id END,
        status = CASE id % 4 WHEN 0 THEN 'archived' ELSE status END,
        created_at = created_at + id * 1000, updated_at = created_at + id * 1000 + id * 7919 % 1000
    """,
    "UPDATE sessions SET key = agent_id || substr(key, instr(key, ':'))",
    f"INSERT INTO people (id, public_id) VALUES (1, '{PERSON}')",
    "INSERT INTO participants SELECT id, 1, channel, account_id FROM sessions WHERE id % 500 = 9",
)


def make(path: Path, *, messages: int, sessions: int) -> None:
    build(path, messages=messages, sessions=sessions, biggest=LONG)
    db = connect(path)
    try:
        for statement in _STATEMENTS:
            db.execute(statement)
        _index(db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()


def _index(db: sqlite3.Connection) -> None:
    """As the daemon does it, by batches, but in one transaction."""
    db.execute("BEGIN")
    while search.index_more(db, 5_000):
        pass
    db.execute("COMMIT")
