"""Where a message stands: the channel, and the thread in it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import discord

from routing.keys import PeerKind
from routing.messages import Address

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """A dictionary that forgets its oldest entries."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._found.get(key)

    def put(self, key: K, value: V) -> None:
        self._found[key] = value
        self._found.move_to_end(key)
        if len(self._found) > self._most:
            self._found.popitem(last=False)

    def drop(self, key: K) -> None:
        self._found.pop(key, None)


@dataclass(frozen=True, slots=True)
class Place:
    kind: PeerKind
    chat: str
    thread: str | None = None
    guild: str | None = None

    def address(self, account: str, reply_to: str) -> Address:
        return Address(channel="discord", account=account, chat=self.chat, thread=self.thread, reply_to=reply_to)


def place_of(channel: Any) -> Place | None:
    """None if the library knows no more than an id."""
    match channel:
        case discord.DMChannel():
            return Place(PeerKind.DM, str(channel.id))
        case discord.GroupChannel():
            return Place(PeerKind.GROUP, str(channel.id))
        case discord.Thread():
            return Place(PeerKind.CHANNEL, str(channel.parent_id), str(channel.id), str(channel.guild.id))
        case discord.abc.GuildChannel():
            return Place(PeerKind.CHANNEL, str(channel.id), None, str(channel.guild.id))
        case _:
            return None


class Places:
    """Finds out what the library does not have: threads that were archived when it connected."""

    def __init__(self, client: discord.Client) -> None:
        self._client = client
        self._found: Recent[int, Any] = Recent(1000)

    async def channel(self, room: int) -> Any:
        """The whole channel. Raises discord.NotFound or discord.Forbidden, and whatever a call may raise."""
        known = self._client.get_channel(room) or self._found.get(room)
        if known is None:
            known = await self._client.fetch_channel(room)
            self._found.put(room, known)
        return known

    async def place(self, channel: Any) -> Place:
        if (place := place_of(channel)) is not None:
            return place
        try:
            place = place_of(await self.channel(channel.id))
        except (discord.NotFound, discord.Forbidden):
            place = None
        guild = getattr(channel, "guild_id", None)
        return place or Place(PeerKind.CHANNEL, str(channel.id), None, str(guild) if guild else None)


def room_of(address: Address) -> int:
    """The channel that Discord posts to: a thread is a channel of its own."""
    return int(address.thread or address.chat)
