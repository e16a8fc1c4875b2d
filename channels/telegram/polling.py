"""The loop of polls: one at a time, and Telegram is told that we have something only after the gateway has it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

from telegram import Update
from telegram.error import Conflict, InvalidToken, NetworkError, RetryAfter, TelegramError, TimedOut

from channels.base import Host
from channels.telegram import receiving
from channels.telegram.addressing import Me
from channels.telegram.failures import explain, seconds
from channels.telegram.line import Line
from channels.telegram.pressing import Presses
from channels.telegram.timing import Pauses, Timing
from routing.messages import Edited, Inbound, Incoming

_log = logging.getLogger(__name__)

_WEBHOOK = (
    "a webhook is set for this bot{host}, so Telegram refuses to let it poll. Remove it (deleteWebhook), or use a bot "
    "of its own here"
)
_SECOND = (
    "another program polls with the same token, and Telegram allows only one. Stop the other one, or use a bot of its "
    "own here"
)


class Poller:
    def __init__(self, line: Line, host: Host, token: str, timing: Timing) -> None:
        self._line = line
        self._host = host
        self._token = token
        self._timing = timing
        self._pauses = Pauses(timing)
        self._presses = Presses(line, host, token)
        #: What the next poll confirms. None: nothing waits to be confirmed.
        self._offset: int | None = None
        #: Whether the last poll worked; if not, the next one comes back at once to tell.
        self._works = False

    async def connect(self, account: str) -> Me:
        """Ask who we are, until Telegram says."""
        while True:
            try:
                with self._line.calling() as bot:
                    user = await bot.get_me()
            except TelegramError as error:
                self._host.trouble(explain(error, self._token))
                await asyncio.sleep(self._pause(error))
                continue
            self._pauses.reset()
            return Me(user.id, user.username or "", account)

    async def run(self, me: Me) -> None:
        """For ever."""
        try:
            while True:
                if (updates := await self._poll()) is not None:
                    await self._take(updates, me)
        finally:
            await self._presses.close()

    async def _poll(self) -> Sequence[Update] | None:
        """One poll; None if it failed, after the pause that follows."""
        wait = self._timing.poll if self._works else 0
        try:
            updates = await self._line.poll(self._offset, wait, receiving.KINDS)
        except Exception as error:
            # Not only the library's own errors: whatever it trips over, polling goes on.
            await self._failed(error)
            return None
        self._works = True
        self._pauses.reset()
        self._line.poller.careful = False
        self._host.alive()
        return updates

    async def _take(self, updates: Sequence[Update], me: Me) -> None:
        """All of a batch: in order within a chat, and different chats at once, so that they share a commit."""
        async with asyncio.TaskGroup() as tasks:
            for update in updates:
                if update.callback_query is not None:
                    tasks.create_task(self._presses.take(update.callback_query, me))
            for chat in _by_chat(list(receiving.incoming(updates, me))):
                tasks.create_task(self._accept(chat))
        # An empty answer also says that everything before it is confirmed. To go on naming an old id would make the bot
        # deaf when Telegram begins to count anew, as it may after a quiet week.
        self._offset = updates[-1].update_id + 1 if updates else None

    async def _accept(self, chat: Sequence[Incoming]) -> None:
        for what in chat:
            await self._host.accept(what)

    async def _failed(self, error: Exception) -> None:
        pause = self._pause(error)
        if isinstance(error, Conflict):
            self._host.trouble(await self._conflict(error))
        elif self._works and _is_blip(error):
            _log.info("telegram: %s; polling again", explain(error, self._token))
        else:
            self._host.trouble(explain(error, self._token))
        if not isinstance(error, TelegramError | TimeoutError):
            _log.error("telegram: an answer cannot be read: %s", type(error).__name__)
            self._line.poller.careful = True
        self._works = False
        await self._line.renew()
        await asyncio.sleep(pause)

    async def _conflict(self, error: Conflict) -> str:
        """Who has the line. Telegram's own words are for those who know its interface."""
        try:
            with self._line.calling() as bot:
                webhook = (await bot.get_webhook_info()).url
        except TelegramError:
            webhook = "unknown" if "webhook" in error.message.lower() else ""
        if not webhook:
            return _SECOND
        # Of the address only the host: the rest may be a secret.
        host = urlsplit(webhook).hostname
        return _WEBHOOK.format(host=f" (at {host})" if host else "")

    def _pause(self, error: Exception) -> float:
        match error:
            case RetryAfter():
                return seconds(error)
            case Conflict():
                return self._timing.conflict_pause
            case InvalidToken():
                return self._timing.refused_pause
        return self._pauses.next()


def _by_chat(found: Sequence[Incoming]) -> list[list[Incoming]]:
    """Where a chat moved, what comes after it must know: then everything is one row."""
    chats: dict[str, list[Incoming]] = {}
    for what in found:
        match what:
            case Inbound(address=address) | Edited(message=Inbound(address=address)):
                chats.setdefault(address.chat, []).append(what)
            case _:
                return [list(found)]
    return list(chats.values())


def _is_blip(error: Exception) -> bool:
    """A connection that was closed on us, which happens every day; a silent one is worth a word at once."""
    return isinstance(error, NetworkError) and not isinstance(error, TimedOut)
