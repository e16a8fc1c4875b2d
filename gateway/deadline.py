"""The time that a turn has. It stands still while a person decides, and the slot is free meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType

from gateway.clock import Clock


class Slot:
    """One of the places that an agent has for turns."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = False

    async def take(self) -> None:
        await self._places.acquire()
        self._held = True

    def free(self) -> None:
        """Safe to repeat."""
        if self._held:
            self._held = False
            self._places.release()


class Deadline:
    """As `Clock.timeout`, but it can be paused."""

    def __init__(self, clock: Clock, seconds: float, slot: Slot) -> None:
        self._clock = clock
        self._left = seconds
        self._slot = slot
        self._timeout = asyncio.timeout(None)
        self._timer: asyncio.Task[None] | None = None
        self._since = 0.0
        self._waiting = 0
        self._changing = asyncio.Lock()

    @property
    def left(self) -> float:
        running = self._clock.monotonic() - self._since if self._timer is not None else 0.0
        return max(self._left - running, 0.0)

    @property
    def paused(self) -> bool:
        return self._waiting > 0

    @asynccontextmanager
    async def paused_for_a_person(self) -> AsyncIterator[None]:
        """As often as there are questions at once; time goes on, in a slot again, when the last one is decided."""
        async with self._changing:
            self._waiting += 1
            self._stop()
            self._slot.free()
        yield  # if this raises the run is over, and needs neither time nor slot any more
        async with self._changing:
            if self._waiting == 1:
                await self._slot.take()
                self._start()
            self._waiting -= 1

    async def __aenter__(self) -> Deadline:
        await self._timeout.__aenter__()
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        await self._timeout.__aexit__(kind, exc, trace)

    def _start(self) -> None:
        self._since = self._clock.monotonic()
        self._timer = asyncio.create_task(self._run(self._left), name="deadline")

    def _stop(self) -> None:
        self._left = self.left
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _run(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timeout.reschedule(asyncio.get_running_loop().time())
