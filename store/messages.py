"""Messages: appended in order, all or none; read by pages whose cost depends on neither depth nor size."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from routing.errors import UnknownMessage
from routing.keys import SessionKey
from store import sessions
from store.content import Content, Json, clean, encode, to_json
from store.ids import Micros, new_id, pack, span
from store.records import Message, NewMessage, Role

#: Values in one query.
_AT_ONCE = 500

_ROLES = {role.value: role for role in Role}
_COLUMNS = "id, public_id, turn, role, content, tool_calls, tool_call_id, token_count, metadata, timestamp, changed_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """A page: the newest messages, or those next to a sequence number. Always in chronological order."""

    limit: int = 50
    before: int | None = None
    after: int | None = None


def append_messages(
    db: sqlite3.Connection, agent: str, key: SessionKey, messages: Sequence[NewMessage], now: Micros
) -> list[Message]:
    """Append to an agent's own session, in order, all or none."""
    session = sessions.for_agent(db, agent, key)
    return append(db, session.id, messages, now)


def existing(db: sqlite3.Connection, public_ids: Iterable[str]) -> set[str]:
    """Those of the messages that are still there."""
    wanted = sorted(public_ids)
    found: set[str] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        found.update(row[0] for row in db.execute(f"SELECT public_id FROM messages WHERE public_id IN ({marks})", some))
    return found


def get_history(
    db: sqlite3.Connection, agent: str, key: SessionKey, options: HistoryOptions | None = None
) -> list[Message]:
    """A page of an agent's own session."""
    return page(db, sessions.for_agent(db, agent, key).id, options or HistoryOptions())


def append(
    db: sqlite3.Connection, session: int, messages: Sequence[NewMessage], now: Micros, turn: int | None = None
) -> list[Message]:
    """Number, stamp and insert; the caller's transaction makes it all or none."""
    if not messages:
        return []
    last_seq, last_time = sessions.advance(db, session, len(messages), now)
    return insert(db, session, messages, last_seq, last_time, turn)


def insert(
    db: sqlite3.Connection,
    session: int,
    messages: Sequence[NewMessage],
    last_seq: int,
    last_time: Micros,
    turn: int | None,
) -> list[Message]:
    """Insert messages whose numbers and times are reserved up to the given last ones."""
    first = len(messages) - 1
    return [
        _insert(db, pack(session, last_seq - first + place), turn, new, last_time - first + place)
        for place, new in enumerate(messages)
    ]


def page(db: sqlite3.Connection, session: int, options: HistoryOptions) -> list[Message]:
    first, last = span(session)
    if options.after is not None:
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM messages WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
            (_within(session, options.after), last, options.limit),
        ).fetchall()
        return [_message(row) for row in rows]
    end = last if options.before is None else _within(session, options.before) - 1
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE id >= ? AND id <= ? ORDER BY id DESC LIMIT ?",
        (first, end, options.limit),
    ).fetchall()
    return [_message(row) for row in reversed(rows)]


def every(db: sqlite3.Connection, session: int) -> list[Message]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM messages WHERE id BETWEEN ? AND ? ORDER BY id", span(session))
    return [_message(row) for row in rows.fetchall()]


def changed_since(db: sqlite3.Connection, session: int, since: Micros) -> list[Message]:
    """Messages that are new or changed after `since`, in the order of the history."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE session = ? AND changed_at > ?", (session, since)
    ).fetchall()
    return sorted((_message(row) for row in rows), key=lambda message: message.seq)


def untouched(db: sqlite3.Connection, session: int, through: int, since: Micros) -> bool:
    """Whether no message up to `through` was changed after a moment."""
    row = db.execute(
        "SELECT 1 FROM messages WHERE session = ? AND changed_at > ? AND id <= ? LIMIT 1",
        (session, since, pack(session, through)),
    ).fetchone()
    return row is None


def between(db: sqlite3.Connection, session: int, first_seq: int, last_seq: int) -> list[Message]:
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE id BETWEEN ? AND ? ORDER BY id",
        (pack(session, first_seq), pack(session, last_seq)),
    ).fetchall()
    return [_message(row) for row in rows]


def by_public_id(db: sqlite3.Connection, public_id: str) -> Message:
    row = db.execute(f"SELECT {_COLUMNS} FROM messages WHERE public_id = ?", (public_id,)).fetchone()
    if row is None:
        raise UnknownMessage(message_id=public_id)
    return _message(row)


def replace(
    db: sqlite3.Connection,
    message: int,
    content: Content,
    when: Micros,
    *,
    token_count: int | None = None,
    metadata: dict[str, Json] | None = None,
) -> None:
    """Change a message that still grows; `when` comes from `sessions.advance`."""
    changed = db.execute(
        "UPDATE messages SET content = ?, token_count = coalesce(?, token_count),"
        " metadata = coalesce(?, metadata), changed_at = ? WHERE id = ?",
        (encode(content), token_count, None if metadata is None else to_json(metadata), when, message),
    ).rowcount
    if changed == 0:
        raise UnknownMessage(message_id=message)


def _within(session: int, seq: int) -> int:
    """The packed id of any number a caller may name; no number leads into another session."""
    first, last = span(session)
    return min(max(first + seq, first), last)


def _insert(db: sqlite3.Connection, packed: int, turn: int | None, new: NewMessage, when: Micros) -> Message:
    message = Message(
        packed,
        new.public_id or new_id(),
        turn,
        new.role,
        encode(new.content),
        None if new.tool_calls is None else to_json(new.tool_calls),
        None if new.tool_call_id is None else clean(new.tool_call_id),
        new.token_count,
        to_json(new.metadata) if new.metadata else "{}",
        when,
        when,
    )
    db.execute(f"INSERT INTO messages ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", message)
    return message


def _message(row: tuple[Json, ...]) -> Message:
    return Message(row[0], row[1], row[2], _ROLES[row[3]], *row[4:])
