"""Time as a dependency: monotonic for timers, wall clock for storage only. Tests bring their own."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from store.ids import Micros
from store.ids import now as wall_now


class Clock(Protocol):
    def now(self) -> Micros: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Raises TimeoutError inside the block when the time is over."""
        ...


class SystemClock:
    def now(self) -> Micros:
        return wall_now()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)
