"""Buttons: each press is handed over, and whoever pressed is told what came of it. Nobody else sees that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from telegram import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import BadRequest, TelegramError

from channels.base import Button, Host, Verdict
from channels.telegram.addressing import Me, sender_user
from channels.telegram.failures import explain
from channels.telegram.line import Line
from routing.messages import Press

_log = logging.getLogger(__name__)

#: Of the words that a press is answered with.
_LONGEST = 200


def keyboard(buttons: tuple[Button, ...] | None) -> InlineKeyboardMarkup | None:
    """One below the other: labels are long."""
    if not buttons:
        return None
    return InlineKeyboardMarkup([[InlineKeyboardButton(one.label, callback_data=one.data)] for one in buttons])


class Presses:
    """The decision is awaited before the poll goes on; its answer, a courtesy, is not."""

    def __init__(self, line: Line, host: Host, token: str) -> None:
        self._line = line
        self._host = host
        self._token = token
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, query: CallbackQuery, me: Me) -> None:
        # A message that is too old to be shown still has its chat; one sent through another bot has none.
        chat = "" if query.message is None else str(query.message.chat.id)
        press = Press(
            channel="telegram",
            account=me.account,
            chat=chat,
            sender=sender_user(query.from_user),
            data=query.data or "",
        )
        self._start(self._tell(query, await self._host.press(press)))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(self, query: CallbackQuery, verdict: Verdict) -> None:
        try:
            with self._line.calling() as bot:
                await bot.answer_callback_query(query.id, verdict.text[:_LONGEST], show_alert=verdict.alert)
        except TelegramError as error:
            # After an outage the press is too old to be answered; the message itself tells what was decided.
            _log.info("telegram: a press could not be answered: %s", explain(error, self._token))
        if verdict.over and query.message is not None:
            await self._clear(query.message.chat.id, query.message.message_id)

    async def _clear(self, chat: int, message: int) -> None:
        """Take the buttons away that do nothing any more."""
        try:
            with self._line.calling() as bot:
                await bot.edit_message_reply_markup(chat, message)
        except BadRequest:
            pass  # they are gone already
        except TelegramError as error:
            _log.info("telegram: buttons could not be removed: %s", explain(error, self._token))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
