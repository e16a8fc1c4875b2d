"""Sessions: found or created by key, patched, ended, moved, deleted. Agent-facing functions take the agent."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from enum import Enum

from routing.errors import ForbiddenTransition, RepoBound, SessionEnded, UnknownSession, WrongAgent
from routing.keys import SessionKey, in_moved_chat
from store import filters
from store.content import Json, clean, to_json
from store.filters import Cursor, Order
from store.filters import SessionFilter as SessionFilter
from store.ids import Micros, new_id
from store.records import Session, Status, Usage
from store.schema import LIVE

_COLUMNS = (
    "id, public_id, key, status, person, predecessor, title, last_model, last_seq, message_count, turn_count, "
    "total_input_tokens, total_output_tokens, compaction_count, last_compaction_at, reason, metadata, "
    "created_at, updated_at, (SELECT repos.public_id FROM repos WHERE repos.id = sessions.repo)"
)


class Unset(Enum):
    UNSET = "unset"


UNSET = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPatch:
    """What to change; fields that are not given stay as they are."""

    title: str | None | Unset = UNSET
    last_model: str | None | Unset = UNSET
    custom: Json | Unset = UNSET


def get_or_create(
    db: sqlite3.Connection, agent: str, key: SessionKey, now: Micros, *, person: int | None = None
) -> Session:
    """The live session of the key. After one that ended in error, its successor points to it."""
    _check_agent(agent, key)
    session = live(db, key)
    if session is not None:
        return session
    last = db.execute("SELECT id, status FROM sessions WHERE key = ? ORDER BY id DESC LIMIT 1", (str(key),)).fetchone()
    predecessor = last[0] if last is not None and last[1] == Status.ERROR else None
    return create(db, key, now, person=person, predecessor=predecessor)


def create(
    db: sqlite3.Connection,
    key: SessionKey,
    now: Micros,
    *,
    person: int | None = None,
    predecessor: int | None = None,
    public_id: str | None = None,
) -> Session:
    row = db.execute(
        "INSERT INTO sessions (public_id, key, agent_id, channel, account_id, peer_kind, peer_id, person, predecessor,"
        f" created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {_COLUMNS}",
        (
            public_id or new_id(),
            str(key),
            key.agent_id,
            key.channel,
            key.account_id,
            key.peer_kind,
            key.peer_id,
            person,
            predecessor,
            now,
            now,
        ),
    ).fetchone()
    return _session(row)


def live(db: sqlite3.Connection, key: SessionKey) -> Session | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM sessions WHERE key = ? AND {LIVE}", (str(key),)).fetchone()
    return None if row is None else _session(row)


def get(db: sqlite3.Connection, public_id: str) -> Session:
    row = db.execute(f"SELECT {_COLUMNS} FROM sessions WHERE public_id = ?", (public_id,)).fetchone()
    if row is None:
        raise UnknownSession(session=public_id)
    return _session(row)


def bind(db: sqlite3.Connection, session: int, repo_id: str) -> Session:
    """Give a session the repository that it keeps for life; the same one again is no change."""
    row = by_number(db, session)
    if row.repo_id == repo_id:
        return row
    if row.repo_id is not None:
        raise RepoBound(session=row.public_id)
    db.execute("UPDATE sessions SET repo = (SELECT id FROM repos WHERE public_id = ?) WHERE id = ?", (repo_id, session))
    return by_number(db, session)


def by_number(db: sqlite3.Connection, session: int) -> Session:
    row = db.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise UnknownSession(session=session)
    return _session(row)


def for_agent(db: sqlite3.Connection, agent: str, key: SessionKey) -> Session:
    """The live session of an agent's own key; another agent's key is refused before anything is read."""
    _check_agent(agent, key)
    session = live(db, key)
    if session is None:
        raise UnknownSession(session=key)
    return session


def patch(db: sqlite3.Connection, agent: str, key: SessionKey, change: SessionPatch) -> Session:
    session = for_agent(db, agent, key)
    values: dict[str, object] = {}
    if change.title is not UNSET:
        values["title"] = None if change.title is None else clean(change.title)
    if change.last_model is not UNSET:
        values["last_model"] = None if change.last_model is None else clean(change.last_model)
    if change.custom is not UNSET:
        values["metadata"] = to_json(change.custom)
    if values:
        # Moved, but not to now: a new name is no activity, and lists go by that.
        columns = ", ".join(f"{name} = ?" for name in values) + ", updated_at = updated_at + 1"
        db.execute(f"UPDATE sessions SET {columns} WHERE id = ?", (*values.values(), session.id))
    return by_number(db, session.id)


def delete(db: sqlite3.Connection, agent: str, key: SessionKey) -> None:
    """Remove the live session of the key with all that belongs to it."""
    remove(db, for_agent(db, agent, key).id)


def remove(db: sqlite3.Connection, session: int) -> None:
    """Remove a session, ended ones too; messages, turns, compactions and deliveries go with it.

    What its running turn was answering is cancelled: nothing else would end it, and its text must go as well.
    """
    db.execute(
        "UPDATE inbox SET state = 'cancelled', text = '', sender_name = '' WHERE state = 'running'"
        " AND turn IN (SELECT id FROM turns WHERE session = ? AND status = 'pending')",
        (session,),
    )
    if db.execute("DELETE FROM sessions WHERE id = ?", (session,)).rowcount == 0:
        raise UnknownSession(session=session)


def list_for(db: sqlite3.Connection, agent: str, which: SessionFilter, limit: int = 100) -> list[Session]:
    """An agent's own sessions, newest first."""
    if which.agent_id not in {None, agent}:
        raise WrongAgent(session=which.agent_id, agent=agent)
    return _select(db, which, agent, (limit, 0))


def list_all(
    db: sqlite3.Connection,
    which: SessionFilter,
    limit: int = 100,
    offset: int = 0,
    *,
    order: Order = Order.CREATED,
    after: Cursor | None = None,
) -> tuple[list[Session], int]:
    """Sessions of all agents, newest first, and how many match. For administrators only.

    `after` continues behind a session at a cost that does not grow with the depth; `offset` counts its way there.
    """
    condition, values = filters.where(db, which, which.agent_id)
    total: int = db.execute(f"SELECT count(*) FROM sessions{condition}", values).fetchone()[0]
    return _select(db, which, which.agent_id, (limit, offset), order, after), total


def wake(db: sqlite3.Connection, key: SessionKey) -> None:
    """A message was accepted: a resting session is active again."""
    db.execute(
        f"UPDATE sessions SET status = 'active', reason = NULL WHERE key = ? AND {LIVE} AND status <> 'active'",
        (str(key),),
    )


def activate(db: sqlite3.Connection, session: int) -> None:
    """A turn begins in a session that rested or was compacted."""
    db.execute("UPDATE sessions SET status = 'active', reason = NULL WHERE id = ?", (session,))


def rest(db: sqlite3.Connection, before: Micros) -> list[str]:
    """Sessions without activity since `before` fall idle, and those that are one with a process end. Their ids."""
    # Moved, but not to now: falling idle is no activity, and lists go by that.
    rows = db.execute(
        "UPDATE sessions SET reason = 'idle_timeout', updated_at = updated_at + 1, status = CASE WHEN EXISTS"
        " (SELECT 1 FROM agent_sessions WHERE session = sessions.id AND process) THEN 'completed' ELSE 'idle' END"
        " WHERE status IN ('active', 'compacted') AND updated_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session = sessions.id AND turns.status = 'pending')"
        " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.key = sessions.key AND inbox.state = 'waiting')"
        " RETURNING public_id",
        (before,),
    ).fetchall()
    return [public_id for (public_id,) in rows]


def end(db: sqlite3.Connection, session: Session, status: Status, reason: str, now: Micros) -> Session:
    """Take a session to one of its ends. What a turn or a waiting message needs is the caller's business."""
    current = by_number(db, session.id)
    if not _may_end(current.status, status):
        if current.status.live:
            raise ForbiddenTransition(old=current.status, new=status)
        raise SessionEnded(session=session.public_id, status=current.status)
    db.execute(
        "UPDATE sessions SET status = ?, reason = ?, updated_at = max(?, updated_at + 1) WHERE id = ?",
        (status, reason, now, session.id),
    )
    return by_number(db, session.id)


def move(db: sqlite3.Connection, session: Session, agent: str, now: Micros) -> Session:
    """Move a session to another agent: its key changes, its history stays."""
    old = session.key
    key = SessionKey(agent, old.channel, old.account_id, old.peer_kind, old.peer_id)
    rekey(db, session, key, now)
    return by_number(db, session.id)


def rekey(db: sqlite3.Connection, session: Session, key: SessionKey, now: Micros) -> None:
    """Give a session another key. If that key has a live session, the one with the newer activity stays live."""
    other = live(db, key)
    if session.status.live and other is not None and other.id != session.id:
        older, newer = sorted((session, other), key=lambda one: _last_said(db, one))
        end(db, older, Status.ARCHIVED, "merged", now)
        db.execute(
            "UPDATE sessions SET predecessor = coalesce(predecessor, ?) WHERE id = ?",
            (newer.predecessor, older.id),
        )
        db.execute("UPDATE sessions SET predecessor = ? WHERE id = ?", (older.id, newer.id))
    db.execute(
        "UPDATE sessions SET key = ?, agent_id = ?, channel = ?, account_id = ?, peer_kind = ?, peer_id = ?"
        " WHERE id = ?",
        (str(key), key.agent_id, key.channel, key.account_id, key.peer_kind, key.peer_id, session.id),
    )
    # What is meant for this session alone waits in its lane, wherever that is.
    db.execute("UPDATE inbox SET key = ? WHERE session = ? AND state = 'waiting'", (str(key), session.id))


def move_chat(db: sqlite3.Connection, channel: str, account: str, old: str, new: str, now: Micros) -> None:
    """A group has another id: its conversations, those of its threads and members too, go on under the new one."""
    rows = db.execute(
        f"SELECT id FROM sessions WHERE {LIVE} AND channel = ? AND account_id = ? AND peer_kind <> 'dm'",
        (channel, account),
    ).fetchall()
    for (number,) in rows:
        session = by_number(db, number)
        key = in_moved_chat(session.key, channel, account, old, new)
        if key != session.key:
            rekey(db, session, key, now)


def advance(db: sqlite3.Connection, session: int, count: int, now: Micros) -> tuple[int, Micros]:
    """Reserve `count` numbers and strictly later times; return the last of each. Also marks the activity."""
    row = db.execute(
        "UPDATE sessions SET last_seq = last_seq + ?1, message_count = message_count + ?1,"
        " updated_at = max(?2, updated_at + max(?1, 1)) WHERE id = ?3 RETURNING last_seq, updated_at",
        (count, now, session),
    ).fetchone()
    if row is None:
        raise UnknownSession(session=session)
    return row[0], row[1]


def start_turn(db: sqlite3.Connection, session: int, count: int, now: Micros) -> tuple[int, int, Micros, str]:
    """Reserve a turn with `count` messages; return its number, the last message's number and time, the public id."""
    row = db.execute(
        "UPDATE sessions SET last_seq = last_seq + ?1, message_count = message_count + ?1, turn_count = turn_count + 1,"
        f" status = 'active', reason = NULL, updated_at = max(?2, updated_at + ?1) WHERE id = ?3 AND {LIVE}"
        " RETURNING turn_count, last_seq, updated_at, public_id",
        (count, now, session),
    ).fetchone()
    if row is None:
        ended = by_number(db, session)
        raise SessionEnded(session=ended.public_id, status=ended.status)
    return row[0], row[1], row[2], row[3]


def close_turn(
    db: sqlite3.Connection, session: int, count: int, usage: Usage, model: str | None, now: Micros
) -> tuple[int, Micros]:
    """Reserve `count` messages and the end of a turn, and add its tokens to the totals.

    Returns the last message's number and the time of the end, which is also the last message's.
    """
    row = db.execute(
        "UPDATE sessions SET last_seq = last_seq + ?1, message_count = message_count + ?1,"
        " total_input_tokens = total_input_tokens + ?2, total_output_tokens = total_output_tokens + ?3,"
        " last_model = coalesce(?4, last_model), updated_at = max(?5, updated_at + max(?1, 1)) WHERE id = ?6"
        " RETURNING last_seq, updated_at",
        (count, usage.total_input or 0, usage.total_output or 0, model, now, session),
    ).fetchone()
    return row[0], row[1]


def _check_agent(agent: str, key: SessionKey) -> None:
    if key.agent_id != agent:
        raise WrongAgent(session=key, agent=agent)


def _last_said(db: sqlite3.Connection, session: Session) -> Micros:
    """When somebody last spoke. Not `updated_at`: falling idle and being renamed are not activity."""
    row = db.execute(
        "SELECT changed_at FROM messages WHERE session = ? ORDER BY changed_at DESC LIMIT 1", (session.id,)
    ).fetchone()
    return session.created_at if row is None else int(row[0])


def _may_end(old: Status, new: Status) -> bool:
    if new is Status.ARCHIVED:
        return old is not Status.ARCHIVED
    return old.live and not new.live


def _select(
    db: sqlite3.Connection,
    which: SessionFilter,
    agent: str | None,
    slice_: tuple[int, int],
    order: Order = Order.CREATED,
    after: Cursor | None = None,
) -> list[Session]:
    condition, values = filters.where(db, which, agent, order, after)
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM sessions{condition} ORDER BY {order.column} DESC, id DESC LIMIT ? OFFSET ?",
        (*values, *slice_),
    ).fetchall()
    return [_session(row) for row in rows]


def _session(row: tuple[Json, ...]) -> Session:
    return Session(
        id=row[0],
        public_id=row[1],
        key=SessionKey.parse(row[2]),
        status=Status(row[3]),
        person=row[4],
        predecessor=row[5],
        title=row[6],
        last_model=row[7],
        last_seq=row[8],
        message_count=row[9],
        turn_count=row[10],
        total_input_tokens=row[11],
        total_output_tokens=row[12],
        compaction_count=row[13],
        last_compaction_at=row[14],
        reason=row[15],
        custom={} if row[16] == "{}" else json.loads(row[16]),
        created_at=row[17],
        updated_at=row[18],
        repo_id=row[19],
    )
