"""Where else a question goes: to those who may answer it, if whoever asked may not."""

from __future__ import annotations

from dataclasses import replace

from gateway.questions.deciding import may_answer
from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import people
from store.database import Database
from store.inbox import decode_address
from store.people import PersonRow
from store.questions import NewQuestion

#: Messages that are looked through for the last one of somebody.
_LOOK_BACK = 5000
#: People who are asked at once.
_MOST = 5


def elsewhere(db: Database, new: NewQuestion, here: Address) -> list[Address]:
    """The direct chats of those who may answer, where they last wrote; none if the question is seen by one already."""
    asker = None if new.asker is None else people.get(db, new.asker)
    if asker is not None and may_answer(new, asker, _identity(db, asker, here.channel)):
        return []
    found: dict[int, Address] = {}
    others: set[int] = set()
    rows = db.execute("SELECT key, address, person FROM inbox ORDER BY id DESC LIMIT ?", (_LOOK_BACK,)).fetchall()
    for key, stored, number in rows:
        if number is None or number in found or number in others:
            continue
        if SessionKey.parse(key).peer_kind is not PeerKind.DM:
            continue
        address, person = decode_address(stored), people.get(db, number)
        if may_answer(new, person, _identity(db, person, address.channel)):
            found[number] = replace(address, reply_to=None)
        else:
            others.add(number)
        if len(found) == _MOST:
            break
    return [one for one in found.values() if one.place != here.place]


def _identity(db: Database, person: PersonRow, channel: str) -> str:
    row = db.execute("SELECT user_id FROM identities WHERE person = ? AND channel = ?", (person.id, channel)).fetchone()
    return "" if row is None else f"{channel}:{row[0]}"
