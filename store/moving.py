"""Moving sessions to another agent: what would be moved, what cannot and why, and the move itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from routing.errors import UnknownSession
from routing.keys import SessionKey
from store import inbox, sessions, turns
from store.ids import Micros
from store.records import Session
from store.schema import LIVE


class Obstacle(StrEnum):
    """Why a session is not moved."""

    UNKNOWN = "unknown_session"
    SAME_AGENT = "same_agent"
    OTHER_AGENT = "other_agent"
    RUNNING = "turn_running"
    JOIN_BUSY = "join_busy"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Obstacle.UNKNOWN: "there is no such session",
    Obstacle.SAME_AGENT: "it belongs to that agent already",
    Obstacle.OTHER_AGENT: "it does not belong to the agent that sessions are to be moved from",
    Obstacle.RUNNING: "a message is being answered in it: wait for the answer, or stop it",
    Obstacle.JOIN_BUSY: "it would be joined with a session of that agent, and in one of the two a message waits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What becomes of one session."""

    session_id: str
    #: None where there is no such session.
    old: SessionKey | None = None
    new: SessionKey | None = None
    #: The live session that the target agent already has in this conversation: the one with older activity is archived.
    joins: str | None = None
    obstacle: Obstacle | None = None


def chosen(db: sqlite3.Connection, source: str | None, session_ids: Sequence[str] | None) -> list[str]:
    """The named sessions; or all live ones of an agent, the ones active last first."""
    if session_ids is not None:
        return list(dict.fromkeys(session_ids))
    rows = db.execute(
        f"SELECT public_id FROM sessions WHERE agent_id = ? AND {LIVE} ORDER BY updated_at DESC, id DESC", (source,)
    ).fetchall()
    return [public_id for (public_id,) in rows]


def plan(db: sqlite3.Connection, session_ids: Sequence[str], source: str | None, to: str) -> list[Move]:
    """What `carry_out` would do, and nothing of it done. Sessions that would meet in one conversation are told."""
    moves: list[Move] = []
    arrived: dict[SessionKey | None, str] = {}
    for session_id in session_ids:
        move = _look(db, session_id, source, to)
        if move.obstacle is None and sessions.get(db, session_id).status.live:
            moves.append(replace(move, joins=move.joins or arrived.get(move.new)))
            arrived[move.new] = session_id
        else:
            moves.append(move)
    return moves


def carry_out(
    db: sqlite3.Connection, session_ids: Sequence[str], source: str | None, to: str, now: Micros
) -> list[Move]:
    """Move what can be moved; what waits for a moved conversation follows it."""
    moves = []
    for session_id in session_ids:
        move = _look(db, session_id, source, to)
        if move.obstacle is None:
            session = sessions.get(db, session_id)
            moved = sessions.move(db, session, to, now)
            if session.status.live:
                inbox.rekey(db, session.key, moved.key)
        moves.append(move)
    return moves


def _look(db: sqlite3.Connection, session_id: str, source: str | None, to: str) -> Move:
    try:
        session = sessions.get(db, session_id)
    except UnknownSession:
        return Move(session_id=session_id, obstacle=Obstacle.UNKNOWN)
    old = session.key
    new = SessionKey(to, old.channel, old.account_id, old.peer_kind, old.peer_id)
    other = sessions.live(db, new) if session.status.live and old != new else None
    return Move(
        session_id=session_id,
        old=old,
        new=new,
        joins=None if other is None else other.public_id,
        obstacle=_obstacle(db, session, other, source, to),
    )


def _obstacle(
    db: sqlite3.Connection, session: Session, other: Session | None, source: str | None, to: str
) -> Obstacle | None:
    if session.key.agent_id == to:
        return Obstacle.SAME_AGENT
    if source not in {None, session.key.agent_id}:
        return Obstacle.OTHER_AGENT
    if turns.pending_of(db, session.id) is not None:
        return Obstacle.RUNNING
    # One of the two is archived, and an ended session answers nothing.
    if other is not None and (turns.pending_of(db, other.id) or _is_waited_for(db, session, other)):
        return Obstacle.JOIN_BUSY
    return None


def _is_waited_for(db: sqlite3.Connection, *given: Session) -> bool:
    """Whether a message waits that is meant for one of these sessions alone."""
    found = (
        db.execute("SELECT 1 FROM inbox WHERE session = ? AND state = 'waiting' LIMIT 1", (session.id,)).fetchone()
        for session in given
    )
    return any(row is not None for row in found)
