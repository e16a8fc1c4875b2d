"""A turn from top to bottom: begin, context, run, commit, compact, release. The only path to an answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from gateway import attribution, compaction, context, phrases
from gateway.agents.protocol import Agent, Done, TurnContext
from gateway.answer import GONE, Answer
from gateway.clock import Clock
from gateway.config import AgentConfig, Strategy
from gateway.delivery import Delivery
from gateway.feed import Feed
from gateway.files import Files
from gateway.logs import Event, log
from gateway.persist import Persist
from gateway.presence import Presence
from gateway.previews import Preview
from gateway.runs import Run
from routing.errors import AgentFailed, StoreError, TurnRunning, TurnTimedOut
from routing.messages import Address
from store import inbox, outbox, overheard, people, sessions, turns
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

_RETRY_BEGIN = 0.5
#: After a longer run the answer is a message that notifies, in seconds.
_LONG_RUN = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """An agent as a turn needs it."""

    agent: Agent
    config: AgentConfig


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


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[None]
    stopped: bool = False


class Turns:
    """Runs turns. `start` and `again` never raise: a turn that goes wrong ends as failed and says so."""

    def __init__(
        self,
        *,
        persist: Persist,
        clock: Clock,
        delivery: Delivery,
        feed: Feed,
        files: Files,
        agents: Mapping[str, Answering],
        streaming: frozenset[tuple[str, str]],
    ) -> None:
        self._persist = persist
        self._clock = clock
        self._delivery = delivery
        self._feed = feed
        self._files = files
        self._agents = agents
        #: The channel accounts on which answers are shown while they grow.
        self._streaming = streaming
        self._running: dict[int, _Running] = {}

    async def start(self, items: Sequence[int]) -> None:
        """Answer messages that waited in the inbox, in one new turn."""
        started = await self._begin(items)
        if started is not None:
            if started.opened:
                log(Event.SESSION_CREATED, session=started.session.public_id, key=started.session.key)
            await self._run(started)

    async def _begin(self, items: Sequence[int]) -> Started | None:
        while True:
            try:
                return await self._persist.must(lambda db: begin(db, items, self._clock.now()))
            except TurnRunning:
                # Two conversations became one while both were busy; the other turn goes first.
                await self._clock.sleep(_RETRY_BEGIN)

    async def again(self, turn: int) -> None:
        """Run a turn once more that a crash or a stop of the daemon cut short."""
        try:
            started = await self._persist.must(lambda db: resume(db, turn))
        except GONE:
            return  # it was stopped while it waited for its slot
        log(Event.TURN_RERUN, session=started.session.public_id, turn=started.turn.seq)
        await self._run(started)

    def stop(self, turn: int) -> None:
        """End the run of a turn that the database has ended already."""
        running = self._running.get(turn)
        if running is not None:
            running.stopped = True
            running.task.cancel()

    async def _run(self, started: Started) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs in a task")
        running = self._running[started.turn.id] = _Running(task)
        began = self._clock.monotonic()
        log(Event.TURN_STARTED, logging.DEBUG, session=started.session.public_id, turn=started.turn.seq)
        self._feed.changed(started.session.id)
        try:
            await self._answer(started, began)
        except asyncio.CancelledError:
            if not running.stopped:
                # The daemon stops: this attempt was no crash, and the turn runs again at the next start.
                with contextlib.suppress(StoreError):
                    await self._persist.once(lambda db: turns.forgive(db, started.turn.id))
                raise
            log(Event.TURN_STOPPED, session=started.session.public_id, turn=started.turn.seq)
        finally:
            del self._running[started.turn.id]
            self._feed.changed(started.session.id)

    async def _answer(self, started: Started, began: float) -> None:
        agent_id = started.session.key.agent_id
        answering = self._agents.get(agent_id)
        if answering is None:
            await self._fail(started, began, phrases.NO_SUCH_AGENT.format(agent=agent_id), "unknown_agent")
            return
        config = answering.config
        try:
            answer, done = await self._ask(answering, started)
            held = config.compaction.strategy is not Strategy.NONE
            turn = await self._commit(started, answer, done, began, held=held)
        except GONE:
            return
        except TurnTimedOut:
            seconds = config.turn_timeout
            log(Event.TURN_TIMEOUT, logging.WARNING, session=started.session.public_id, turn=started.turn.seq)
            await self._fail(started, began, phrases.TIMED_OUT.format(seconds=seconds), "turn_timed_out")
            return
        except AgentFailed as failure:
            await self._fail(started, began, failure.why, failure.code, detail=failure.detail)
            return
        except Exception as exc:  # one turn's trouble is not the daemon's
            error_id = secrets.token_hex(4)
            why = phrases.FAILED_UNEXPECTED.format(error_id=error_id)
            await self._fail(started, began, why, "unexpected", error_id=error_id, exc=exc)
            return
        if held:
            await compaction.after_run(self._persist, self._clock, turn, config.compaction, config.context_window)
            await self._persist.must(lambda db: outbox.release(db, turn.id, self._clock.now()))
        if held or self._delivery.released(started.address) is OutboxState.READY:
            self._delivery.kick(started.address.place)
        log(
            Event.TURN_COMPLETED,
            session=started.session.public_id,
            turn=turn.seq,
            agent=agent_id,
            ms=round((self._clock.monotonic() - began) * 1000),
            input_tokens=turn.usage.input,
            output_tokens=turn.usage.output,
        )

    async def _ask(self, answering: Answering, started: Started) -> tuple[Answer, Done]:
        """Stream the agent's answer; what grows is stored and shown on the way."""
        config = answering.config
        if started.files:
            await self._files.fetch(started.turn)
        given = await self._persist.read(lambda db: context.load(db, started.turn, config.context_window))
        presence = self._presence(started)
        answer = Answer(self._persist, self._clock, self._feed, started.turn.id, presence, started.row)
        turn = TurnContext(
            agent=started.session.key.agent_id,
            session_id=started.session.public_id,
            turn=started.turn.seq,
            summary=given.summary,
            history=given.history,
            instruction=given.instruction,
        )
        try:
            # The run is outside the deadline: an agent that cleans up for too long does not lose its answer.
            async with (
                Run(answering.agent, turn, self._clock) as run,
                self._clock.timeout(config.turn_timeout),
                presence,
                answer,
            ):
                done = await _listen(run, answer)
        except TimeoutError as exc:
            raise TurnTimedOut(seconds=config.turn_timeout) from exc
        if done is None:
            raise AgentFailed(phrases.BROKEN_OFF)
        if not answer.text.strip():
            raise AgentFailed(phrases.EMPTY_ANSWER)
        return answer, done

    def _presence(self, started: Started) -> Presence:
        """What people see of the run while it lasts."""
        address = started.address
        channel = self._delivery.channel(address)
        preview = None
        if channel is not None and (address.channel, address.account) in self._streaming:
            draft = Draft(address=address, text="", turn=started.turn.id)
            preview = Preview(self._delivery, self._persist, self._clock, draft, channel, started.preview)
        return Presence(self._delivery, self._clock, address, channel, preview)

    def _notifies(self, started: Started, began: float) -> bool:
        """A preview that people have stopped looking at is no answer: they are told by a new message."""
        late = self._clock.monotonic() - began > _LONG_RUN
        return late or self._delivery.spoken_since(started.address, began)

    async def _commit(self, started: Started, answer: Answer, done: Done, began: float, *, held: bool) -> Turn:
        """One transaction: the answer, its tokens, the end of the turn, and the message that will carry it."""
        ending = Ending(answer_summary=summary(answer.text), warnings=done.warnings, model=done.model, usage=done.usage)
        draft = Draft(address=started.address, text=answer.text, turn=started.turn.id)
        state = OutboxState.HELD if held else self._delivery.released(started.address)
        last = answer.last_message(done.usage)
        closing = phrases.ANSWERED_BELOW if self._notifies(started, began) else None

        def commit(db: Database) -> Turn:
            now = self._clock.now()
            turn = turns.complete(db, started.turn.id, answer.row, last, ending, now)
            outbox.put_answer(db, draft, state, now, closing=closing)
            return turn

        return await self._persist.must(commit)

    async def _fail(
        self, started: Started, began: float, why: str, code: str, *, exc: BaseException | None = None, **facts: str
    ) -> None:
        closing = phrases.ANSWERED_BELOW if self._notifies(started, began) else None
        try:
            await self._persist.must(lambda db: fail(db, started, why, self._clock.now(), closing=closing))
        except GONE:
            return
        self._delivery.kick(started.address.place)
        log(
            Event.TURN_FAILED,
            logging.WARNING,
            exc=exc,
            session=started.session.public_id,
            turn=started.turn.seq,
            reason=code,
            why=why,
            **facts,
        )


async def _listen(run: Run, answer: Answer) -> Done | None:
    """Take the agent's events up to the closing one."""
    async with aclosing(run.events()) as events:
        async for event in events:
            if isinstance(event, Done):
                return event
            await answer.take(event)
    return None


def begin(db: Database, items: Sequence[int], now: Micros) -> Started | None:
    """Start a turn for those of the messages that still wait; None if none does."""
    waiting = inbox.get(db, items)
    if not waiting:
        return None
    text = "\n".join(item.text for item in waiting)
    instruction = Instruction(
        messages=_user_messages(db, waiting),
        summary=summary(text),
        created_by=waiting[0].person,
    )
    agent_id = _agent_of(db, waiting[0])
    session, turn = turns.begin(db, agent_id, waiting, instruction, now)
    if turn.seq == 1 and session.title is None:
        session = sessions.patch(db, agent_id, session.key, SessionPatch(title=title_of(text)))
    opened = turn.seq == 1 and waiting[0].session is None
    return Started(session=session, turn=turn, address=waiting[-1].address, opened=opened, files=_have_files(waiting))


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


def fail(db: Database, started: Started, why: str, now: Micros, *, closing: str | None = None) -> Turn:
    """End a turn as failed, in the history and visibly where it was asked."""
    note = phrases.NOTE_FAILED.format(why=why)
    turn = turns.fail(db, started.turn.id, note, Ending(errors=(why,)), now)
    text = phrases.FAILED.format(why=why[:1].upper() + why[1:])
    draft = Draft(address=started.address, text=text, turn=turn.id)
    outbox.put_answer(db, draft, OutboxState.READY, now, closing=closing)
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
