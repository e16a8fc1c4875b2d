"""One run of an agent, in a task of its own: whatever the agent does, the turn gets its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType

from gateway import phrases
from gateway.agents.protocol import Agent, Done, Event, TurnContext
from gateway.clock import Clock
from gateway.logs import Event as Name
from gateway.logs import log
from routing.errors import AgentFailed

#: How long an agent may clean up after its last event or after it was cancelled, in seconds.
GRACE = 5.0

#: Events that an agent may be ahead of what was stored.
_AHEAD = 64

#: Runs that would not end. They are kept so that nothing collects a task that still runs.
_abandoned: set[asyncio.Task[None]] = set()


def leave_abandoned() -> None:
    """Before the loop is closed: a task that swallows every cancellation would keep the process for ever."""
    if _abandoned:
        logging.shutdown()
        os._exit(0)


class Run:
    """A context manager that is left at the latest a grace period after the turn is done with the run."""

    def __init__(self, agent: Agent, turn: TurnContext, clock: Clock) -> None:
        self._agent = agent
        self._turn = turn
        self._clock = clock
        self._events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue(_AHEAD)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Run:
        self._task = asyncio.create_task(self._pump(), name="agent")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._task
        if task is None or task.done():
            return
        if kind is not None:
            task.cancel()
        if not await self._ends(task):
            task.cancel()
            _abandoned.add(task)
            task.add_done_callback(_abandoned.discard)
            log(Name.AGENT_STUCK, logging.ERROR, session=self._turn.session_id, turn=self._turn.turn, seconds=GRACE)

    async def events(self) -> AsyncGenerator[Event, None]:
        """Up to the closing event, or to the end of a run that has none; raises what the agent raised."""
        while (event := await self._events.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event
            if isinstance(event, Done):
                return

    async def _pump(self) -> None:
        try:
            async with aclosing(self._agent.run(self._turn)) as events:
                async for event in events:
                    await self._events.put(event)
                    if isinstance(event, Done):
                        return
        except TimeoutError as exc:  # its own, not this turn's deadline
            await self._events.put(RuntimeError(f"a call of the agent timed out: {exc!r}"))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            await self._events.put(AgentFailed(phrases.BROKEN_OFF, detail="something inside the agent was cancelled"))
        except Exception as exc:
            await self._events.put(exc)
        else:
            await self._events.put(None)

    async def _ends(self, task: asyncio.Task[None]) -> bool:
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(GRACE):
                await asyncio.wait({task})
        return task.done()
