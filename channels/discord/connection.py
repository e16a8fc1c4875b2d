"""One life of a connection: from login to the first failure that the library cannot heal."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from functools import partial
from typing import Any

import discord

from channels.base import Host
from channels.discord import interactions, menu, pressing, receiving
from channels.discord.catching_up import CatchUp, rooms
from channels.discord.lanes import Lanes, end
from channels.discord.leftovers import Leftovers
from channels.discord.places import Places, place_of
from channels.discord.sending import Sender
from channels.discord.settings import Timing
from routing.messages import Deleted, Edited, Inbound

_log = logging.getLogger(__name__)

#: Attempts in a row that led to no session, after which it is better to begin from the start.
_MOST_FAILURES = 3
#: Packets of the protocol itself are short; no need to parse the others a second time.
_SHORT = 100
_ACK = 11
_LONGEST_WAIT = 30.0

_BLANK = (
    "[discord.%s]: a message came without its text. Switch on 'Message Content Intent' for the bot in Discord's "
    "Developer Portal (Bot → Privileged Gateway Intents); without it only direct messages and mentions can be read."
)


def _intents(message_content: bool) -> discord.Intents:
    intents = discord.Intents.none()
    intents.guilds = intents.guild_messages = intents.dm_messages = True
    intents.message_content = message_content
    return intents


class Connection(discord.Client):
    """The events of the library put work into lanes and return; the lanes hand it to the host in order."""

    def __init__(self, account: str, host: Host, sender: Sender, timing: Timing, message_content: bool) -> None:
        self._leftovers = Leftovers()
        super().__init__(
            intents=_intents(message_content),
            max_messages=None,
            heartbeat_timeout=timing.heartbeat,
            guild_ready_timeout=timing.guilds,
            max_ratelimit_timeout=_LONGEST_WAIT,
            allowed_mentions=discord.AllowedMentions.none(),
            member_cache_flags=discord.MemberCacheFlags.none(),
            enable_debug_events=True,  # the only way to hear of acknowledged heartbeats
            http_trace=self._leftovers.trace(),
        )
        self._account = account
        self._host = host
        self._sender = sender
        self._timing = timing
        self._places = Places(self)
        self._lanes = Lanes(self._fall)
        self._catch_up = CatchUp(self, self._places, self._take, timing)
        self._fallen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = 0
        self._established = False
        self._failures = 0
        self._warned = False
        self._synchronised = False
        self._last_life = 0.0

    @property
    def me(self) -> int:
        if self.user is None:
            raise RuntimeError("not logged in")
        return self.user.id

    async def serve(self) -> None:
        """Never returns: raises what ended it."""
        self._last_life = asyncio.get_running_loop().time()
        connecting = asyncio.create_task(self.connect())
        try:
            while not (self._fallen.done() or connecting.done()):
                left = self._last_life + self._timing.silent - asyncio.get_running_loop().time()
                if left <= 0:
                    raise ConnectionError("Discord has not acknowledged a heartbeat for too long")
                await asyncio.wait({connecting, self._fallen}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._fallen, connecting):
                if ended.done():
                    ended.result()
            raise ConnectionError("the connection to Discord ended")
        finally:
            await end([connecting])
            await self._lanes.close()
            await self._sender.answers.close()

    async def drop(self) -> None:
        """Close, but do not wait for a peer that says nothing any more."""
        self._fallen.cancel()
        # A task of its own: how the library's closing ends, or ended before, must not be how this ends.
        closing = asyncio.create_task(self.close())
        try:
            await asyncio.wait({closing}, timeout=self._timing.close)
            await end([closing])
            await self.http.close()
        finally:
            await self._leftovers.clear(self, self._timing.close)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """The library has events for a moment after it was closed, and nothing to run them with."""
        if not self.is_closed():
            super().dispatch(event, *args, **kwargs)

    def _fall(self, exc: BaseException) -> None:
        if not self._fallen.done():
            self._fallen.set_exception(exc)

    def _alive(self) -> None:
        self._last_life = asyncio.get_running_loop().time()
        self._host.alive()

    # The connection

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        if not initial:
            await asyncio.sleep(self._timing.identify)

    async def on_connect(self) -> None:
        """A new session: nothing may be stored before what was said in the gap."""
        self._session += 1
        self._lanes.shut()
        self._begun()

    async def on_ready(self) -> None:
        session = self._session
        seen = await self._host.seen()
        if session != self._session:
            return  # there is a newer one, which has its own gap to close
        for room, last in rooms(seen, self.guilds).items():
            self._lanes.put(room, partial(self._catch_up.room, room, last), first=True)
        self._lanes.open()
        if not self._synchronised:
            self._synchronised = True
            await menu.synchronise(self, self._host, self._timing.call)

    async def on_resumed(self) -> None:
        self._begun()

    async def on_disconnect(self) -> None:
        self._established = False
        self._failures += 1
        if self.ws is None or self._failures > _MOST_FAILURES:
            self._fall(ConnectionError("Discord's gateway cannot be reached, or ends every session at once"))

    async def on_socket_raw_receive(self, packet: str) -> None:
        if self._established and len(packet) < _SHORT and json.loads(packet).get("op") == _ACK:
            self._alive()

    async def on_error(self, event_method: str, /, *args: Any, **kwargs: Any) -> None:
        exc = sys.exc_info()[1]
        self._fall(exc or RuntimeError(event_method))

    def _begun(self) -> None:
        self._established = True
        self._failures = 0
        self._alive()

    # What people do

    async def on_message(self, message: discord.Message) -> None:
        if message.author.id == self.me:
            self._sender.heard(message)
        else:
            self._lanes.put(str(message.channel.id), partial(self._take, message))

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        # Discord updates messages by itself too, to add previews of links; those were not edited.
        if payload.message.author.id != self.me and payload.message.edited_at is not None:
            self._lanes.put(str(payload.channel_id), partial(self._take_edit, payload.message))

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        self._lanes.put(str(payload.channel_id), partial(self._take_back, payload.message_id))

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        for message in sorted(payload.message_ids):
            self._lanes.put(str(payload.channel_id), partial(self._take_back, message))

    async def on_interaction(self, interaction: discord.Interaction[Any]) -> None:
        if interaction.type is discord.InteractionType.component and interaction.channel is not None:
            self._sender.answers.start(self._take_press(interaction))
            return
        if interaction.type is not discord.InteractionType.application_command or interaction.channel is None:
            return
        pressed = interactions.Pressed(interaction.id, interaction.application_id, interaction.token)
        self._sender.answers.acknowledge(self, pressed)
        self._lanes.put(str(interaction.channel.id), partial(self._take_command, interaction))

    # Into the store

    async def _take(self, message: discord.Message, member: discord.Member | None = None) -> None:
        found = await self._inbound(message, member)
        if found is not None:
            await self._host.accept(found)

    async def _take_edit(self, message: discord.Message) -> None:
        found = await self._inbound(message, None)
        if found is not None:
            await self._host.accept(Edited(message=found))

    async def _take_back(self, message: int) -> None:
        await self._host.accept(Deleted(channel="discord", external_id=receiving.external_id(self.me, message)))

    async def _take_command(self, interaction: discord.Interaction[Any]) -> None:
        place = place_of(interaction.channel)
        if place is not None:
            found = interactions.inbound(interaction, account=self._account, bot=self.me, place=place)
            await self._host.accept(found)

    async def _take_press(self, interaction: discord.Interaction[Any]) -> None:
        place = await self._places.place(interaction.channel)
        await pressing.take(self, interaction, self._host, place, self._account, self._timing)

    async def _inbound(self, message: discord.Message, member: discord.Member | None) -> Inbound | None:
        if receiving.is_blank(message) and not self._warned:
            self._warned = True
            _log.warning(_BLANK, self._account)
        place = await self._places.place(message.channel)
        me = receiving.Me.in_guild(self.me, message.guild)
        try:
            return receiving.inbound(message, account=self._account, me=me, place=place, author=member)
        except Exception:
            # One message that cannot be understood must not come again and again and keep all others out.
            _log.exception("Message %s cannot be understood and is left out", message.id)
            return None
