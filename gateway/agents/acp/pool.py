"""The processes of all agents: how many there may be, who waits for one, and when each has to go."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from gateway import phrases
from gateway.agents.acp.memory import Memory
from gateway.agents.acp.reports import note_of, report
from gateway.clock import Clock
from gateway.logs import Event, log
from routing.errors import AgentFailed, AgentLimit, StoreError

if TYPE_CHECKING:  # the SDK is only imported where there is such an agent
    from gateway.agents.acp.session import Conversation

#: How often it is looked whether sessions have ended or rested for long enough, in seconds.
_LOOK = 5.0
#: How often each process is looked at, in seconds.
_HEARTBEAT = 30.0
#: All have to be gone by then when the daemon stops, in seconds: the last second is for force.
_CLOSING = 9.0


class Place:
    """A right to one process. Whoever has one gives it back."""

    def __init__(self) -> None:
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Pool:
    def __init__(self, limit: int, idle_seconds: float) -> None:
        self.limit = limit
        self._idle_seconds = idle_seconds
        self._clock: Clock | None = None
        self._memory: Memory | None = None
        self._children: dict[str, Conversation] = {}
        self._places: dict[str, Place] = {}
        self._queue: deque[Place] = deque()
        #: Processes that run, start or end.
        self.count = 0
        self._work: dict[str, asyncio.Task[None]] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._closed = False

    def open(self, memory: Memory, clock: Clock) -> None:
        """Once for all agents."""
        if self._keeping is None:
            self._memory, self._clock = memory, clock
            self._keeping = asyncio.create_task(self._keep(), name="agent processes")

    @property
    def memory(self) -> Memory:
        assert self._memory is not None, "opened at the start of the daemon"
        return self._memory

    @property
    def clock(self) -> Clock:
        assert self._clock is not None, "opened at the start of the daemon"
        return self._clock

    @property
    def children(self) -> dict[str, Conversation]:
        """Session → process."""
        return dict(self._children)

    # -- places --------------------------------------------------------------------------------------------------

    def ask(self, *, wait: bool = True) -> Place:
        """A place in the queue, or in the end of it. Raises AgentLimit if there is none and nobody wants to wait."""
        if self._closed:
            raise AgentFailed(phrases.BROKEN_OFF, detail="the daemon is stopping")
        if not wait and (self._queue or self.count >= self.limit):
            log(Event.AGENT_LIMIT, logging.WARNING, limit=self.limit, waiting=len(self._queue))
            raise AgentLimit(limit=self.limit)
        place = Place()
        self._queue.append(place)
        self._serve()
        if not place.granted.done():
            log(Event.AGENT_LIMIT, logging.WARNING, limit=self.limit, waiting=len(self._queue))
        return place

    def position(self, place: Place) -> int:
        """How many go before it, and itself."""
        return self._queue.index(place) + 1 if place in self._queue else 0

    def give_up(self, place: Place) -> None:
        """The place is not needed any more."""
        if place in self._queue:
            self._queue.remove(place)
        elif place.granted.done() and not place.granted.cancelled() and place.granted.exception() is None:
            self._counted(-1)
        place.granted.cancel()
        self._serve()

    def _serve(self) -> None:
        """First come, first served. Those who rest make room for those who wait, the longest first."""
        while self._queue and self.count < self.limit:
            place = self._queue.popleft()
            if not place.granted.done():
                self._counted(+1)
                place.granted.set_result(None)
        leaving = sum(child.ending for child in self._children.values())
        resting = [child for child in self._children.values() if not (child.busy or child.ending or child.stays)]
        resting.sort(key=lambda child: child.used)
        for child in resting[: max(len(self._queue) - leaving, 0)]:
            self.retire(child, "makes room")

    def _counted(self, change: int) -> None:
        self.count += change
        log(Event.AGENT_COUNT, old=self.count - change, new=self.count, limit=self.limit)

    # -- children ------------------------------------------------------------------------------------------------

    async def claim(self, session_id: str) -> Conversation | None:
        """The session's process for a turn, if it has one that works. What the last turn left is waited for."""
        while (work := self._work.get(session_id)) is not None:
            await asyncio.wait({work})
        child = self._children.get(session_id)
        if child is None or child.ending or child.lost.done():
            return None
        child.busy = True
        return child

    def add(self, child: Conversation, place: Place) -> None:
        """A process was started in a place; it is busy until it is given back."""
        child.busy = True
        self._children[child.session_id] = child
        self._places[child.session_id] = place
        child.lost.add_done_callback(lambda _: self._lost(child))

    def give_back(self, child: Conversation) -> None:
        """The turn is over; a turn that was broken off may take a while to end."""
        self._begin(child.session_id, lambda: self._after(child))

    def retire(self, child: Conversation, why: str) -> None:
        """End the process in the background, and give its place back."""
        child.ending = True
        self._begin(child.session_id, lambda: self._end(child, why))

    async def drop(self, child: Conversation, why: str) -> None:
        """End the process, but keep its place for the next one."""
        child.ending = True
        self._children.pop(child.session_id, None)
        self._places.pop(child.session_id, None)
        ending = asyncio.create_task(child.end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait({ending})  # its place is not free before
            raise
        await self.memory.drop(child.process.mark)
        log(Event.AGENT_ENDED, session=child.session_id, pid=child.process.pid, why=why, ending=child.process.ending)

    def _begin(self, session_id: str, work: Callable[[], Awaitable[None]]) -> None:
        """One thing after the other for each session; nobody has to wait here."""
        before = self._work.get(session_id)

        async def run() -> None:
            if before is not None:
                await asyncio.wait({before})
            await work()

        def done(task: asyncio.Task[None]) -> None:
            if self._work.get(session_id) is task:
                del self._work[session_id]
            if not task.cancelled() and (error := task.exception()) is not None:
                log(Event.AGENT_STUCK, logging.ERROR, exc=error, session=session_id)
            self._serve()

        task = self._work[session_id] = asyncio.create_task(run(), name="agent process")
        task.add_done_callback(done)

    async def _after(self, child: Conversation) -> None:
        cancelling, child.cancelling = child.cancelling, None
        if cancelling is not None and (not await cancelling or child.terms.restarts):
            await self._end(child, "cancelled")
        elif child.lost.done() and cancelling is None and not child.reported:
            await self._mourn(child)
        elif child.lost.done() or child.ending:
            await self._end(child, "lost")
        else:
            child.used = self.clock.monotonic()
            child.busy = False

    async def _end(self, child: Conversation, why: str) -> None:
        if self._children.get(child.session_id) is not child:
            return
        place = self._places[child.session_id]
        if not child.busy and not child.lost.done():
            await child.say_goodbye()
        await self.drop(child, why)
        self.give_up(place)

    def _lost(self, child: Conversation) -> None:
        """A process ended unasked. In the middle of a turn, the turn tells; else nobody would notice."""
        if child.ending or child.busy:
            return
        child.ending = True
        self._begin(child.session_id, lambda: self._mourn(child))

    async def _mourn(self, child: Conversation) -> None:
        reason = child.lost.result()
        report(child.process, reason, child.terms, child.session_id)
        await self._end(child, "lost")
        await self.memory.broke(child.session_id, note_of(child.process, reason, child.terms))

    # -- time ----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        beat = self.clock.monotonic()
        while True:
            await self.clock.sleep(_LOOK)
            if self.clock.monotonic() - beat >= _HEARTBEAT:
                beat = self.clock.monotonic()
                for child in self.children.values():
                    child.check()
            try:
                await self._let_go()
            except StoreError as error:  # there is a next time
                log(Event.STORE_UNAVAILABLE, logging.WARNING, why=str(error))

    async def _let_go(self) -> None:
        """Processes of sessions that have ended or moved away, and of those that nobody has used for long."""
        if not self._children:
            return
        live = await self.memory.live({child.session_id: child.terms.agent for child in self._children.values()})
        for child in self.children.values():
            if child.busy or child.ending:
                continue
            if child.session_id not in live:
                self.retire(child, "session ended")
            elif self.clock.monotonic() - child.used >= self._idle_seconds:
                log(Event.SESSION_IDLE, session=child.session_id, pid=child.process.pid)
                self.retire(child, "idle")

    async def close(self) -> None:
        """End everything within ten seconds."""
        self._closed = True
        if self._keeping is not None:
            self._keeping.cancel()
        for place in self._queue:
            place.granted.cancel()
        self._queue.clear()
        for child in self.children.values():
            child.busy = False
            if not child.ending:
                self.retire(child, "the daemon stops")
        if self._work:
            await asyncio.wait(set(self._work.values()), timeout=_CLOSING)
        for child in self.children.values():
            child.process.kill()
        if self._work:
            await asyncio.wait(set(self._work.values()), timeout=1.0)
