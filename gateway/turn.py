"""A turn from top to bottom: begin, context, run, commit, compact, release. The only path to an answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace

from gateway import chains, context, enclosed, phrases, settling
from gateway.agents.protocol import Agent, Done, TurnContext
from gateway.answer import GONE, Answer
from gateway.budgets import Budgets
from gateway.clock import Clock
from gateway.compactor import Compactor
from gateway.config import AgentConfig, Strategy
from gateway.context import Context
from gateway.deadline import Deadline, Slot
from gateway.delivery import Delivery
from gateway.feed import Feed
from gateway.files import Files
from gateway.logs import Event, log
from gateway.persist import Persist
from gateway.presence import Presence
from gateway.previews import Preview
from gateway.questions import deciding
from gateway.questions.desk import Asking, Desk
from gateway.runs import Run
from gateway.steps import Started, begin, fail, resume, summary
from routing.errors import (
    AgentBroke,
    AgentFailed,
    ContextExceeded,
    ModelFailed,
    StoreError,
    TurnRunning,
    TurnTimedOut,
)
from store import outbox, questions, turns
from store.database import Database
from store.outbox import Draft
from store.records import OutboxState, Turn, Usage
from store.turns import Ending

_RETRY_BEGIN = 0.5
#: After a longer run the answer is a message that notifies, in seconds.
_LONG_RUN = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """An agent as a turn needs it."""

    agent: Agent
    config: AgentConfig
    #: Of its conversations.
    compactor: Compactor


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[None]
    slot: Slot
    stopped: bool = False


class Turns:
    """Runs turns. `start` and `again` never raise: a turn that goes wrong ends as failed and says so."""

    def __init__(  # noqa: PLR0913
        self,
        *,
        persist: Persist,
        clock: Clock,
        delivery: Delivery,
        feed: Feed,
        files: Files,
        agents: Mapping[str, Answering],
        streaming: frozenset[tuple[str, str]],
        budgets: Budgets,
        desk: Desk,
    ) -> None:
        self._persist = persist
        self._clock = clock
        self._delivery = delivery
        self._feed = feed
        self._files = files
        self._agents = agents
        #: The channel accounts on which answers are shown while they grow.
        self._streaming = streaming
        self._budgets = budgets
        self._desk = desk
        self._running: dict[int, _Running] = {}

    async def start(self, items: Sequence[int], slot: Slot) -> None:
        """Answer messages that waited in the inbox, in one new turn."""
        started = await self._begin(items)
        if started is not None:
            if started.opened:
                log(Event.SESSION_CREATED, session=started.session.public_id, key=started.session.key)
            if started.refused is not None:
                self._refused(started)
            else:
                await self._run(started, slot)

    async def _begin(self, items: Sequence[int]) -> Started | None:
        while True:
            try:
                return await self._persist.must(lambda db: begin(db, items, self._clock.now(), self._budgets))
            except TurnRunning:
                # Two conversations became one while both were busy; the other turn goes first.
                await self._clock.sleep(_RETRY_BEGIN)

    def _refused(self, started: Started) -> None:
        log(Event.BUDGET_SPENT, session=started.session.public_id, turn=started.turn.seq, why=started.refused)
        self._feed.changed(started.session.id)
        self._delivery.kick(started.address.place)

    async def again(self, turn: int, slot: Slot) -> None:
        """Run a turn once more that a crash or a stop of the daemon cut short."""
        try:
            started = await self._persist.must(lambda db: resume(db, turn))
        except GONE:
            return  # it was stopped while it waited for its slot
        log(Event.TURN_RERUN, session=started.session.public_id, turn=started.turn.seq)
        await self._run(started, slot)

    def stop(self, turn: int) -> None:
        """End the run of a turn that the database has ended already."""
        running = self._running.get(turn)
        if running is not None:
            running.stopped = True
            running.task.cancel()

    async def _run(self, started: Started, slot: Slot) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs in a task")
        running = self._running[started.turn.id] = _Running(task, slot)
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
        self._desk.over(started.turn.id)

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
            ending = await settling.known_of(failure, config)
            note = failure.note if isinstance(failure, AgentBroke) else None
            why, code, detail = failure.why, failure.code, failure.detail
            await self._fail(started, began, why, code, ending=ending, broke=note, detail=detail)
            return
        except Exception as exc:  # one turn's trouble is not the daemon's
            error_id = secrets.token_hex(4)
            why = phrases.FAILED_UNEXPECTED.format(error_id=error_id)
            await self._fail(started, began, why, "unexpected", error_id=error_id, exc=exc)
            return
        if held:
            await answering.compactor.after_run(started.session, agent_id)
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
        """Let the agent answer. If it cannot read all that it is given, once more with less, in the same time."""
        config = answering.config
        if started.files:
            await self._files.fetch(started.turn)
        ends = self._clock.monotonic() + config.turn_timeout
        given = await self._given(started, config.context_window)
        try:
            return await self._attempt(answering, started, given, config.turn_timeout)
        except ContextExceeded as failed:
            exceeded = failed
            if exceeded.begun:  # what people have seen is not said once more in other words
                raise
            rest = max(ends - self._clock.monotonic(), 0.0)
            await answering.compactor.make_room(started.session, started.session.key.agent_id, rest)
            # Our own count was too low, so a context that fits by it is not enough; and a chain has all of it.
            less = replace(await self._given(started, given.tokens // 2), previous=None)
            if less.tokens >= given.tokens:
                raise
            log(
                Event.CONTEXT_EXCEEDED,
                logging.WARNING,
                session=started.session.public_id,
                turn=started.turn.seq,
                tokens_before=given.tokens,
                tokens_after=less.tokens,
                detail=exceeded.detail,
            )
        before = settling.spent_by(exceeded)
        try:
            answer, done = await self._attempt(answering, started, less, max(ends - self._clock.monotonic(), 0.0))
        except ModelFailed as failed:
            failed.spent = asdict(before.plus(settling.spent_by(failed)))
            raise
        return answer, replace(done, usage=done.usage.plus(before))

    async def _given(self, started: Started, budget: int) -> Context:
        """What the agent gets to read, and the answer of its provider that it can follow instead."""

        def load(db: Database) -> Context:
            previous = chains.previous(db, started.turn, self._clock.now())
            return replace(context.load(db, started.turn, budget), previous=previous)

        return await self._persist.read(load)

    async def _attempt(
        self, answering: Answering, started: Started, given: Context, seconds: float
    ) -> tuple[Answer, Done]:
        """Stream the agent's answer; what grows is stored and shown on the way."""
        config = answering.config
        presence = self._presence(started)
        answer = Answer(self._persist, self._clock, self._feed, started.turn.id, presence, started.row)
        if await self._persist.read(lambda db: questions.wants_thoughts(db, started.address.place)):
            presence.thoughts = []
        deadline = Deadline(self._clock, seconds, self._running[started.turn.id].slot)
        answer.asking = Asking(self._desk, started, config, deadline)
        turn = TurnContext(
            agent=started.session.key.agent_id,
            session_id=started.session.public_id,
            turn=started.turn.seq,
            summary=given.summary,
            history=given.history,
            instruction=given.instruction,
            previous_response_id=given.previous,
        )
        try:
            # The run is outside the deadline: an agent that cleans up for too long does not lose its answer.
            async with (
                Run(answering.agent, turn, self._clock) as run,
                deadline,
                presence,
                answer.asking,
                answer,
            ):
                done = await _listen(run, answer)
        except TimeoutError as exc:
            raise TurnTimedOut(seconds=config.turn_timeout) from exc
        except ContextExceeded as exceeded:
            exceeded.begun = answer.begun
            raise
        if done is None:
            raise AgentFailed(phrases.BROKEN_OFF)
        if not answer.final:
            raise AgentFailed(phrases.EMPTY_ANSWER)
        answer.given = given.tokens if done.usage == Usage() else None
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
        config = self._agents[started.session.key.agent_id].config
        ending = replace(await settling.ending_of(done, config), answer_summary=summary(answer.final))
        draft = Draft(address=started.address, text=answer.final, turn=started.turn.id)
        state = OutboxState.HELD if held else self._delivery.released(started.address)
        last = answer.last_message(done.usage)
        closing = phrases.ANSWERED_BELOW if self._notifies(started, began) else None
        attached = [] if state is OutboxState.SENT else await enclosed.files(answer, started)

        def commit(db: Database) -> Turn:
            now = self._clock.now()
            told = settling.estimated(db, started.turn, ending, config, answer.given, draft.text)
            near = self._budgets.settle(db, started.turn, told.usage, told.cost, now)
            told = replace(told, warnings=told.warnings + near)
            turn = turns.complete(db, started.turn.id, answer.row, last, told, now)
            deciding.close(db, turn.id, phrases.OVER_ENDED, now)
            outbox.put_answer(db, draft, state, now, closing=closing)
            for file in attached:
                outbox.put(db, file, state, now)
            settling.warn(db, near, started.address, now)
            return turn

        return await self._persist.must(commit)

    async def _fail(
        self,
        started: Started,
        began: float,
        why: str,
        code: str,
        *,
        ending: Ending = Ending(),  # noqa: B008
        exc: BaseException | None = None,
        broke: str | None = None,
        **facts: str,
    ) -> None:
        closing = phrases.ANSWERED_BELOW if self._notifies(started, began) else None
        try:
            await self._persist.must(
                lambda db: fail(db, started, why, self._clock.now(), ending, closing=closing, broke=broke)
            )
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
