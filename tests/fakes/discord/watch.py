"""Waiting for a state instead of sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Far more than anything here takes; it only keeps a broken test from hanging.
PATIENCE = 20.0


class Watch:
    """Whoever waits looks again at every change."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def changed(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def until(self, condition: Callable[[], object], patience: float = PATIENCE) -> None:
        async with asyncio.timeout(patience):
            while not condition():
                waiting = asyncio.get_running_loop().create_future()
                self._waiting.add(waiting)
                try:
                    await waiting
                finally:
                    self._waiting.discard(waiting)
