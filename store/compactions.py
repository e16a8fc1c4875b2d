"""Compactions: what stands for which part of a history. The originals stay; a compaction can be undone."""

from __future__ import annotations

import sqlite3
from typing import Any

from routing.errors import NothingToUndo
from store import sessions
from store.content import clean
from store.ids import Micros
from store.records import Compaction

_COLUMNS = "id, session, strategy, through_seq, summary, tokens_before, tokens_after, created_at, undone_at"


def record(
    db: sqlite3.Connection,
    session: int,
    *,
    strategy: str,
    through_seq: int,
    summary: str,
    tokens: tuple[int, int],
    now: Micros,
) -> Compaction:
    """From now on `summary` stands for the messages up to `through_seq`; `tokens` are before and after."""
    _, when = sessions.advance(db, session, 0, now)
    row = db.execute(
        "INSERT INTO compactions (session, strategy, through_seq, summary, tokens_before, tokens_after, created_at)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}",
        (session, strategy, through_seq, clean(summary), *tokens, when),
    ).fetchone()
    # While a turn runs its message has been accepted already: the session is active.
    db.execute(
        "UPDATE sessions SET compaction_count = compaction_count + 1, last_compaction_at = ?1,"
        " status = CASE WHEN status = 'active' AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session = ?2"
        " AND turns.status = 'pending') THEN 'compacted' ELSE status END WHERE id = ?2",
        (when, session),
    )
    return _compaction(row)


def in_force(db: sqlite3.Connection, session: int, *, leaves_out: bool | None = None) -> Compaction | None:
    """The newest compaction that was not undone: of all, of those that leave messages out, or of those that trim."""
    kind = {None: "", True: " AND strategy <> 'trim_tools'", False: " AND strategy = 'trim_tools'"}[leaves_out]
    row = db.execute(
        f"SELECT {_COLUMNS} FROM compactions WHERE session = ? AND undone_at IS NULL{kind} ORDER BY id DESC LIMIT 1",
        (session,),
    ).fetchone()
    return None if row is None else _compaction(row)


def base(db: sqlite3.Connection, session: int) -> Compaction | None:
    """What the next summary starts from.

    Messages that a window left out were never summarised: it goes back to where the last summary, or a clean start,
    ended.
    """
    row = db.execute(
        f"SELECT {_COLUMNS} FROM compactions WHERE session = ? AND undone_at IS NULL"
        " AND strategy NOT IN ('window', 'trim_tools') ORDER BY id DESC LIMIT 1",
        (session,),
    ).fetchone()
    return None if row is None else _compaction(row)


def undo(db: sqlite3.Connection, session: int, now: Micros) -> Compaction:
    """Take the newest compaction back; the one before it, if any, is in force again."""
    newest = in_force(db, session)
    if newest is None:
        raise NothingToUndo
    _, when = sessions.advance(db, session, 0, now)
    row = db.execute(
        f"UPDATE compactions SET undone_at = ? WHERE id = ? RETURNING {_COLUMNS}", (when, newest.id)
    ).fetchone()
    db.execute("UPDATE sessions SET status = 'active' WHERE id = ? AND status = 'compacted'", (session,))
    return _compaction(row)


def of_session(db: sqlite3.Connection, session: int) -> list[Compaction]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM compactions WHERE session = ? ORDER BY id", (session,)).fetchall()
    return [_compaction(row) for row in rows]


def _compaction(row: tuple[Any, ...]) -> Compaction:
    return Compaction(
        id=row[0],
        session=row[1],
        strategy=row[2],
        through_seq=row[3],
        summary=row[4],
        tokens_before=row[5],
        tokens_after=row[6],
        created_at=row[7],
        undone_at=row[8],
    )
