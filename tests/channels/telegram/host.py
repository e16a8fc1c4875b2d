"""A daemon's stand-in for a channel, and channels that run against the fake server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from channels.base import MenuItem, Outgoing, Verdict
from channels.telegram import TelegramChannel, Timing
from routing.messages import Address, Edited, Inbound, Incoming, Moved, Press
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat

#: Far more than anything here takes; it only keeps a broken test from hanging.
PATIENCE = 20.0

#: Pauses too short to notice. The long poll is the real one: it ends when there is something.
QUICK = Timing(
    connect=5.0,
    answer=10.0,
    first_pause=0.01,
    longest_pause=0.05,
    conflict_pause=0.02,
    refused_pause=0.02,
    farewell=1.0,
)
#: For servers that do not answer.
IMPATIENT = replace(QUICK, poll=1.0, connect=0.6, answer=0.6)


class HostDouble:
    """Implements `channels.base.Host` and remembers everything. While `gate` is not set, nothing is accepted."""

    def __init__(self, menu: Sequence[MenuItem] = ()) -> None:
        self.menu = menu
        #: What the channel offered, and what of it was taken.
        self.offered: list[Incoming] = []
        self.taken: list[Incoming] = []
        self.presses: list[Press] = []
        self.verdict = Verdict("done")
        self.facts: dict[str, str] = {}
        self.troubles: list[str] = []
        #: "alive" and "trouble" in order.
        self.health: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Event()

    async def accept(self, what: Incoming) -> None:
        self.offered.append(what)
        self._poke()
        await self.gate.wait()
        self.taken.append(what)
        self._poke()

    async def press(self, press: Press) -> Verdict:
        self.presses.append(press)
        self._poke()
        return self.verdict

    async def seen(self) -> Mapping[str, str]:
        return {}

    async def recall(self, name: str) -> str | None:
        return self.facts.get(name)

    async def remember(self, name: str, value: str) -> None:
        self.facts[name] = value
        self._poke()

    def alive(self) -> None:
        self.health.append("alive")
        self._poke()

    def trouble(self, why: str) -> None:
        self.health.append("trouble")
        self.troubles.append(why)
        self._poke()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self._changed.wait()

    async def count(self, number: int) -> list[Incoming]:
        """Wait for so many."""
        await self.until(lambda: len(self.taken) >= number)
        assert len(self.taken) == number
        return self.taken

    async def one(self) -> Inbound:
        """Wait for the only message."""
        (what,) = await self.count(1)
        assert isinstance(what, Inbound)
        return what

    async def messages(self, number: int) -> list[Inbound]:
        return [what for what in await self.count(number) if isinstance(what, Inbound)]

    async def edited(self) -> Inbound:
        """Wait for a message and its edit; the edit."""
        _, what = await self.count(2)
        assert isinstance(what, Edited)
        return what.message

    async def moves(self, number: int) -> list[Moved]:
        return [what for what in await self.count(number) if isinstance(what, Moved)]

    def _poke(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@asynccontextmanager
async def running(
    server: FakeTelegram, bot: Bot, host: HostDouble, timing: Timing = QUICK, *, connected: bool = True
) -> AsyncIterator[TelegramChannel]:
    """A channel that polls, until the block is left."""
    channel = TelegramChannel("main", bot.token, server.url, timing=timing)
    task = asyncio.create_task(channel.run(host))
    try:
        if connected:
            await host.until(lambda: "alive" in host.health or task.done())
        yield channel
    finally:
        task.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({task})
    assert task.cancelled(), task.exception()


def to(chat: Chat, thread: int | None = None, reply_to: int | None = None) -> Address:
    return Address(
        channel="telegram",
        account="main",
        chat=str(chat.id),
        thread=None if thread is None else str(thread),
        reply_to=None if reply_to is None else str(reply_to),
    )


def message(address: Address, text: str = "hello", filename: str | None = None) -> Outgoing:
    return Outgoing(nonce="n1", address=address, text=text, filename=filename)
