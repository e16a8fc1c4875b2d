"""One bot account on Telegram."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from telegram import Bot
from telegram.constants import ChatAction
from telegram.error import ChatMigrated, TelegramError

from channels.base import Host, Outgoing, Pace
from channels.telegram import fetching, menu, sending
from channels.telegram.addressing import Me
from channels.telegram.failures import explain, scrub, translate
from channels.telegram.line import Line
from channels.telegram.polling import Poller
from channels.telegram.timing import Timing
from channels.text import telegram as markup
from routing.errors import DeliveryFailed
from routing.messages import Address, Attachment, Moved

_log = logging.getLogger(__name__)

#: Of the 4096 that Telegram takes: a repeat has room for the words that it may be one.
_MOST = 4000

#: A fact of the account: which bot its token belonged to.
_WHO = "bot_user_id"


class TelegramChannel:
    """Implements Channel, Edits, Asks, Splits, Types, Paced and Fetches."""

    name = "telegram"
    reads_history = False
    silent_after: float | None = 60.0
    typing_every = 4.0
    longest_label = 64

    def __init__(self, account: str, token: str, base_url: str | None = None, *, timing: Timing | None = None) -> None:
        """`base_url` is the root of a Bot API server, such as http://127.0.0.1:8081; None is Telegram's own."""
        self.account = account
        self._token = token
        self._base_url = base_url
        self._timing = timing or Timing()
        self._line: Line | None = None
        self._host: Host | None = None

    def __repr__(self) -> str:
        return f"TelegramChannel({self.account!r})"

    async def run(self, host: Host) -> None:
        line = Line(self._token, self._base_url, self._timing)
        self._line, self._host = line, host
        try:
            await self._receive(line, host)
        finally:
            self._line = None
            await line.close()

    async def send(self, item: Outgoing) -> str:
        async with self._call(item.address.chat) as bot:
            return str(await sending.send(bot, item))

    async def edit(self, sent_id: str, item: Outgoing) -> None:
        async with self._call(item.address.chat, repeatable=True) as bot:
            await sending.edit(bot, sent_id, item)

    async def typing(self, address: Address) -> None:
        place = sending.where(address)
        async with self._call(address.chat, repeatable=True) as bot:
            await bot.send_chat_action(place.chat, ChatAction.TYPING, message_thread_id=place.thread)

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        async with self._call(None, repeatable=True) as bot:
            return await fetching.fetch(bot, attachment.ref, limit, self._timing)

    def split(self, text: str) -> list[str]:
        return markup.split(text, _MOST)

    def edit_spacing(self, address: Address) -> float:
        return 1.5 if _is_private(address) else 3.0

    def pace(self, address: Address) -> Pace:
        return Pace(burst=3, every=1.0) if _is_private(address) else Pace(burst=4, every=3.75)

    async def _receive(self, line: Line, host: Host) -> None:
        poller = Poller(line, host, self._token, self._timing)
        me = await poller.connect(self.account)
        await self._recognise(me, host)
        offering = asyncio.create_task(menu.offer(line, host, me, self._token, self._timing))
        try:
            await poller.run(me)
        finally:
            offering.cancel()
            await asyncio.gather(offering, return_exceptions=True)

    async def _recognise(self, me: Me, host: Host) -> None:
        """Another token may be another bot. Nothing that is kept belongs to the old one: ids carry the bot's own."""
        before = await host.recall(_WHO)
        if before == str(me.id):
            return
        if before is not None:
            _log.warning("telegram: account %s is bot %s now, before it was %s", self.account, me.id, before)
        await host.remember(_WHO, str(me.id))

    @asynccontextmanager
    async def _call(self, chat: str | None, *, repeatable: bool = False) -> AsyncIterator[Bot]:
        """Whatever the library raises leaves as DeliveryFailed, with no trace of its own: that would show the URL."""
        line, host = self._line, self._host
        if line is None or host is None:
            raise DeliveryFailed("the account is not connected", retryable=True)
        try:
            with line.calling() as bot:
                yield bot
        except TelegramError as error:
            if isinstance(error, ChatMigrated) and chat is not None:
                await host.accept(Moved(channel=self.name, account=self.account, old=chat, new=str(error.new_chat_id)))
            raise translate(error, self._token, repeatable=repeatable) from None
        except DeliveryFailed:
            raise
        except Exception as error:
            # An answer that the library trips over: what was asked may well have been done.
            _log.error("telegram: a call ended with %s", scrub(repr(error), self._token))
            why = explain(error, self._token)
            raise DeliveryFailed(why, retryable=True, ambiguous=not repeatable) from None


def _is_private(address: Address) -> bool:
    """Groups and channels have negative ids."""
    return not address.chat.startswith("-")
