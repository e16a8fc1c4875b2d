"""Where else a question goes: to those who may answer it, if whoever asked may not."""

from __future__ import annotations

from dataclasses import replace

from gateway.questions.deciding import may_answer
from routing.messages import Address
from store import inbox, people
from store.database import Database
from store.questions import NewQuestion

#: Messages that are looked through for the last one of somebody.
_LOOK_BACK = 2000
#: People who are asked at once.
_MOST = 5


def elsewhere(db: Database, new: NewQuestion, here: Address) -> list[Address]:
    """The direct chats of those who may answer, where they last wrote; none if the question is seen by one already."""
    if new.asker is not None and _may(db, new, new.asker, here):
        return []
    newest = inbox.newest_direct(db, _LOOK_BACK)
    found = [replace(address, reply_to=None) for person, address in newest if _may(db, new, person, address)]
    return [address for address in found if address.place != here.place][:_MOST]


def _may(db: Database, new: NewQuestion, person: int, where: Address) -> bool:
    user = people.user_id(db, person, where.channel)
    return may_answer(new, people.get(db, person), f"{where.channel}:{user}")
