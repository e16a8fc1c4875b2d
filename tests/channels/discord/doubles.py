"""The daemon as a channel sees it, and a bot that is connected to a fake Discord."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from channels.base import MenuItem, Outgoing, Verdict
from channels.discord import DiscordChannel, Timing
from routing.messages import Address, Deleted, Edited, Inbound, Incoming, Press
from tests.fakes.discord.model import Channel, Message, User
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.watch import Watch

#: So that nothing waits for what Discord would take its time for.
QUICK = Timing(heartbeat=2.0, silent=5.0, identify=0.01, guilds=0.05, call=5.0, login=1.0, retry=0.02, close=0.5)


class HostDouble:
    """Keeps what a store would keep. Deduplicates as one: by external id."""

    def __init__(self, menu: Sequence[MenuItem] = ()) -> None:
        self.menu = menu
        self.presses: list[Press] = []
        self.verdict = Verdict("done")
        self.watch = Watch()
        #: Everything that was handed over, repeats included.
        self.handed: list[Incoming] = []
        #: Messages once each, in order.
        self.inbox: list[Inbound] = []
        self._known: set[str] = set()
        self.facts: dict[str, str] = {}
        self.last: dict[str, str] = {}
        self.lives = 0
        self.troubles: list[str] = []
        #: Cleared: the store takes nothing, and `accept` waits.
        self.storing = asyncio.Event()
        self.storing.set()
        self.waiting = 0

    async def accept(self, what: Incoming) -> None:
        self.waiting += 1
        self.watch.changed()
        await self.storing.wait()
        self.waiting -= 1
        self.handed.append(what)
        if isinstance(what, Inbound):
            if what.external_id not in self._known:
                self._known.add(what.external_id)
                self.inbox.append(what)
            if what.seen is not None:
                room, message = what.seen
                self.last[room] = max(self.last.get(room, "0"), message, key=int)
        self.watch.changed()

    async def press(self, press: Press) -> Verdict:
        self.presses.append(press)
        return self.verdict

    async def seen(self) -> Mapping[str, str]:
        return dict(self.last)

    async def recall(self, name: str) -> str | None:
        return self.facts.get(name)

    async def remember(self, name: str, value: str) -> None:
        self.facts[name] = value
        self.watch.changed()

    def alive(self) -> None:
        self.lives += 1
        self.watch.changed()

    def trouble(self, why: str) -> None:
        self.troubles.append(why)
        self.watch.changed()

    # For tests

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.inbox]

    @property
    def edits(self) -> list[Inbound]:
        return [one.message for one in self.handed if isinstance(one, Edited)]

    @property
    def deleted(self) -> list[str]:
        return [one.external_id for one in self.handed if isinstance(one, Deleted)]

    async def until(self, condition: Callable[[], object], patience: float = 20.0) -> None:
        await self.watch.until(condition, patience)

    async def received(self, count: int) -> list[Inbound]:
        await self.until(lambda: len(self.inbox) >= count)
        return self.inbox


class Rig:
    """A guild with a channel, a person, and the bot of one channel; started and stopped by the test."""

    def __init__(self, discord: FakeDiscord, *, timing: Timing = QUICK, menu: Sequence[MenuItem] = ()) -> None:
        self.discord = discord
        self.timing = timing
        self.host = HostDouble(menu)
        self.ann = discord.add_user("Ann")
        self.guild = discord.add_guild("Home", discord.bot, self.ann)
        self.general = discord.add_channel(self.guild, "general")
        self.dm = discord.dm(self.ann, discord.bot)
        self.how: dict[str, Any] = {}
        self.channel = self.make()
        self.task: asyncio.Task[None] | None = None
        self._numbers = 0

    def make(self) -> DiscordChannel:
        """A channel as a new process would make it: it remembers nothing."""
        discord = self.discord
        given = {"timing": self.timing, "now": discord.clock, **self.how}
        return DiscordChannel("main", discord.bot.token, discord.base_url, discord.gateway_url, **given)

    async def start(self) -> None:
        """Until it is connected and has begun to catch up."""
        await self.begin()
        await self.ready()

    async def begin(self) -> None:
        """Until it has identified itself."""
        before = len(self.discord.gateway.identified)
        self.task = asyncio.create_task(self.channel.run(self.host))
        await self.discord.until(lambda: len(self.discord.gateway.identified) > before)

    async def ready(self) -> None:
        """Until a message gets through."""
        probe = self.discord.say(self.probe_user, self.probe_room, "probe")
        ours = f"{self.discord.bot.id}:{probe.id}"
        await self.host.until(lambda: any(one.external_id == ours for one in self.host.inbox))
        self.host.inbox[:] = [one for one in self.host.inbox if one.text != "probe"]

    @property
    def probe_user(self) -> User:
        if not hasattr(self, "_prober"):
            self._prober = self.discord.add_user("Prober")
        return self._prober

    @property
    def probe_room(self) -> Channel:
        return self.discord.dm(self.probe_user, self.discord.bot)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None

    async def restart(self) -> None:
        """As a new process."""
        await self.stop()
        self.channel = self.make()
        await self.start()

    def item(self, text: str, to: Channel | Message | Inbound, **how: Any) -> Outgoing:
        """An answer to a place, a message, or what came in."""
        self._numbers += 1
        return Outgoing(nonce=how.pop("nonce", f"n{self._numbers}"), address=address(to), text=text, **how)


def address(to: Channel | Message | Inbound) -> Address:
    if isinstance(to, Inbound):
        return to.address
    if isinstance(to, Message):
        return replace(address(to.channel), reply_to=str(to.id))
    thread = to.parent is not None
    chat = to.parent.id if to.parent else to.id
    return Address(channel="discord", account="main", chat=str(chat), thread=str(to.id) if thread else None)
