"""What a channel sees of the daemon: a door for what arrives, a small memory, and somebody who notes its pulse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from channels.base import Channel, MenuItem, Verdict
from gateway.commands import MENU
from gateway.health import Health
from gateway.intake import Intake
from gateway.logs import Event, log
from routing.messages import Incoming, Press
from store import accounts


@dataclass(slots=True)
class ChannelHost:
    """The `Host` of one channel account."""

    channel: Channel
    intake: Intake
    health: Health
    #: Called at each sign of life.
    on_alive: Callable[[], None]
    menu: Sequence[MenuItem] = MENU
    name: str = field(init=False)
    _connected: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.name = component(self.channel)

    async def accept(self, what: Incoming) -> None:
        await self.intake.accept(what)

    async def press(self, press: Press) -> Verdict:
        return await self.intake.desk.press(press)

    async def seen(self) -> Mapping[str, str]:
        one = self.channel
        return await self.intake.persist.read(lambda db: accounts.seen(db, one.name, one.account))

    async def recall(self, name: str) -> str | None:
        one = self.channel
        return await self.intake.persist.read(lambda db: accounts.recall(db, one.name, one.account, name))

    async def remember(self, name: str, value: str) -> None:
        one = self.channel
        await self.intake.persist.must(lambda db: accounts.remember(db, one.name, one.account, name, value))

    def alive(self) -> None:
        self.on_alive()
        if self.health.report(self.name, True) or not self._connected:
            log(Event.CHANNEL_CONNECTED, channel=self.channel.name, account=self.channel.account)
        self._connected = True

    def trouble(self, why: str) -> None:
        if self.health.report(self.name, False, why):
            log(Event.CHANNEL_TROUBLE, channel=self.channel.name, account=self.channel.account, why=why)


def component(channel: Channel) -> str:
    return f"channel {channel.name}.{channel.account}"
