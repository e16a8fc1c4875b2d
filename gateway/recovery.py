"""Recovery at start: what was held goes out, what was under way is settled, what waits is answered."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from gateway import phrases, stopping
from gateway.admission import AgentRules
from gateway.delivery import Delivery
from gateway.lanes import Lanes
from gateway.logs import Event, log
from gateway.questions import deciding
from gateway.steps import Started, address_of, fail
from routing.keys import SessionKey
from store import inbox, outbox, sessions, turns
from store.database import Database
from store.ids import Micros
from store.records import InboxItem, Status, Turn

#: A turn that was running in this many crashes is set aside.
_ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the last run of the daemon left behind."""

    released: int
    uncertain: int
    waiting: tuple[InboxItem, ...]
    again: tuple[tuple[SessionKey, int], ...]
    interrupted: int
    quarantined: tuple[Turn, ...]
    places: tuple[str, ...]
    #: Places that a platform wants left alone, and until when.
    holds: Mapping[str, Micros]


def look(db: Database, agents: Mapping[str, AgentRules], now: Micros) -> Found:
    """One transaction, in the order that matters."""
    released = outbox.release_all(db, now)
    uncertain = outbox.settle(db, now)
    deciding.close_all(db, phrases.OVER_RESTARTED, now)
    again: list[tuple[SessionKey, int]] = []
    interrupted = 0
    quarantined: list[Turn] = []
    for turn in turns.pending(db):
        key = sessions.by_number(db, turn.session).key
        agent = agents.get(key.agent_id)
        if turn.attempts >= _ATTEMPTS:
            _give_up(db, turn, phrases.QUARANTINED, now)
            quarantined.append(turn)
        elif agent is not None and agent.side_effects:
            _give_up(db, turn, phrases.INTERRUPTED, now)
            interrupted += 1
        else:
            again.append((key, turn.id))
    stopping.end_processes(db, Status.ERROR, "daemon_ended", phrases.NOTE_DAEMON_DIED, now)
    return Found(
        released=released,
        uncertain=uncertain,
        # Without what was meant for sessions that ended just now.
        waiting=tuple(inbox.all_waiting(db)),
        again=tuple(again),
        interrupted=interrupted,
        quarantined=tuple(quarantined),
        places=tuple(outbox.open_places(db)),
        holds=outbox.holds(db, now),
    )


def take_up(found: Found, lanes: Lanes, delivery: Delivery) -> None:
    """Hand over what was found: unfinished turns go before what waits in the same lane."""
    delivery.restore(found.holds)
    for key, turn in found.again:
        lanes.resume(key, turn)
    for item in found.waiting:
        lanes.submit(item)
    for place in found.places:
        delivery.kick(place)
    for quarantined in found.quarantined:
        log(Event.TURN_QUARANTINED, logging.ERROR, turn=quarantined.public_id, attempts=quarantined.attempts)
    log(
        Event.RECOVERY,
        waiting=len(found.waiting),
        rerun=len(found.again),
        interrupted=found.interrupted,
        quarantined=len(found.quarantined),
        released=found.released,
        uncertain=found.uncertain,
    )


def _give_up(db: Database, turn: Turn, why: str, now: Micros) -> None:
    session = sessions.by_number(db, turn.session)
    fail(db, Started(session=session, turn=turn, address=address_of(db, turn.id)), why, now)
