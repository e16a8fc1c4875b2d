"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType

from store.ids import Micros, now


@dataclass(slots=True, order=True)
class _Timer:
    due: float
    number: int
    fire: Callable[[], object] = field(compare=False)
    dead: bool = field(default=False, compare=False)


class FakeClock:
    """Implements `gateway.clock.Clock`. `settle` is awaited wherever a test's own tasks have to come to rest."""

    def __init__(self) -> None:
        self._start = now()
        self._time = 0.0
        self._timers: list[_Timer] = []
        #: How many timers were ever set: as long as it grows, somebody is still at work.
        self.timers = 0
        self.settle: Callable[[], Awaitable[None]] = breathe

    def now(self) -> Micros:
        return self._start + round(self._time * 1_000_000)

    def monotonic(self) -> float:
        return self._time

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        timer = self._set(seconds, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.dead = True

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[asyncio.Timeout]:
        return _Timeout(self, seconds)

    async def advance(self, seconds: float) -> None:
        """Move on; whoever sleeps or has a deadline on the way is woken in order, each at its own time."""
        await self.settle()
        target = self._time + seconds
        while (timer := self._next()) is not None and timer.due <= target:
            self._time = max(self._time, timer.due)
            self._fire()
            await self.settle()
        self._time = target
        await self.settle()

    def leap(self, seconds: float) -> None:
        """Time passes while nobody looks."""
        self._time += seconds

    def next_due(self) -> float | None:
        """Seconds until somebody is woken."""
        timer = self._next()
        return None if timer is None else timer.due - self._time

    def _set(self, seconds: float, fire: Callable[[], object]) -> _Timer:
        self.timers += 1
        timer = _Timer(self._time + max(seconds, 0.0), self.timers, fire)
        heapq.heappush(self._timers, timer)
        return timer

    def _next(self) -> _Timer | None:
        while self._timers and self._timers[0].dead:
            heapq.heappop(self._timers)
        return self._timers[0] if self._timers else None

    def _fire(self) -> None:
        """Wake everybody who is due."""
        while (timer := self._next()) is not None and timer.due <= self._time:
            heapq.heappop(self._timers)
            timer.fire()


class _Timeout:
    """`asyncio.timeout` whose deadline is the fake clock's."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> asyncio.Timeout:
        await self._timeout.__aenter__()
        self._timer = self._clock._set(self._seconds, self._expire)
        return self._timeout

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.dead = True
        await self._timeout.__aexit__(kind, exc, trace)

    def _expire(self) -> None:
        self._timeout.reschedule(asyncio.get_running_loop().time())


async def breathe() -> None:
    """Let every task that is ready run, and those it makes ready."""
    for _ in range(20):
        await asyncio.sleep(0)
