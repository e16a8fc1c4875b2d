"""After a gap: what was said in each room since the last message we stored, oldest first.

A session that ended takes the messages of the gap with it (only a RESUME replays them), and a restart has no session at
all. Rooms we know are read from the message last seen there. In rooms we have never heard of, anything newer than the
newest message of all rooms was said while we were away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import aiohttp
import discord

from channels.discord.failures import translate
from channels.discord.places import Places
from channels.discord.settings import Timing

_log = logging.getLogger(__name__)
T = TypeVar("T")

#: Messages per room; of more, the newest.
MOST = 1000
_PAGE = 100
_ROOMS_AT_ONCE = 4

#: A message, and its author as a member if the message does not tell.
Take = Callable[[discord.Message, discord.Member | None], Awaitable[None]]


class CatchUp:
    def __init__(self, client: discord.Client, places: Places, take: Take, timing: Timing) -> None:
        self._client = client
        self._places = places
        self._take = take
        self._timing = timing
        self._turn = asyncio.Semaphore(_ROOMS_AT_ONCE)

    async def room(self, room: str, last: str) -> None:
        """Returns when all of it was taken, or there is nothing to read any more. Tries for as long as it takes."""
        try:
            members: dict[int, discord.Member | None] = {}
            for message in await self._missed(int(room), discord.Object(int(last))):
                await self._take(message, await self._member(message, members))
        except (discord.NotFound, discord.Forbidden):
            _log.info("Room %s is gone or closed to the bot; nothing to catch up there", room)
        except Exception:
            # Whatever it was, it would be the same again: better without this room than without all.
            _log.exception("Room %s cannot be caught up", room)

    async def _missed(self, room: int, last: discord.Object) -> list[discord.Message]:
        cached: Any = self._client.get_channel(room)
        channel: Any = cached or self._client.get_partial_messageable(room)
        found = await self._read(channel, last)
        if found and cached is None:
            # Only now is it worth asking what kind of room it is; messages are read again as of that kind.
            channel = await self._insist(lambda: self._places.channel(room))
            found = await self._read(channel, last)
        if len(found) < _PAGE:
            return found
        found = await self._insist(lambda: _newest(channel, last))
        if len(found) == MOST:
            _log.warning("Room %s: more than %s messages were missed; only the newest are taken", room, MOST)
        return found

    async def _member(self, message: discord.Message, known: dict[int, discord.Member | None]) -> discord.Member | None:
        """History does not tell roles, and bindings may need them."""
        guild, author = message.guild, message.author
        if guild is None or message.webhook_id is not None or isinstance(author, discord.Member):
            return None
        if author.id not in known:
            try:
                known[author.id] = await self._insist(lambda: guild.fetch_member(author.id))
            except discord.HTTPException:
                known[author.id] = None  # has left
        return known[author.id]

    async def _read(self, channel: Any, last: discord.Object) -> list[discord.Message]:
        return await self._insist(lambda: _oldest(channel, last))

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Again and again while Discord is in trouble: going on without it would lose the messages of the gap."""
        pause = self._timing.retry
        while True:
            try:
                async with self._turn, asyncio.timeout(self._timing.call):
                    return await call()
            except (discord.DiscordException, aiohttp.ClientError, OSError) as exc:
                failure = translate(exc, creates=False)
                if not failure.retryable:
                    raise
                _log.warning("Cannot catch up yet: %s", failure.why)
                await asyncio.sleep(failure.retry_after or pause)
                pause = min(pause * 2, self._timing.longest_retry)


async def _oldest(channel: Any, last: discord.Object) -> list[discord.Message]:
    return [one async for one in channel.history(limit=_PAGE, after=last, oldest_first=True)]


async def _newest(channel: Any, last: discord.Object) -> list[discord.Message]:
    found = [one async for one in channel.history(limit=MOST, after=last, oldest_first=False)]
    return found[::-1]


def rooms(seen: Mapping[str, str], guilds: Iterable[discord.Guild]) -> dict[str, str]:
    """Room → id of the message to read on from."""
    found = {room: last for room, last in seen.items() if room.isdecimal() and last.isdecimal()}
    if not found:
        return {}  # the first start: what was said before is not for us
    newest = max(found.values(), key=int)
    for guild in guilds:
        channels: list[discord.TextChannel | discord.Thread] = [*guild.text_channels, *guild.threads]
        for channel in channels:
            unheard = str(channel.id) not in found and (channel.last_message_id or 0) > int(newest)
            if unheard and guild.me and channel.permissions_for(guild.me).read_message_history:
                found[str(channel.id)] = newest
    return found
