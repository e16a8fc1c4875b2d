"""The inbox: a message is here before its platform is told that we have it, and stays until its turn has ended."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from routing.errors import LaneFull, SessionEnded
from routing.keys import PeerKind, SessionKey, in_moved_chat
from routing.messages import Address
from store import about, sessions
from store.about import About
from store.content import Json, clean, to_json
from store.ids import Micros, new_id
from store.records import InboxItem, InboxState

_COLUMNS = (
    "id, key, session, address, person, sender_name, message_id, text, state, turn, received_at, about, thought,"
    " open_until"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message with everything that was decided about it."""

    external_id: str
    key: SessionKey
    address: Address
    text: str
    person: int | None = None
    sender_name: str = ""
    #: For one session only: it is refused when that session has ended.
    session: int | None = None
    about: About = About()
    #: Until then more of the same thought may come, and the turn waits for it.
    open_until: Micros = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    item: InboxItem
    #: The same external id came before; nothing was stored this time.
    duplicate: bool


def accept(db: sqlite3.Connection, arrival: Arrival, now: Micros, *, max_waiting: int | None = None) -> Accepted:
    """Store a message once. The second time the same external id gives the first one's row."""
    session = None if arrival.session is None else sessions.by_number(db, arrival.session)
    item = insert(db, arrival, InboxState.WAITING, now)
    if item is None:
        known = find(db, arrival.address.channel, arrival.external_id)
        if known is not None:
            return Accepted(known, duplicate=True)
        raise RuntimeError("a message id was given twice")
    if session is not None and not session.status.live:
        raise SessionEnded(session=session.public_id, status=session.status)
    if max_waiting is not None and waiting_count(db, arrival.key) > max_waiting:
        raise LaneFull(limit=max_waiting)
    sessions.wake(db, arrival.key)
    return Accepted(item, duplicate=False)


def find(db: sqlite3.Connection, channel: str, external_id: str) -> InboxItem | None:
    """The message that came under this external id, if it came before."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM inbox WHERE channel = ? AND external_id = ?", (channel, clean(external_id))
    ).fetchone()
    return None if row is None else _item(row)


def insert(db: sqlite3.Connection, arrival: Arrival, state: InboxState, now: Micros) -> InboxItem | None:
    """One row per external id; None if there is one already."""
    row = db.execute(
        "INSERT INTO inbox (channel, external_id, key, session, address, person, sender_name, message_id, text, state,"
        " received_at, about, thought, open_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        f" ON CONFLICT DO NOTHING RETURNING {_COLUMNS}",
        (
            arrival.address.channel,
            clean(arrival.external_id),
            str(arrival.key),
            arrival.session,
            encode_address(arrival.address),
            arrival.person,
            clean(arrival.sender_name),
            new_id(),
            clean(arrival.text) if state is InboxState.WAITING else "",
            state,
            now,
            about.encode(arrival.about) if state is InboxState.WAITING else "{}",
            _thought(db, arrival, now) if state is InboxState.WAITING else None,
            arrival.open_until,
        ),
    ).fetchone()
    return None if row is None else _item(row)


def _thought(db: sqlite3.Connection, arrival: Arrival, now: Micros) -> int | None:
    """The message that this one goes on from: the newest that waits, if it is open and of the same person and place."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM inbox WHERE key = ? AND state = 'waiting' ORDER BY id DESC LIMIT 1",
        (str(arrival.key),),
    ).fetchone()
    if row is None:
        return None
    before = _item(row)
    same = before.person == arrival.person and before.address.room == arrival.address.room
    return (before.thought or before.id) if same and now < before.open_until else None


def change(db: sqlite3.Connection, key: SessionKey, address: Address, text: str) -> bool:
    """A message that still waits says something else now; false if none of this id waits, or it says the same."""
    for item in waiting(db, key):
        if item.address == address and item.text != text:
            db.execute("UPDATE inbox SET text = ? WHERE id = ?", (clean(text), item.id))
            return True
    return False


def cancel(db: sqlite3.Connection, channel: str, external_id: str) -> InboxItem | None:
    """A message was taken back before its turn; None if it does not wait."""
    row = db.execute(
        "UPDATE inbox SET state = 'cancelled', text = '', sender_name = '', about = '{}'"
        f" WHERE channel = ? AND external_id = ? AND state = 'waiting' RETURNING {_COLUMNS}",
        (channel, clean(external_id)),
    ).fetchone()
    return None if row is None else _item(row)


def waiting_count(db: sqlite3.Connection, key: SessionKey) -> int:
    row = db.execute("SELECT count(*) FROM inbox WHERE key = ? AND state = 'waiting'", (str(key),)).fetchone()
    return int(row[0])


def waiting(db: sqlite3.Connection, key: SessionKey) -> list[InboxItem]:
    """What waits on a key, oldest first."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM inbox WHERE key = ? AND state = 'waiting' ORDER BY id", (str(key),)
    ).fetchall()
    return [_item(row) for row in rows]


def all_waiting(db: sqlite3.Connection) -> list[InboxItem]:
    """Everything that waits, oldest first, for the start of the daemon."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM inbox WHERE state = 'waiting'").fetchall()
    return sorted((_item(row) for row in rows), key=lambda item: item.id)


def of_turn(db: sqlite3.Connection, turn: int) -> list[InboxItem]:
    """The messages that a turn answers, oldest first."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM inbox WHERE turn = ? ORDER BY id", (turn,)).fetchall()
    return [_item(row) for row in rows]


def get(db: sqlite3.Connection, items: Sequence[int]) -> list[InboxItem]:
    """Those of the given rows that still wait, oldest first."""
    marks = ", ".join("?" * len(items))
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM inbox WHERE id IN ({marks}) AND state = 'waiting' ORDER BY id", items
    ).fetchall()
    return [_item(row) for row in rows]


def start(db: sqlite3.Connection, items: Sequence[InboxItem], turn: int) -> None:
    for item in items:
        db.execute("UPDATE inbox SET state = 'running', turn = ? WHERE id = ?", (turn, item.id))


def finish(db: sqlite3.Connection, turn: int) -> None:
    """The turn has ended: only the external id is kept, to recognise the message if it comes again."""
    db.execute("UPDATE inbox SET state = 'done', text = '', sender_name = '', about = '{}' WHERE turn = ?", (turn,))


def cancel_for_session(db: sqlite3.Connection, session: int) -> int:
    """Messages meant for one session that has ended are not answered."""
    return db.execute(
        "UPDATE inbox SET state = 'cancelled', text = '', sender_name = '', about = '{}'"
        " WHERE session = ? AND state = 'waiting'",
        (session,),
    ).rowcount


def rekey(db: sqlite3.Connection, old: SessionKey, new: SessionKey, *, person: int | None = None) -> None:
    """What waits follows its conversation to another key: all of it, or one person's messages.

    Messages that are meant for one session stay with that session.
    """
    db.execute(
        "UPDATE inbox SET key = ?1"
        " WHERE key = ?2 AND state = 'waiting' AND session IS NULL AND (?3 IS NULL OR person = ?3)",
        (str(new), str(old), person),
    )


def move_chat(db: sqlite3.Connection, channel: str, account: str, old: str, new: str) -> None:
    """What waits in a group that has another id follows, also where no session was made yet."""
    for item in all_waiting(db):
        key = in_moved_chat(item.key, channel, account, old, new)
        if item.session is None and key != item.key:
            db.execute("UPDATE inbox SET key = ? WHERE id = ?", (str(key), item.id))


def prune(db: sqlite3.Connection, before: Micros, most: int = 1000) -> int:
    """Forget external ids that no platform will send again. Looks at the oldest rows only."""
    return db.execute(
        "DELETE FROM inbox WHERE id IN (SELECT id FROM (SELECT id, state, received_at FROM inbox ORDER BY id LIMIT ?)"
        " WHERE state IN ('done', 'cancelled') AND received_at < ?)",
        (most, before),
    ).rowcount


def newest_direct(db: sqlite3.Connection, look_back: int) -> list[tuple[int, Address]]:
    """Who wrote directly lately, and where, the newest first; each person once."""
    rows = db.execute(
        "SELECT key, address, person FROM inbox WHERE person IS NOT NULL ORDER BY id DESC LIMIT ?", (look_back,)
    ).fetchall()
    found: dict[int, Address] = {}
    for key, address, person in rows:
        if person not in found and SessionKey.parse(key).peer_kind is PeerKind.DM:
            found[person] = decode_address(address)
    return list(found.items())


def encode_address(address: Address) -> str:
    value = {"channel": address.channel, "account": address.account, "chat": address.chat}
    if address.thread is not None:
        value["thread"] = address.thread
    if address.reply_to is not None:
        value["reply_to"] = address.reply_to
    return to_json(value)


def decode_address(stored: str) -> Address:
    return Address(**json.loads(stored))


def _item(row: tuple[Json, ...]) -> InboxItem:
    return InboxItem(
        id=row[0],
        key=SessionKey.parse(row[1]),
        session=row[2],
        address=decode_address(row[3]),
        person=row[4],
        sender_name=row[5],
        message_id=row[6],
        text=row[7],
        state=InboxState(row[8]),
        turn=row[9],
        received_at=row[10],
        about=about.decode(row[11]),
        thought=row[12],
        open_until=row[13],
    )
