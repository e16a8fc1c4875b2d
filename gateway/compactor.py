"""Compaction in time: after the run and before the reply, within a deadline; what takes longer goes on beside it.

Summaries are slow, fail and cost money. So there is one job per session at most, its range is fixed when it begins, a
reply waits for it no longer than the deadline, and a session whose summaries fail is left alone for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gateway import compaction, prices, settling, summaries, usage
from gateway.agents.protocol import Agent, Summarises, Summary
from gateway.clock import Clock
from gateway.compaction import Plan, Wanted
from gateway.config import AgentConfig, Strategy
from gateway.logs import Event, log
from gateway.persist import Persist
from routing.errors import ModelFailed, StoreError, SummaryUseless
from store import spending
from store.records import Compaction, Session, Usage
from store.spending import Outlay

#: How long one piece of a summary may take when nobody waits for it, in seconds.
CALL = 600.0
#: After a failure the session is left alone for this long, twice as long after the next one, up to the longest.
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0

_SUMMARISING = frozenset({Strategy.SUMMARY, Strategy.AUTO})

#: Told how a job ended: what was recorded, or nothing.
Tell = Callable[[Compaction | None], Awaitable[None]]


@dataclass(slots=True)
class _Job:
    plan: Plan
    agent: str
    focus: str | None
    #: Something has to give way, whether there is a summary or not.
    at_once: bool
    task: asyncio.Task[None] | None = None
    tell: list[Tell] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Pause:
    failures: int
    until: float


class Compactor:
    """`after_run` and `make_room` never raise: whatever happens here, the reply goes out and the originals stay."""

    def __init__(
        self,
        persist: Persist,
        clock: Clock,
        agents: Mapping[str, Agent],
        configs: Mapping[str, AgentConfig],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._persist = persist
        self._clock = clock
        self._agents = agents
        self._configs = configs
        self._tasks = tasks
        self._jobs: dict[int, _Job] = {}
        self._pauses: dict[int, _Pause] = {}
        self._calls: set[asyncio.Task[Summary]] = set()
        self._closed = False
        for name, config in configs.items():
            if config.compaction.strategy in _SUMMARISING and not isinstance(agents.get(name), Summarises):
                log(Event.COMPACTION_FALLBACK, logging.WARNING, agent=name, strategy=config.compaction.strategy)

    async def after_run(self, session: Session, agent: str) -> None:
        """Compact if it is time to. Returns at the deadline at the latest; a summary under way goes on."""
        if session.id in self._jobs:
            return  # begun by an earlier turn; no reply waits for it a second time
        await self._within(self._configs[agent].compaction.deadline, session, agent, at_once=False)

    async def make_room(self, session: Session, agent: str, seconds: float) -> None:
        """A model could not read the context: make it smaller, whatever its size was thought to be."""
        deadline = min(self._configs[agent].compaction.deadline, seconds)
        await self._within(deadline, session, agent, at_once=True)

    def begin(self, plan: Plan, agent: str, focus: str | None, tell: Tell) -> None:
        """Make a summary that somebody asked for; they are told how it ends. One that is being made already will do."""
        job = self._jobs.get(plan.session) or self._start(plan, agent, focus, at_once=False)
        if job is not None:
            job.tell.append(tell)

    async def close(self) -> None:
        """End what is under way. Nothing of it was recorded, and after the next start it begins anew."""
        self._closed = True
        running = [job.task for job in self._jobs.values() if job.task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _within(self, seconds: float, session: Session, agent: str, *, at_once: bool) -> None:
        try:
            async with self._clock.timeout(seconds):
                await self._step(session, agent, at_once=at_once)
        except TimeoutError:
            log(Event.COMPACTION_SLOW, logging.WARNING, session=session.public_id, agent=agent, seconds=seconds)
        except Exception as exc:  # the reply must not depend on it
            log(Event.COMPACTION_FAILED, logging.WARNING, exc=exc, session=session.public_id, agent=agent)

    async def _step(self, session: Session, agent: str, *, at_once: bool) -> None:
        job = self._jobs.get(session.id)
        if job is None:
            wanted = self._wanted(session.id, agent, at_once=at_once)
            decided = await self._persist.once(lambda db: compaction.decide(db, session.id, wanted, self._clock.now()))
            if not isinstance(decided, Plan):
                tell_log(decided, session.public_id, agent)
                return
            job = self._start(decided, agent, None, at_once=at_once)
        if job is not None and job.task is not None:
            await asyncio.wait({job.task})

    def _start(self, plan: Plan, agent: str, focus: str | None, *, at_once: bool) -> _Job | None:
        if self._closed:
            return None
        job = self._jobs[plan.session] = _Job(plan, agent, focus, at_once)
        job.task = self._tasks.create_task(self._run(job), name="compaction")
        return job

    async def _run(self, job: _Job) -> None:
        done: Compaction | None = None
        try:
            summary = await summaries.write(self._persist, job.plan, self._summarise(job))
            done = await self._persist.once(lambda db: compaction.finish(db, job.plan, summary, self._clock.now()))
            self._pauses.pop(job.plan.session, None)
        except Exception as exc:  # a job's trouble is not the daemon's
            done = await self._failed(job, exc)
        finally:
            del self._jobs[job.plan.session]
        tell_log(done, job.plan.session_id, job.agent)
        for tell in job.tell:
            with contextlib.suppress(StoreError):  # it is closed: nobody can be told
                await tell(done)

    async def _failed(self, job: _Job, exc: Exception) -> Compaction | None:
        """Nothing was changed. Leave the session alone for a while; where it overflows, the window steps in."""
        session = job.plan.session
        pause = self._back_off(session)
        known = isinstance(exc, SummaryUseless)
        log(
            Event.COMPACTION_FAILED,
            logging.WARNING,
            exc=None if known else exc,
            session=job.plan.session_id,
            agent=job.agent,
            why=str(exc) if known else type(exc).__name__,
            pause=pause,
        )
        wanted = self._wanted(session, job.agent, at_once=job.at_once)
        try:
            return await self._persist.once(lambda db: compaction.step_in(db, session, wanted, self._clock.now()))
        except Exception as worse:  # as before: it changes nothing
            log(Event.COMPACTION_FAILED, logging.WARNING, exc=worse, session=job.plan.session_id, agent=job.agent)
            return None

    def _back_off(self, session: int) -> float:
        now = self._clock.monotonic()
        # What was long ago is forgiven, and forgotten.
        self._pauses = {one: pause for one, pause in self._pauses.items() if pause.until > now - LONGEST_PAUSE}
        before = self._pauses.get(session)
        failures = 1 if before is None else before.failures + 1
        pause = min(FIRST_PAUSE * 2.0 ** (failures - 1), LONGEST_PAUSE)
        self._pauses[session] = _Pause(failures, now + pause)
        return pause

    def _wanted(self, session: int, agent: str, *, at_once: bool) -> Wanted:
        config = self._configs[agent]
        pause = self._pauses.get(session)
        return wanted(
            config,
            summarises=isinstance(self._agents.get(agent), Summarises),
            backs_off=pause is not None and pause.until > self._clock.monotonic(),
            at_once=at_once,
        )

    def _summarise(self, job: _Job) -> summaries.Summarise:
        agent = self._agents[job.agent]
        if not isinstance(agent, Summarises):
            raise SummaryUseless(why="the agent cannot summarise")
        model = self._configs[job.agent].compaction.model

        async def summarise(text: str, limit: int) -> str:
            try:
                written = await self._call(agent.summarise(text, job.focus, limit, model))
            except ModelFailed as failed:
                await self._spent(job, model, settling.spent_by(failed))
                raise
            counted = written.usage.total is not None
            await self._spent(job, written.model, written.usage if counted else usage.of_texts(text, written.text))
            return written.text

        return summarise

    async def _spent(self, job: _Job, model: str | None, used: Usage) -> None:
        """Tokens of a summary belong to no turn, but somebody pays for them, whether it is of use or not."""
        if used.total is None:
            return
        config = self._configs[job.agent]
        cost = await prices.cost(prices.seller(config), model or getattr(config, "model", None), used)
        outlay = Outlay(model=model, usage=used, cost=cost)
        await self._persist.once(lambda db: spending.spend(db, job.plan.session, outlay, self._clock.now()))

    async def _call(self, work: Awaitable[Summary]) -> Summary:
        """In a task of its own: one that does not listen when it is cancelled holds up nobody."""
        call = asyncio.ensure_future(work)
        self._calls.add(call)
        call.add_done_callback(self._forget)
        try:
            async with self._clock.timeout(CALL):
                await asyncio.wait({call})
        finally:
            call.cancel()
        return call.result()

    def _forget(self, call: asyncio.Task[Summary]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # it was looked at, or nobody waits for it any more


def wanted(config: AgentConfig, *, summarises: bool, backs_off: bool = False, at_once: bool = False) -> Wanted:
    rules = config.compaction
    if at_once and rules.strategy is Strategy.NONE:
        rules = rules.model_copy(update={"strategy": Strategy.WINDOW})
    return Wanted(
        rules=rules, window=config.context_window, summarises=summarises, backs_off=backs_off, at_once=at_once
    )


def tell_log(done: Compaction | None, session_id: str, agent: str) -> None:
    if done is not None:
        log(
            Event.COMPACTION_DONE,
            session=session_id,
            agent=agent,
            strategy=done.strategy,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
        )
