"""People: one row per person, one or several identities each; linking merges what belongs together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

from routing.errors import UnknownPerson
from routing.keys import MAIN, PeerKind, SessionKey
from routing.scopes import Person
from store import inbox, sessions
from store.content import clean, to_json
from store.ids import Micros, new_id
from store.schema import LIVE

#: The identity of whoever opens the web page with its token.
WEB_OWNER = ("web", "owner")

#: The channels whose identities the configuration gives to people.
CONFIGURABLE = frozenset({"telegram", "discord"})

_COLUMNS = "id, public_id, name, owner, known, config_name"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    id: int
    public_id: str
    name: str
    owner: bool
    #: Configured or approved, as opposed to a stranger who once wrote.
    known: bool
    config_name: str | None

    @property
    def person(self) -> Person:
        return Person(self.public_id, self.owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A person as the configuration has it."""

    name: str
    owner: bool = False
    #: Channel → user id.
    identities: dict[str, str] = field(default_factory=dict)


def find(db: sqlite3.Connection, channel: str, user_id: str) -> PersonRow | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM people WHERE id = (SELECT person FROM identities WHERE channel = ? AND user_id = ?)",
        (channel, user_id),
    ).fetchone()
    return None if row is None else _person(row)


def meet(db: sqlite3.Connection, channel: str, user_id: str, name: str, now: Micros) -> PersonRow:
    """The person behind an identity; made at first contact. The name shown is the last one seen."""
    found = find(db, channel, user_id)
    name = clean(name)
    if found is None:
        found = _create(db, name, now)
        db.execute("INSERT INTO identities (channel, user_id, person) VALUES (?, ?, ?)", (channel, user_id, found.id))
    elif name and found.config_name is None and found.name != name:
        db.execute("UPDATE people SET name = ? WHERE id = ?", (name, found.id))
        found = get(db, found.id)
    return found


def get(db: sqlite3.Connection, person: int) -> PersonRow:
    row = db.execute(f"SELECT {_COLUMNS} FROM people WHERE id = ?", (person,)).fetchone()
    if row is None:
        raise UnknownPerson(person=person)
    return _person(row)


def user_id(db: sqlite3.Connection, person: int, channel: str) -> str | None:
    """Who somebody is on a channel."""
    row = db.execute("SELECT user_id FROM identities WHERE person = ? AND channel = ?", (person, channel)).fetchone()
    return None if row is None else str(row[0])


def make_known(db: sqlite3.Connection, person: int, *, known: bool) -> None:
    """Let somebody in, or no longer."""
    db.execute("UPDATE people SET known = ? WHERE id = ?", (int(known), person))


def owner(db: sqlite3.Connection) -> PersonRow | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM people WHERE owner = 1").fetchone()
    return None if row is None else _person(row)


def sync(db: sqlite3.Connection, configured: Iterable[Configured], now: Micros) -> None:
    """Make the people of the configuration known, link their identities, and settle who the owner is.

    Without a configured owner, whoever opens the page with its token is one of his own.
    """
    before = owner(db)
    # Asked before identities change hands: afterwards a person can be left with the page alone.
    page = find(db, *WEB_OWNER)
    alone = page is not None and not _has_others(db, page)
    people = list(configured)
    db.execute("UPDATE people SET owner = 0 WHERE owner = 1")
    db.execute(
        "UPDATE people SET known = 0, config_name = NULL"
        " WHERE config_name IS NOT NULL AND config_name NOT IN (SELECT value FROM json_each(?))",
        (to_json([person.name for person in people]),),
    )
    chosen: PersonRow | None = None
    for person in people:
        row = _configured(db, person, now)
        for channel, user_id in person.identities.items():
            _claim(db, channel, user_id, row, now)
        _let_go(db, row, person)
        if person.owner:
            chosen = row
    if not (alone and _may_keep_page(db, chosen)):
        _take_page(db, chosen)
    if chosen is None:
        chosen = meet(db, *WEB_OWNER, "owner", now)
    else:
        link(db, *WEB_OWNER, chosen.id, now)
    if before is not None and (former := _survivor(db, before)).id != chosen.id:
        _move_direct(db, MAIN, former.public_id, now, person=former.id)
    _make_owner(db, chosen, now)


def link(db: sqlite3.Connection, channel: str, user_id: str, person: int, now: Micros) -> None:
    """An identity belongs to a person. If another person had it, the two become one."""
    target = get(db, person)
    other = find(db, channel, user_id)
    if other is None:
        db.execute("INSERT INTO identities (channel, user_id, person) VALUES (?, ?, ?)", (channel, user_id, person))
    elif other.id != person:
        _merge(db, other, target, now)


def _claim(db: sqlite3.Connection, channel: str, user_id: str, person: PersonRow, now: Micros) -> None:
    """The configuration gives an identity to a person. Taken from another one of its people, it comes alone."""
    holder = find(db, channel, user_id)
    if holder is not None and holder.id != person.id and holder.config_name is not None:
        _forget(db, channel, user_id)
    link(db, channel, user_id, person.id, now)


def _let_go(db: sqlite3.Connection, row: PersonRow, person: Configured) -> None:
    """An identity that the configuration no longer gives to a person has none of his rights any more."""
    held = db.execute("SELECT channel, user_id FROM identities WHERE person = ?", (row.id,)).fetchall()
    for channel, user_id in held:
        if channel in CONFIGURABLE and person.identities.get(channel) != user_id:
            _forget(db, channel, user_id)


def _take_page(db: sqlite3.Connection, owner: PersonRow | None) -> None:
    """The page changes hands, and nothing else: whoever had it stays who he is."""
    holder = find(db, *WEB_OWNER)
    if holder is not None and (owner is None or holder.id != owner.id):
        _forget(db, *WEB_OWNER)


def _survivor(db: sqlite3.Connection, person: PersonRow) -> PersonRow:
    """Whom a person was merged into, if he was."""
    (into,) = db.execute("SELECT merged_into FROM people WHERE id = ?", (person.id,)).fetchone()
    return person if into is None else _survivor(db, get(db, into))


def _may_keep_page(db: sqlite3.Connection, chosen: PersonRow | None) -> bool:
    """Whoever has only the page becomes one with a new owner, unless they were somebody in the configuration before."""
    holder = find(db, *WEB_OWNER)
    if holder is None:
        return False
    (once,) = db.execute("SELECT configured_once FROM people WHERE id = ?", (holder.id,)).fetchone()
    stays = holder.config_name is None if chosen is None else chosen.id == holder.id
    return stays or not once


def _has_others(db: sqlite3.Connection, person: PersonRow) -> bool:
    (count,) = db.execute("SELECT count(*) FROM identities WHERE person = ?", (person.id,)).fetchone()
    return bool(count > 1)


def _forget(db: sqlite3.Connection, channel: str, user_id: str) -> None:
    db.execute("DELETE FROM identities WHERE channel = ? AND user_id = ?", (channel, user_id))


def _merge(db: sqlite3.Connection, old: PersonRow, new: PersonRow, now: Micros) -> None:
    """`old` becomes `new`: identities and direct-message sessions follow, the newest session stays live."""
    peer = MAIN if old.owner else new.person.peer
    db.execute("UPDATE identities SET person = ? WHERE person = ?", (new.id, old.id))
    db.execute(
        "UPDATE people SET merged_into = ?, owner = 0, known = 0, config_name = NULL WHERE id = ?",
        (new.id, old.id),
    )
    _move_direct(db, old.person.peer, peer, now)
    # One tick: whose it is does not count as activity.
    db.execute("UPDATE sessions SET person = ?, updated_at = updated_at + 1 WHERE person = ?", (new.id, old.id))
    db.execute("UPDATE inbox SET person = ? WHERE person = ? AND state = 'waiting'", (new.id, old.id))
    if old.owner:
        _make_owner(db, new, now)


def _make_owner(db: sqlite3.Connection, person: PersonRow, now: Micros) -> None:
    db.execute("UPDATE people SET owner = 1, known = 1 WHERE id = ?", (person.id,))
    _move_direct(db, person.public_id, MAIN, now)


def _move_direct(
    db: sqlite3.Connection, old_peer: str, new_peer: str, now: Micros, *, person: int | None = None
) -> None:
    """Direct-message sessions of one peer id, and what waits for them, go to another; or one person's alone."""
    rows = db.execute(
        f"SELECT id FROM sessions WHERE peer_kind = 'dm' AND peer_id = ? AND {LIVE} AND (?2 IS NULL OR person = ?2)"
        " ORDER BY id",
        (old_peer, person),
    ).fetchall()
    for (number,) in rows:
        session = sessions.by_number(db, number)
        sessions.rekey(db, session, _with_peer(session.key, new_peer), now)
    for item in inbox.all_waiting(db):
        if item.key.peer_kind is PeerKind.DM and item.key.peer_id == old_peer:
            inbox.rekey(db, item.key, _with_peer(item.key, new_peer), person=person)


def _with_peer(key: SessionKey, peer: str) -> SessionKey:
    return SessionKey(key.agent_id, key.channel, key.account_id, key.peer_kind, peer)


def _configured(db: sqlite3.Connection, person: Configured, now: Micros) -> PersonRow:
    """The row of a configured person: found again by its identities (by its name if it has none), else made."""
    rows = [row for one in person.identities.items() if (row := find(db, *one)) is not None]
    if not person.identities:
        named = db.execute(f"SELECT {_COLUMNS} FROM people WHERE config_name = ?", (person.name,)).fetchone()
        rows = [] if named is None else [_person(named)]
    # A row that has another name of the configuration is somebody else.
    own = [row for row in rows if row.config_name == person.name] or [row for row in rows if row.config_name is None]
    found = own[0] if own else _create(db, person.name, now)
    db.execute(
        "UPDATE people SET known = 0, config_name = NULL WHERE config_name = ? AND id <> ?", (person.name, found.id)
    )
    db.execute(
        "UPDATE people SET name = ?, config_name = ?, configured_once = 1, known = 1 WHERE id = ?",
        (person.name, person.name, found.id),
    )
    return get(db, found.id)


def _create(db: sqlite3.Connection, name: str, now: Micros) -> PersonRow:
    row = db.execute(
        f"INSERT INTO people (public_id, name, created_at) VALUES (?, ?, ?) RETURNING {_COLUMNS}",
        (new_id(), name, now),
    ).fetchone()
    return _person(row)


def _person(row: tuple[int, str, str, int, int, str | None]) -> PersonRow:
    return PersonRow(
        id=row[0], public_id=row[1], name=row[2], owner=bool(row[3]), known=bool(row[4]), config_name=row[5]
    )
