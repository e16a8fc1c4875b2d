"""Commands that people type. They do not queue; each takes effect in the transaction that accepts it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from gateway import phrases
from routing.keys import SessionKey
from store import inbox, outbox, sessions, turns
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import OutboxState, Status, Turn
from store.turns import Ending

_COMMAND = re.compile(r"/([a-z]+)(?:@\w+)?(?:\s|$)")


class Command(StrEnum):
    HELP = "help"
    NEW = "new"
    STATUS = "status"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Outcome:
    text: str
    #: A turn that the database has ended; its run has to be ended too.
    stopped: Turn | None = None


def parse(text: str) -> Command | None:
    """The command that a message begins with. Words that only look like one are for the agent."""
    found = _COMMAND.match(text)
    return Command(found[1]) if found is not None and found[1] in set(Command) else None


def execute(db: Database, command: Command, key: SessionKey, now: Micros) -> Outcome:
    match command:
        case Command.HELP:
            return Outcome(phrases.HELP)
        case Command.STATUS:
            return Outcome(_status(db, key))
        case Command.STOP:
            stopped = stop(db, key, now)
            waiting = inbox.waiting_count(db, key)
            text = phrases.NOTHING_RUNNING if stopped is None else phrases.STOPPED
            return Outcome(f"{text} {phrases.STILL_WAITING.format(count=waiting)}" if waiting else text, stopped)
        case Command.NEW:
            stopped = stop(db, key, now)
            session = sessions.live(db, key)
            if session is not None:
                sessions.end(db, session, Status.COMPLETED, "new", now)
            return Outcome(phrases.NEW_SESSION, stopped)


def stop(db: Database, key: SessionKey, now: Micros) -> Turn | None:
    """End the running turn of a conversation; None if nothing runs. The database decides, once."""
    session = sessions.live(db, key)
    turn = None if session is None else turns.pending_of(db, session.id)
    return None if turn is None else stop_turn(db, turn, now)


def stop_turn(db: Database, turn: Turn, now: Micros) -> Turn:
    """End one turn as failed with the reason `stopped`; what was shown of it is closed, not completed."""
    address = inbox.of_turn(db, turn.id)[-1].address
    growing = turns.growing(db, turn.id)
    ended = turns.fail(db, turn.id, phrases.NOTE_STOPPED, Ending(errors=("stopped",)), now)
    if outbox.preview_of(db, turn.id) is not None:
        shown = "".join(getattr(row.content, "text", "") for row in growing)
        text = f"{shown}\n\n{phrases.STOPPED}" if shown else phrases.STOPPED
        draft = Draft(address=address, text=text, session=turn.session, turn=turn.id)
        outbox.put_answer(db, [draft], OutboxState.READY, now)
    return ended


def _status(db: Database, key: SessionKey) -> str:
    session = sessions.live(db, key)
    messages = 0 if session is None else session.message_count
    waiting = inbox.waiting_count(db, key)
    return phrases.STATUS.format(agent=key.agent_id, messages=messages, waiting=waiting)
