"""A channel inside the process that ships as a test double: it can refuse, delay, cut and answer late."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from channels.base import Host, Outgoing
from routing.errors import DeliveryFailed
from routing.messages import Address, Incoming


class Fault(StrEnum):
    """What goes wrong with one call."""

    #: The connection is cut before the platform has the message.
    CUT_BEFORE = "cut_before"
    #: The platform has the message, but its answer is lost.
    CUT_AFTER = "cut_after"
    #: 429 with `retry_after`.
    RATE_LIMIT = "rate_limit"
    #: It will never work.
    REFUSE = "refuse"
    #: The chat is closed to us until somebody writes there.
    BLOCK = "block"
    #: The call waits until `MemoryChannel.go_on` is set, then works.
    DELAY = "delay"


@dataclass(slots=True)
class Shown:
    """A message as people in the chat see it."""

    id: str
    address: Address
    text: str
    edits: int = 0
    filename: str | None = None


@dataclass(slots=True)
class MemoryChannel:
    """`shown` is what the platform has; `faults` are used up one per call, in order."""

    account: str
    name: str = "memory"
    reads_history: bool = False
    retry_after: float = 30.0
    shown: list[Shown] = field(default_factory=list)
    faults: deque[Fault] = field(default_factory=deque)
    calls: int = 0
    #: While set, every call fails as if the platform were down.
    down: bool = False
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set at every call, for tests that wait for one.
    called: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set: text is split at so many characters.
    limit: int | None = None
    silent_after: float | None = None
    _host: Host | None = None

    async def run(self, host: Host) -> None:
        self._host = host
        host.alive()
        self.started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._host = None
            self.started.clear()

    async def receive(self, what: Incoming) -> None:
        """A person writes, changes or takes back."""
        if self._host is None:
            raise RuntimeError("the channel is not running")
        await self._host.accept(what)

    def edit_spacing(self, address: Address) -> float:
        return 1.5

    def split(self, text: str) -> list[str]:
        if self.limit is None:
            return [text]
        return [text[start : start + self.limit] for start in range(0, len(text), self.limit)] or [text]

    async def send(self, item: Outgoing) -> str:
        lost = await self._fault()
        shown = Shown(f"m{len(self.shown) + 1}", item.address, item.text, filename=item.filename)
        self.shown.append(shown)
        self._answer(lost)
        return shown.id

    async def edit(self, sent_id: str, item: Outgoing) -> None:
        lost = await self._fault()
        shown = next((one for one in self.shown if one.id == sent_id), None)
        if shown is None:
            raise DeliveryFailed("the message to edit is gone", retryable=False)
        shown.text = item.text
        shown.edits += 1
        self._answer(lost)

    async def _fault(self) -> bool:
        """Play the next fault; true if the answer will be lost."""
        self.calls += 1
        self.called.set()
        if self.down:
            raise DeliveryFailed("cannot connect", retryable=True)
        match self.faults.popleft() if self.faults else None:
            case Fault.CUT_BEFORE:
                raise DeliveryFailed("connection cut", retryable=True)
            case Fault.RATE_LIMIT:
                raise DeliveryFailed("too many requests", retryable=True, retry_after=self.retry_after)
            case Fault.REFUSE:
                raise DeliveryFailed("refused", retryable=False)
            case Fault.BLOCK:
                raise DeliveryFailed("blocked by the user", retryable=False, blocked=True)
            case Fault.DELAY:
                await self.go_on.wait()
            case Fault.CUT_AFTER:
                return True
        return False

    def _answer(self, lost: bool) -> None:
        if lost:
            raise DeliveryFailed("no answer", retryable=True, ambiguous=True)
