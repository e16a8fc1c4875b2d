"""Leases: which processes run for sessions. What a killed daemon leaves here, the next one ends."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from store.ids import Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    #: In the environment of the process and of all that it starts.
    mark: str
    session_id: str
    agent_id: str
    #: None: the daemon ended before it could say.
    pid: int | None
    #: When the process began, in the kernel's ticks: a later process with the same number has another.
    started: int | None


def take(db: sqlite3.Connection, mark: str, session_id: str, agent_id: str, now: Micros) -> None:
    """Before the process is started, so that it can be found whatever happens."""
    db.execute(
        "INSERT OR REPLACE INTO agent_processes (mark, session_id, agent_id, made_at) VALUES (?, ?, ?, ?)",
        (mark, session_id, agent_id, now),
    )


def name(db: sqlite3.Connection, mark: str, pid: int, started: int | None) -> None:
    db.execute("UPDATE agent_processes SET pid = ?, started = ? WHERE mark = ?", (pid, started, mark))


def drop(db: sqlite3.Connection, mark: str) -> None:
    db.execute("DELETE FROM agent_processes WHERE mark = ?", (mark,))


def every(db: sqlite3.Connection) -> list[Lease]:
    rows = db.execute(
        "SELECT mark, session_id, agent_id, pid, started FROM agent_processes ORDER BY made_at"
    ).fetchall()
    return [Lease(mark=row[0], session_id=row[1], agent_id=row[2], pid=row[3], started=row[4]) for row in rows]
