"""The channel: one Discord bot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from channels.base import Host, Outgoing
from channels.discord import fetching, secrecy
from channels.discord.connection import Connection
from channels.discord.failures import translate
from channels.discord.sending import Sender, not_connected
from channels.discord.settings import Timing
from channels.text import discord as markup
from routing.messages import Address, Attachment

_DISCORD = Route.BASE
_GATEWAY = DiscordWebSocket.DEFAULT_GATEWAY
_EDIT_SPACING = 1.5
_BAD_TOKEN = 4004


class DiscordChannel:
    """Implements Channel, Edits, Asks, Splits, Types, Finds and Fetches.

    The library keeps the addresses of REST and gateway for the whole process: all accounts must agree on them.
    """

    name = "discord"
    reads_history = False
    silent_after: float | None = 60.0
    typing_every = 8.0
    longest_label = 80

    def __init__(
        self,
        account: str,
        token: str,
        base_url: str | None = None,
        gateway_url: str | None = None,
        *,
        message_content: bool = True,
        timing: Timing = Timing(),  # noqa: B008 (frozen)
        now: Callable[[], float] = time.time,
    ) -> None:
        self.account = account
        self._token = token
        self._base_url = base_url
        self._gateway_url = gateway_url
        self._message_content = message_content
        self._timing = timing
        self._sender = Sender(timing, now)
        self._connection: Connection | None = None
        self._usable = asyncio.Event()

    async def run(self, host: Host) -> None:
        self._point()
        secrecy.install()
        connection = Connection(self.account, host, self._sender, self._timing, self._message_content)
        try:
            await connection.login(self._token)
            self._connection = connection
            self._usable.set()
            await connection.serve()
        except Exception as exc:
            host.trouble(why := self._why(exc))
            raise ConnectionError(why) from exc
        finally:
            self._connection = None
            self._usable.clear()
            await connection.drop()

    async def send(self, item: Outgoing) -> str:
        return await self._sender.send(await self._client(), item)

    async def edit(self, sent_id: str, item: Outgoing) -> None:
        await self._sender.edit(await self._client(), sent_id, item)

    def edit_spacing(self, address: Address) -> float:
        return _EDIT_SPACING

    def split(self, text: str) -> list[str]:
        return markup.split(text)

    async def typing(self, address: Address) -> None:
        await self._sender.typing(await self._client(), address)

    async def find(self, item: Outgoing) -> str | None:
        return await self._sender.find(await self._client(), item)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        return await fetching.fetch(attachment, limit, base_url=self._base_url, seconds=self._timing.call)

    async def _client(self) -> discord.Client:
        """Sending needs a login only, no gateway. Shortly after a start it is worth waiting for."""
        try:
            async with asyncio.timeout(self._timing.login):
                await self._usable.wait()
        except TimeoutError:
            raise not_connected() from None
        if self._connection is None:
            raise not_connected()
        return self._connection

    def _point(self) -> None:
        Route.BASE = (self._base_url or _DISCORD).rstrip("/")
        DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(self._gateway_url) if self._gateway_url else _GATEWAY
        # It speaks of nothing but voice, which nobody needs here.
        discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False

    def _why(self, exc: Exception) -> str:
        """For an operator, without secrets."""
        where = f"[discord.{self.account}]"
        if isinstance(exc, discord.LoginFailure) or _is_closed_with(exc, _BAD_TOKEN):
            return (
                f"Discord refuses the token of {where}. Copy it again from the Developer Portal "
                "(Bot → Reset Token) and change the configuration."
            )
        if isinstance(exc, discord.PrivilegedIntentsRequired):
            return (
                f"Discord does not let the bot of {where} read messages. Switch on 'Message Content Intent' in the "
                "Developer Portal (Bot → Privileged Gateway Intents)."
            )
        if isinstance(exc, ConnectionError) and type(exc) is ConnectionError:
            return str(exc)
        return translate(exc, creates=False).why


def _is_closed_with(exc: Exception, code: int) -> bool:
    return isinstance(exc, discord.ConnectionClosed) and exc.code == code
