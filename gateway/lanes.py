"""Lanes: one per session key, first in first out, one turn at a time. Lanes never wait for each other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from gateway.clock import Clock
from gateway.config import QueueMode
from gateway.deadline import Slot
from gateway.turn import Turns
from routing.keys import SessionKey
from routing.messages import Address
from store.ids import Micros
from store.records import InboxItem


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    queue: QueueMode
    #: How many turns of the agent run at once.
    max_turns: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    item: int
    #: Messages from the same place and person may be collected into one turn.
    origin: tuple[str, str | None, int | None]
    #: The first message of the thought that this one belongs to.
    thought: int
    #: Until then more of it may come.
    open_until: Micros


@dataclass(slots=True)
class _Lane:
    waiting: deque[_Waiting] = field(default_factory=deque)
    #: Turns that were cut short and go first.
    unfinished: deque[int] = field(default_factory=deque)
    turn: asyncio.Task[None] | None = None
    task: asyncio.Task[None] | None = None
    #: While more of the first thought may come.
    pause: asyncio.Future[None] | None = None


class Lanes:
    def __init__(self, turns: Turns, limits: Mapping[str, AgentLimits], clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._turns = turns
        self._clock = clock
        self._limits = limits
        self._tasks = tasks
        self._slots = {name: asyncio.Semaphore(limit.max_turns) for name, limit in limits.items()}
        self._lanes: dict[SessionKey, _Lane] = {}
        self._closing = False

    def submit(self, item: InboxItem) -> None:
        """A message waits; it is in the store already."""
        origin = _origin(item.address, item.person)
        lane = self._lane(item.key)
        lane.waiting.append(_Waiting(item.id, origin, item.thought or item.id, item.open_until))
        if lane.pause is not None:
            lane.pause.cancel()  # perhaps the thought is complete now

    def resume(self, key: SessionKey, turn: int) -> None:
        """A turn that has to run again goes before everything that waits."""
        self._lane(key).unfinished.append(turn)

    @property
    def running(self) -> int:
        return sum(lane.turn is not None for lane in self._lanes.values())

    def close(self) -> None:
        """Start no more turns; what waits is answered after the next start."""
        self._closing = True
        for lane in self._lanes.values():
            if lane.turn is None and lane.task is not None:
                lane.task.cancel()

    def cut(self) -> None:
        """End the turns that still run; they run again after the next start."""
        for lane in self._lanes.values():
            if lane.task is not None:
                lane.task.cancel()

    async def drain(self) -> None:
        """Return when no turn runs any more. A lane that was closed before it could begin is still there, but done."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None and not lane.task.done()]:
            await asyncio.wait(tasks)

    def _lane(self, key: SessionKey) -> _Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
            if not self._closing:
                lane.task = self._tasks.create_task(self._serve(key, lane), name=f"lane {key}")
        return lane

    async def _serve(self, key: SessionKey, lane: _Lane) -> None:
        agent = key.agent_id
        places = self._slots.get(agent) or asyncio.Semaphore()
        try:
            while (lane.waiting or lane.unfinished) and not self._closing:
                await self._settle(lane)
                slot = Slot(places)
                await slot.take()
                try:
                    await self._one(agent, lane, slot)
                finally:
                    slot.free()
        finally:
            del self._lanes[key]

    async def _settle(self, lane: _Lane) -> None:
        """Wait while more of the first thought may come; what does not promise more is not delayed."""
        while lane.waiting and not lane.unfinished:
            thought = _thought(lane)
            rest = (thought[-1].open_until - self._clock.now()) / 1_000_000
            if rest <= 0 or len(thought) < len(lane.waiting):
                return
            lane.pause = asyncio.ensure_future(self._clock.sleep(rest))
            try:
                await asyncio.wait({lane.pause})
            finally:
                lane.pause.cancel()
                lane.pause = None

    async def _one(self, agent: str, lane: _Lane, slot: Slot) -> None:
        """Run one turn in a task of its own, so that stopping it does not end the lane."""
        if lane.unfinished:
            work = self._turns.again(lane.unfinished.popleft(), slot)
        else:
            work = self._turns.start(self._next(agent, lane), slot)
        lane.turn = asyncio.create_task(work, name="turn")
        try:
            await asyncio.shield(lane.turn)
        except asyncio.CancelledError:
            lane.turn.cancel()
            await asyncio.wait({lane.turn})
            raise
        finally:
            lane.turn = None

    def _next(self, agent: str, lane: _Lane) -> list[int]:
        first = lane.waiting[0]
        limits = self._limits.get(agent)
        if limits is None or limits.queue is QueueMode.FOLLOWUP:
            taken = _thought(lane)
        else:
            taken = list(takewhile(lambda one: one.origin == first.origin, lane.waiting))
        for _ in taken:
            lane.waiting.popleft()
        return [one.item for one in taken]


def _thought(lane: _Lane) -> list[_Waiting]:
    """The messages at the head of a lane that are one thought."""
    first = lane.waiting[0]
    return list(takewhile(lambda one: one.thought == first.thought, lane.waiting))


def _origin(address: Address, person: int | None) -> tuple[str, str | None, int | None]:
    return address.place, address.thread, person
