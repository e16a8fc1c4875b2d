"""What an agent calls a session. A successor of a session that broke inherits it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from routing.errors import UnknownSession
from store import messages, sessions
from store.content import Text
from store.ids import Micros
from store.records import Message, NewMessage, Role, Session, Status
from store.schema import LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSession:
    name: str
    cwd: str
    made_at: Micros
    #: It belongs to the session before this one, which broke.
    inherited: bool


def remember(  # noqa: PLR0913
    db: sqlite3.Connection, session_id: str, agent_id: str, name: str, cwd: str, now: Micros, *, process: bool = False
) -> None:
    """`process`: the session lives and ends with the agent's process, from its beginning on."""
    session = sessions.get(db, session_id)
    db.execute(
        "INSERT INTO agent_sessions (session, agent_id, name, cwd, made_at, process) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (session) DO UPDATE SET agent_id = excluded.agent_id, name = excluded.name,"
        " cwd = excluded.cwd, made_at = excluded.made_at",
        (session.id, agent_id, name, cwd, now, process),
    )


def forget(db: sqlite3.Connection, session_id: str) -> None:
    """The agent does not know it any more."""
    db.execute(
        "DELETE FROM agent_sessions WHERE session = (SELECT id FROM sessions WHERE public_id = ?)", (session_id,)
    )


def find(db: sqlite3.Connection, session_id: str, agent_id: str) -> AgentSession | None:
    """As this agent knows it: another one's is of no use to it."""
    session: int | None = sessions.get(db, session_id).id
    inherited = False
    while session is not None:
        row = db.execute(
            "SELECT name, cwd, made_at, agent_id FROM agent_sessions WHERE session = ?", (session,)
        ).fetchone()
        if row is not None:
            if row[3] != agent_id:
                return None
            return AgentSession(name=row[0], cwd=row[1], made_at=row[2], inherited=inherited)
        session, inherited = _broken_before(db, session), True
    return None


def past(db: sqlite3.Connection, session_id: str, limit: int) -> list[Message]:
    """What was said in the session that broke before this one, oldest first; nothing if there is none."""
    before = _broken_before(db, sessions.get(db, session_id).id)
    if before is None:
        return []
    return list(messages.page(db, before, messages.HistoryOptions(limit=limit)))


def live(db: sqlite3.Connection, agents: Mapping[str, str]) -> set[str]:
    """Those of the sessions, each given with its agent, that still take messages and have not moved to another."""
    found: set[str] = set()
    for session_id, agent_id in agents.items():
        with contextlib.suppress(UnknownSession):
            session = sessions.get(db, session_id)
            if session.status.live and session.key.agent_id == agent_id:
                found.add(session_id)
    return found


def with_process(db: sqlite3.Connection) -> list[Session]:
    """The live sessions that end with their processes."""
    rows = db.execute(
        f"SELECT id FROM sessions WHERE {LIVE} AND id IN (SELECT session FROM agent_sessions WHERE process)"
    ).fetchall()
    return [sessions.by_number(db, number) for (number,) in rows]


def broke(db: sqlite3.Connection, session_id: str, note: str, now: Micros) -> Session | None:
    """Its process was lost: the session ends with an error, and the history says why. None if it had ended."""
    try:
        session = sessions.get(db, session_id)
    except UnknownSession:
        return None
    if not session.status.live:
        return None
    messages.append(db, session.id, [NewMessage(role=Role.SYSTEM, content=Text(note))], now)
    return sessions.end(db, session, Status.ERROR, "crash", now)


def _broken_before(db: sqlite3.Connection, session: int) -> int | None:
    row = db.execute(
        "SELECT before.id FROM sessions JOIN sessions AS before ON before.id = sessions.predecessor"
        " WHERE sessions.id = ? AND before.status = 'error'",
        (session,),
    ).fetchone()
    return None if row is None else int(row[0])
