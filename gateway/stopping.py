"""How a turn is ended from outside: by /stop, by the next message, by the API. The database decides, once."""

from __future__ import annotations

from dataclasses import dataclass

from gateway import phrases, usage
from gateway.questions import deciding
from routing.keys import SessionKey
from store import agent_sessions, inbox, messages, outbox, sessions, turns
from store.content import Text
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import NewMessage, OutboxState, Role, Session, Status, Turn
from store.turns import Ending


@dataclass(frozen=True, slots=True)
class Stopped:
    """A turn that the database has ended; its run has to be ended too."""

    turn: Turn
    #: Where it was being answered, and where it asked for something.
    places: tuple[str, ...]


def stop(db: Database, key: SessionKey, now: Micros) -> Stopped | None:
    """End the running turn of a conversation; None if nothing runs. The database decides, once."""
    session = sessions.live(db, key)
    turn = None if session is None else turns.pending_of(db, session.id)
    return None if turn is None else stop_turn(db, turn, now)


def interrupt(db: Database, key: SessionKey, now: Micros) -> Stopped | None:
    """End the running turn of a conversation because the next message is there; None if nothing runs."""
    session = sessions.live(db, key)
    turn = None if session is None else turns.pending_of(db, session.id)
    if turn is None:
        return None
    return _end_turn(db, turn, "interrupted", phrases.NOTE_CUT_IN, phrases.CUT_IN, now)


def stop_turn(db: Database, turn: Turn, now: Micros) -> Stopped:
    return _end_turn(db, turn, "stopped", phrases.NOTE_STOPPED, phrases.STOPPED, now)


def end_session(db: Database, session: Session, status: Status, reason: str, now: Micros) -> Stopped | None:
    """End a session: its running turn is stopped, what waits for it alone is cancelled."""
    turn = turns.pending_of(db, session.id) if session.status.live else None
    stopped = None if turn is None else stop_turn(db, turn, now)
    if session.status.live:
        inbox.cancel_for_session(db, session.id)
        if status is Status.CANCELLED:
            note = NewMessage(role=Role.SYSTEM, content=Text(phrases.NOTE_CANCELLED.format(reason=reason)))
            messages.append(db, session.id, [note], now)
    sessions.end(db, session, status, reason, now)
    return stopped


def end_processes(db: Database, status: Status, reason: str, note: str, now: Micros) -> list[str]:
    """End the sessions that end with their processes, because the daemon stops or was killed; their ids."""
    found = agent_sessions.with_process(db)
    for session in found:
        turn = turns.pending_of(db, session.id)
        if turn is not None:
            _end_turn(db, turn, reason, note, note, now)
        inbox.cancel_for_session(db, session.id)
        messages.append(db, session.id, [NewMessage(role=Role.SYSTEM, content=Text(note))], now)
        sessions.end(db, session, status, reason, now)
    return [session.public_id for session in found]


def _end_turn(db: Database, turn: Turn, reason: str, note: str, closing: str, now: Micros) -> Stopped:
    """End one turn as failed with a reason; what was shown of it is closed, not completed."""
    address = inbox.of_turn(db, turn.id)[-1].address
    growing = turns.growing(db, turn.id)
    used, cost = usage.of_cut(db, turn)
    ended = turns.fail(db, turn.id, note, Ending(errors=(reason,), usage=used, cost=cost), now)
    elsewhere = deciding.close(db, turn.id, phrases.OVER_STOPPED, now)
    if outbox.preview_of(db, turn.id) is not None:
        shown = "".join(getattr(row.content, "text", "") for row in growing)
        text = f"{shown}\n\n{closing}" if shown else closing
        draft = Draft(address=address, text=text, turn=turn.id)
        outbox.put_answer(db, draft, OutboxState.READY, now)
    return Stopped(ended, (address.place, *elsewhere))
