"""Forgetting a person: what they said, what they were called, and where they were reached, everywhere.

What others said about them, and answers that quote them, cannot be known and stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from routing.errors import OwnerProtected, UnknownPerson
from routing.keys import PeerKind, SessionKey, normalise_id, peer_id
from store import filters, messages, people, questions, sessions, turns
from store.content import Text, to_json
from store.ids import Micros, span
from store.inbox import decode_address
from store.people import PersonRow
from store.records import Message, Session, Turn
from store.schema import REMOVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """A person with all rows that became one, and what is theirs alone or in part."""

    person: PersonRow
    numbers: tuple[int, ...]
    public_ids: frozenset[str]
    #: Removed whole.
    own: tuple[Session, ...]
    #: Others speak there too: only what this person said goes.
    shared: tuple[Session, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    person: str
    #: What the configuration calls them, if it does.
    config_name: str | None
    sessions: int
    #: Replaced in conversations with others, and gone with the sessions.
    messages: int
    turns: int
    summaries: int
    inbox: int
    outbox: int
    refusals: int
    identities: int
    #: Of what was removed, for whoever keeps files that belong to it.
    session_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()


def resolve(db: sqlite3.Connection, name: str) -> PersonRow:
    """A person by public id, by the name in the configuration, or as `channel:userid`."""
    row = db.execute(
        "SELECT public_id FROM people WHERE public_id = ?1 OR config_name = ?1 ORDER BY public_id = ?1 DESC", (name,)
    ).fetchone()
    if row is not None:
        return _survivor(db, row[0])
    channel, colon, user = name.partition(":")
    found = people.find(db, channel, normalise_id(user)) if colon else None
    if found is None:
        raise UnknownPerson(person=name)
    return found


def look(db: sqlite3.Connection, name: str, *, really: bool = False) -> Whose:
    """Who is meant, and what is theirs. The owner only when it is really meant."""
    person = resolve(db, name)
    if person.owner and not really:
        raise OwnerProtected
    numbers = tuple(filters.same_person(db, person.public_id))
    public_ids = frozenset(people.get(db, number).public_id for number in numbers)
    marks = ", ".join("?" * len(numbers))
    rows = db.execute(
        f"SELECT id FROM sessions WHERE person IN ({marks})"
        f" UNION SELECT session FROM participants WHERE person IN ({marks}) ORDER BY 1",
        (*numbers, *numbers),
    ).fetchall()
    found = [sessions.by_number(db, number) for (number,) in rows]
    own = tuple(session for session in found if _is_own(db, session, numbers, public_ids))
    return Whose(
        person=person,
        numbers=numbers,
        public_ids=public_ids,
        own=own,
        shared=tuple(session for session in found if session not in own),
    )


def running(db: sqlite3.Connection, whose: Whose) -> list[Turn]:
    """Turns that have to be stopped first: all in their own sessions, and those they asked for in others."""
    found = [turns.pending_of(db, session.id) for session in (*whose.own, *whose.shared)]
    own = {session.id for session in whose.own}
    return [turn for turn in found if turn and (turn.session in own or turn.created_by in whose.numbers)]


def forget(db: sqlite3.Connection, whose: Whose, now: Micros) -> Forgotten:
    """Remove it. No turn of theirs may be running any more."""
    waiting, written = _empty_boxes(db, whose)
    said = asked = summaries = 0
    gone: list[str] = []
    users = {f"{channel}:{user}" for channel, user in _identities(db, whose.numbers)}
    for session in whose.shared:
        theirs = _messages(db, session, whose.public_ids)
        _replace(db, session, theirs, now)
        _unquote(db, session, users, now)
        gone += [message.public_id for message in theirs]
        said += len(theirs)
        asked += _blank_turns(db, session, whose.numbers, {message.turn for message in theirs})
        summaries += _blank_summaries(db, session, theirs)
    questions.forget(db, whose.numbers, now)
    for session in whose.own:
        sessions.remove(db, session.id)
    refused, identities = _empty_person(db, whose.numbers)
    return Forgotten(
        person=whose.person.public_id,
        config_name=whose.person.config_name,
        sessions=len(whose.own),
        messages=said + sum(session.message_count for session in whose.own),
        turns=asked,
        summaries=summaries,
        inbox=waiting,
        outbox=written,
        refusals=refused,
        identities=identities,
        session_ids=tuple(session.public_id for session in whose.own),
        message_ids=tuple(gone),
    )


def _survivor(db: sqlite3.Connection, public_id: str) -> PersonRow:
    same = filters.same_person(db, public_id)
    marks = ", ".join("?" * len(same))
    (number,) = db.execute(f"SELECT id FROM people WHERE id IN ({marks}) AND merged_into IS NULL", same).fetchone()
    return people.get(db, number)


def _is_own(db: sqlite3.Connection, session: Session, numbers: Sequence[int], public_ids: frozenset[str]) -> bool:
    """A direct conversation in which nobody else wrote, or a group's part that is one member's alone."""
    key = session.key
    if key.peer_kind is not PeerKind.DM:
        return any(key.peer_id.endswith(f"@{peer_id(public_id)}") for public_id in public_ids)
    marks = ", ".join("?" * len(numbers))
    others = db.execute(
        f"SELECT 1 FROM participants WHERE session = ? AND person <> 0 AND person NOT IN ({marks}) LIMIT 1",
        (session.id, *numbers),
    ).fetchone()
    return others is None


def _messages(db: sqlite3.Connection, session: Session, public_ids: frozenset[str]) -> list[Message]:
    rows = db.execute(
        "SELECT public_id FROM messages WHERE id BETWEEN ? AND ?"
        " AND json_extract(metadata, '$.sender.id') IN (SELECT value FROM json_each(?)) ORDER BY id",
        (*span(session.id), to_json(sorted(public_ids))),
    ).fetchall()
    return [messages.by_public_id(db, public_id) for (public_id,) in rows]


def _replace(db: sqlite3.Connection, session: Session, theirs: Sequence[Message], now: Micros) -> None:
    """Whoever polls for changes sees that it is gone."""
    for message in theirs:
        metadata = {name: value for name, value in message.metadata.items() if name == "receivedAt"}
        _, when = sessions.advance(db, session.id, 0, now)
        messages.replace(db, message.id, Text(REMOVED), when, metadata={**metadata, "forgotten": True})


def _unquote(db: sqlite3.Connection, session: Session, users: set[str], now: Micros) -> None:
    """What others' messages carry of theirs: the message replied to, and what was overheard."""
    rows = db.execute(
        "SELECT public_id FROM messages WHERE id BETWEEN ? AND ?"
        " AND (json_extract(metadata, '$.quote') IS NOT NULL OR json_extract(metadata, '$.overheard') IS NOT NULL)",
        span(session.id),
    ).fetchall()
    for (public_id,) in rows:
        message = messages.by_public_id(db, public_id)
        about = message.metadata
        heard = [line for line in about.get("overheard", ()) if line["user"] not in users]
        quoted = about.get("quote") or {}
        kept = {name: value for name, value in about.items() if name not in {"quote", "overheard"}}
        if quoted and quoted["user"] not in users:
            kept["quote"] = quoted
        if heard:
            kept["overheard"] = heard
        if kept != about:
            _, when = sessions.advance(db, session.id, 0, now)
            messages.replace(db, message.id, message.content, when, metadata=kept)


def _blank_turns(db: sqlite3.Connection, session: Session, numbers: Sequence[int], said_in: set[int | None]) -> int:
    """What turns repeat of what they asked. The triggers let an ended turn change in this and in nothing else."""
    theirs = [turn for turn in turns.of_session(db, session.id) if turn.created_by in numbers or turn.id in said_in]
    for turn in theirs:
        if turn.instruction_summary != REMOVED:
            db.execute("UPDATE turns SET instruction_summary = ? WHERE id = ?", (REMOVED, turn.id))
    # A conversation is called by its first words.
    if any(turn.seq == 1 for turn in theirs):
        db.execute("UPDATE sessions SET title = NULL, updated_at = updated_at + 1 WHERE id = ?", (session.id,))
    return len(theirs)


def _blank_summaries(db: sqlite3.Connection, session: Session, theirs: Sequence[Message]) -> int:
    """A summary of a part in which they spoke tells what they said."""
    if not theirs:
        return 0
    return db.execute(
        "UPDATE compactions SET summary = ? WHERE session = ? AND through_seq >= ? AND summary <> ''",
        (REMOVED, session.id, theirs[0].seq),
    ).rowcount


def _empty_boxes(db: sqlite3.Connection, whose: Whose) -> tuple[int, int]:
    """What waits to be answered or delivered, and what is remembered of what was."""
    numbers, own = to_json(list(whose.numbers)), to_json([session.id for session in whose.own])
    places = _direct_places(db, whose)
    asked = [
        turn.id for one in whose.shared for turn in turns.of_session(db, one.id) if turn.created_by in whose.numbers
    ]
    written = db.execute(
        "DELETE FROM outbox WHERE turn IN (SELECT value FROM json_each(?1))"
        " OR turn >> 32 IN (SELECT value FROM json_each(?2))"
        " OR (turn IS NULL AND place IN (SELECT value FROM json_each(?3)))",
        (to_json(asked), own, to_json(sorted(places))),
    ).rowcount
    waiting = db.execute(
        "DELETE FROM inbox WHERE person IN (SELECT value FROM json_each(?1))"
        " OR turn >> 32 IN (SELECT value FROM json_each(?2)) OR session IN (SELECT value FROM json_each(?2))",
        (numbers, own),
    ).rowcount
    return waiting, written


def _direct_places(db: sqlite3.Connection, whose: Whose) -> set[str]:
    """Where they are written to directly, as far as it is known: notices there belong to no turn."""
    wrote = db.execute(
        "SELECT DISTINCT key, address FROM inbox WHERE person IN (SELECT value FROM json_each(?))",
        (to_json(list(whose.numbers)),),
    ).fetchall()
    direct = {decode_address(address).place for key, address in wrote if SessionKey.parse(key).peer_kind is PeerKind.DM}
    identities = set(_identities(db, whose.numbers))
    notices = db.execute("SELECT DISTINCT place, address FROM outbox WHERE turn IS NULL").fetchall()
    for place, stored in notices:
        address = decode_address(stored)
        if (address.channel, normalise_id(address.chat)) in identities:
            direct.add(place)
    return direct


def _identities(db: sqlite3.Connection, numbers: Sequence[int]) -> list[tuple[str, str]]:
    return db.execute(
        "SELECT channel, user_id FROM identities WHERE person IN (SELECT value FROM json_each(?))",
        (to_json(list(numbers)),),
    ).fetchall()


def _empty_person(db: sqlite3.Connection, numbers: Sequence[int]) -> tuple[int, int]:
    """The rows stay, because turns refer to them; nothing in them says who it was."""
    identities = _identities(db, numbers)
    refused = sum(
        db.execute("DELETE FROM refusals WHERE channel = ? AND sender = ?", identity).rowcount
        for identity in identities
    )
    for channel, user in identities:
        db.execute("DELETE FROM pairings WHERE channel = ? AND sender = ?", (channel, user))
        db.execute("DELETE FROM overheard WHERE sender = ?", (f"{channel}:{user}",))
    mine = "IN (SELECT value FROM json_each(?))"
    values = (to_json(list(numbers)),)
    db.execute(f"DELETE FROM identities WHERE person {mine}", values)
    db.execute(f"UPDATE OR IGNORE participants SET person = 0 WHERE person {mine}", values)
    db.execute(f"DELETE FROM participants WHERE person {mine}", values)
    db.execute(f"UPDATE sessions SET person = NULL, updated_at = updated_at + 1 WHERE person {mine}", values)
    db.execute(f"UPDATE people SET name = '', config_name = NULL, owner = 0, known = 0 WHERE id {mine}", values)
    return refused, len(identities)
