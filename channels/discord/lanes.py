"""One queue per room: what happens there is stored in the order in which it happened."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

_log = logging.getLogger(__name__)

_AGAIN = 0.1

Job = Callable[[], Awaitable[None]]


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until they are done: before Python 3.12 `asyncio.wait_for`, which the library uses, may swallow it."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=_AGAIN)
        for task in done:
            if not task.cancelled():
                task.exception()  # now somebody has looked


class Lanes:
    """Rooms do not wait for each other. While the gate is shut nobody begins anything."""

    def __init__(self, fall: Callable[[BaseException], None]) -> None:
        self._jobs: dict[str, deque[Job]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._fall = fall

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def put(self, room: str, job: Job, *, first: bool = False) -> None:
        """`first`: before everything that waits."""
        jobs = self._jobs.get(room)
        if jobs is None:
            jobs = self._jobs[room] = deque()
            worker = asyncio.create_task(self._work(room, jobs), name=f"discord room {room}")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        if first:
            jobs.appendleft(job)
        else:
            jobs.append(job)

    async def close(self) -> None:
        await end(self._workers)

    async def _work(self, room: str, jobs: deque[Job]) -> None:
        try:
            while True:
                # Only then look what is first: something may have been put before it meanwhile.
                await self._open.wait()
                if not jobs:
                    return
                await jobs.popleft()()
        except Exception as exc:
            _log.exception("The order of messages in a room cannot be kept; connecting anew")
            self._fall(exc)
        finally:
            self._jobs.pop(room, None)
