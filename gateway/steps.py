"""What a turn does to the database at its edges: begin, begin again, fail. Each is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway import attribution, phrases, settling
from gateway.budgets import Budgets, Held
from gateway.questions import deciding
from routing.access import Reason
from routing.messages import Address
from store import agent_sessions, inbox, outbox, overheard, people, refusals, sessions, turns
from store.content import Text
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import Delivery as Delivered
from store.records import InboxItem, NewMessage, OutboxState, Role, Session, Turn
from store.sessions import SessionPatch, by_number
from store.turns import Ending, Instruction

#: Characters of instruction and answer that a turn keeps inline.
SUMMARY = 1024
#: Characters of a session's title.
TITLE = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    session: Session
    turn: Turn
    #: Where the answer goes: the address of the last of the messages answered.
    address: Address
    #: The session was created for this turn.
    opened: bool = False
    #: The row in which an attempt that was lost had begun to answer.
    row: int | None = None
    #: The message in which it had begun to show it.
    preview: Delivered | None = None
    #: Files came with the messages.
    files: bool = False
    #: Why it does not run: it has ended already.
    refused: str | None = None


def begin(db: Database, items: Sequence[int], now: Micros, budgets: Budgets | None = None) -> Started | None:
    """Start a turn for those of the messages that still wait; None if none does.

    One for which no budget is left ends here as failed: it stays in the history, and whoever wrote is told.
    """
    waiting = inbox.get(db, items)
    if not waiting:
        return None
    text = "\n".join(item.text for item in waiting)
    agent_id = _agent_of(db, waiting[0])
    held = Held() if budgets is None else settling.hold(db, budgets, waiting[0], agent_id, text, now)
    instruction = Instruction(
        messages=_user_messages(db, waiting),
        summary=summary(text),
        created_by=waiting[0].person,
        chat=settling.chat_of(waiting[0]),
        reserved_tokens=held.tokens,
        reserved_cost=held.cost,
    )
    session, turn = turns.begin(db, agent_id, waiting, instruction, now)
    if turn.seq == 1 and session.title is None:
        session = sessions.patch(db, agent_id, session.key, SessionPatch(title=title_of(text)))
    opened = turn.seq == 1 and waiting[0].session is None
    files = _have_files(waiting)
    started = Started(session=session, turn=turn, address=waiting[-1].address, opened=opened, files=files)
    if held.refused is None:
        return started
    fail(db, started, held.refused, now, settling.NOTHING)
    refusals.note(db, started.address, waiting[-1].about.user, Reason.BUDGET, now)
    return replace(started, refused=held.refused)


def resume(db: Database, turn: int) -> Started:
    """Count the attempt, and find what the one before it had begun."""
    again = turns.start_again(db, turn)
    growing = turns.growing(db, turn)
    return Started(
        session=by_number(db, again.session),
        turn=again,
        address=address_of(db, turn),
        row=growing[-1].id if growing else None,
        preview=outbox.preview_of(db, turn),
        files=_have_files(inbox.of_turn(db, turn)),
    )


def _have_files(items: Sequence[InboxItem]) -> bool:
    return any(item.about.attachments for item in items)


def fail(
    db: Database,
    started: Started,
    why: str,
    now: Micros,
    ending: Ending = Ending(),  # noqa: B008
    *,
    closing: str | None = None,
    broke: str | None = None,
) -> Turn:
    """End a turn as failed, in the history and visibly where it was asked.

    `broke` says that the agent's process was lost, and how: the session ends with it.
    """
    note = phrases.NOTE_FAILED.format(why=why)
    ending = replace(settling.of_cut(db, started.turn, ending), errors=(why,))
    turn = turns.fail(db, started.turn.id, note, ending, now)
    deciding.close(db, turn.id, phrases.OVER_FAILED, now)
    text = phrases.FAILED.format(why=why[:1].upper() + why[1:])
    draft = Draft(address=started.address, text=text, turn=turn.id)
    outbox.put_answer(db, draft, OutboxState.READY, now, closing=closing)
    if broke is not None:
        agent_sessions.broke(db, started.session.public_id, broke, now)
    return turn


def _agent_of(db: Database, item: InboxItem) -> str:
    """Who answers: a message meant for one session goes with it, also to another agent."""
    return (item.key if item.session is None else by_number(db, item.session).key).agent_id


def address_of(db: Database, turn: int) -> Address:
    """The frozen address of the last message that a turn answers."""
    return inbox.of_turn(db, turn)[-1].address


def summary(text: str) -> str:
    return text[:SUMMARY]


def title_of(text: str) -> str | None:
    """The first line of what was asked, short enough for a list."""
    line = " ".join(text.strip()[:SUMMARY].partition("\n")[0].split())
    return (line if len(line) <= TITLE else f"{line[: TITLE - 1].rstrip()}…") or None


def _user_messages(db: Database, waiting: Sequence[InboxItem]) -> tuple[NewMessage, ...]:
    """What people said, each with who said it; the first one with what was overheard before it."""
    heard = overheard.take(db, waiting[0].key)
    return tuple(
        NewMessage(
            role=Role.USER,
            content=Text(item.text),
            public_id=item.message_id,
            metadata=attribution.metadata(
                item,
                None if item.person is None else people.get(db, item.person),
                heard if number == 0 else (),
            ),
        )
        for number, item in enumerate(waiting)
    )
