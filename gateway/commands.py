"""Commands that people type. They do not queue; each takes effect in the transaction that accepts it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from gateway import compaction, phrases
from gateway.admission import AgentRules
from gateway.config import Strategy
from routing.errors import NothingToUndo
from routing.keys import SessionKey
from store import compactions, inbox, outbox, sessions, turns
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import OutboxState, Status, Turn
from store.turns import Ending

_COMMAND = re.compile(r"/([a-z]+)(?:@\w+)?(?:\s|$)")


class Command(StrEnum):
    COMPACT = "compact"
    HELP = "help"
    NEW = "new"
    STATUS = "status"
    STOP = "stop"
    UNCOMPACT = "uncompact"


@dataclass(frozen=True, slots=True)
class Stopped:
    """A turn that the database has ended; its run has to be ended too."""

    turn: Turn
    #: Where it was being answered.
    place: str


@dataclass(frozen=True, slots=True)
class Outcome:
    text: str
    stopped: Stopped | None = None


def parse(text: str) -> Command | None:
    """The command that a message begins with. Words that only look like one are for the agent."""
    found = _COMMAND.match(text)
    return Command(found[1]) if found is not None and found[1] in set(Command) else None


def execute(db: Database, command: Command, key: SessionKey, agent: AgentRules, now: Micros) -> Outcome:
    match command:
        case Command.COMPACT:
            return Outcome(_compact(db, key, agent, now))
        case Command.UNCOMPACT:
            return Outcome(_uncompact(db, key, now))
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


def stop(db: Database, key: SessionKey, now: Micros) -> Stopped | None:
    """End the running turn of a conversation; None if nothing runs. The database decides, once."""
    session = sessions.live(db, key)
    turn = None if session is None else turns.pending_of(db, session.id)
    return None if turn is None else stop_turn(db, turn, now)


def stop_turn(db: Database, turn: Turn, now: Micros) -> Stopped:
    """End one turn as failed with the reason `stopped`; what was shown of it is closed, not completed."""
    address = inbox.of_turn(db, turn.id)[-1].address
    growing = turns.growing(db, turn.id)
    ended = turns.fail(db, turn.id, phrases.NOTE_STOPPED, Ending(errors=("stopped",)), now)
    if outbox.preview_of(db, turn.id) is not None:
        shown = "".join(getattr(row.content, "text", "") for row in growing)
        text = f"{shown}\n\n{phrases.STOPPED}" if shown else phrases.STOPPED
        draft = Draft(address=address, text=text, turn=turn.id)
        outbox.put_answer(db, [draft], OutboxState.READY, now)
    return Stopped(ended, address.place)


def _compact(db: Database, key: SessionKey, agent: AgentRules, now: Micros) -> str:
    """The receipt has the numbers that the next turn will see."""
    session = sessions.live(db, key)
    if session is None:
        return phrases.NOTHING_TO_COMPACT
    sessions.wake(db, key)
    rules = agent.compaction
    if rules.strategy is Strategy.NONE:
        rules = rules.model_copy(update={"strategy": Strategy.WINDOW})
    done = compaction.compact(db, session, rules, agent.context_window, now)
    if done is None:
        return phrases.NOTHING_TO_COMPACT
    return phrases.COMPACTED.format(before=done.tokens_before, after=done.tokens_after)


def _uncompact(db: Database, key: SessionKey, now: Micros) -> str:
    session = sessions.live(db, key)
    try:
        if session is None:
            raise NothingToUndo
        sessions.wake(db, key)
        undone = compactions.undo(db, session.id, now)
    except NothingToUndo as nothing:
        return str(nothing)
    return phrases.UNCOMPACTED.format(strategy=undone.strategy)


def _status(db: Database, key: SessionKey) -> str:
    session = sessions.live(db, key)
    messages = 0 if session is None else session.message_count
    waiting = inbox.waiting_count(db, key)
    return phrases.STATUS.format(agent=key.agent_id, messages=messages, waiting=waiting)
