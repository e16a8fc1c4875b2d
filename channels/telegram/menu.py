"""The commands in Telegram's own menu, written only when they changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging

from telegram import BotCommand
from telegram.error import BadRequest, RetryAfter, TelegramError

from channels.base import Host
from channels.telegram.addressing import Me
from channels.telegram.failures import explain, seconds
from channels.telegram.line import Line
from channels.telegram.timing import Pauses, Timing

_log = logging.getLogger(__name__)

_FACT = "menu"
_TRIES = 5
_LONGEST = 256


async def offer(line: Line, host: Host, me: Me, token: str, timing: Timing) -> None:
    """Never raises: a bot without a menu works all the same."""
    items = [(item.name, item.description[:_LONGEST] or item.name) for item in host.menu]
    mark = hashlib.sha256(json.dumps([me.id, items]).encode()).hexdigest()
    try:
        if await host.recall(_FACT) != mark and await _write(line, items, token, timing):
            await host.remember(_FACT, mark)
    except Exception:
        _log.exception("telegram: the menu of commands could not be written")


async def _write(line: Line, items: list[tuple[str, str]], token: str, timing: Timing) -> bool:
    pauses = Pauses(timing)
    for _ in range(_TRIES):
        try:
            with line.calling() as bot:
                return await bot.set_my_commands([BotCommand(*item) for item in items])
        except TelegramError as error:
            _log.warning("telegram: the menu of commands was not written: %s", explain(error, token))
            if isinstance(error, BadRequest):
                break
            await asyncio.sleep(seconds(error) if isinstance(error, RetryAfter) else pauses.next())
    return False
