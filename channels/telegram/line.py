"""The connection of one account: a bot with a pool of its own for polls, so that nothing can stand in their way."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import httpx
from telegram import Bot, Update
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

from channels.telegram.timing import Timing

_log = logging.getLogger(__name__)

#: They print URLs, and with them the token, below WARNING. Above it the library says one thing only: whole updates that
#: it cannot read, with what people wrote.
_TALKATIVE = {"httpx": logging.WARNING, "httpcore": logging.WARNING, "telegram": logging.CRITICAL + 1}
_CONNECTIONS = 32
_TELEGRAM = "https://api.telegram.org"


def hush() -> None:
    """Nobody logs a URL from now on."""
    for name, level in _TALKATIVE.items():
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, level))


class Line:
    """Open until `close`; `sender` and `poller` are the two pools."""

    def __init__(self, token: str, base_url: str | None, timing: Timing) -> None:
        hush()
        self._timing = timing
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.sender = _request(_CONNECTIONS, timing)
        self.poller = _request(1, timing)
        root = (base_url or _TELEGRAM).rstrip("/")
        self.bot = Bot(token, f"{root}/bot", f"{root}/file/bot", self.sender, self.poller)

    async def poll(self, offset: int | None, seconds: float, kinds: list[str]) -> tuple[Update, ...]:
        """One long poll. The time for an answer is limited here too: a server that trickles resets the library's."""
        patience = self._timing.connect + seconds + self._timing.answer
        async with asyncio.timeout(patience):
            # The library adds the seconds of the poll to the time for the answer.
            return await self.bot.get_updates(offset=offset, timeout=int(seconds), allowed_updates=kinds)

    async def renew(self) -> None:
        """A fresh pool for polls: one whose connection hangs would be silent for ever."""
        await self.poller.shutdown()
        await self.poller.initialize()

    @contextmanager
    def calling(self) -> Iterator[Bot]:
        """A call is under way; `close` gives it a moment to end."""
        self._calls += 1
        self._idle.clear()
        try:
            yield self.bot
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def close(self) -> None:
        try:
            await self.poller.shutdown()
            async with asyncio.timeout(self._timing.farewell):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("telegram: calls under way are cut off")
        finally:
            await self.sender.shutdown()


class _Request(HTTPXRequest):
    """The library's, but an update that it cannot read costs one message, not all that follow; and it logs no pages."""

    #: Set after an answer could not be read: the next one is looked at piece by piece.
    careful = False

    def parse_json_payload(self, payload: bytes) -> dict[str, Any]:  # type: ignore[override]
        try:
            answer = json.loads(payload.decode("utf-8", "replace"))
        except ValueError as why:
            raise TelegramError("Invalid server response") from why
        if not isinstance(answer, dict) or (answer.get("ok") and "result" not in answer):
            raise TelegramError("Invalid server response")
        if self.careful and isinstance(answer.get("result"), list):
            answer["result"] = [_readable(one) for one in answer["result"]]
        return answer


def _readable(update: dict[str, Any]) -> dict[str, Any]:
    try:
        Update.de_json(update, None)
    except Exception:
        _log.exception("telegram: update %s cannot be read and is left out", update["update_id"])
        return {"update_id": update["update_id"]}
    return update


def _request(connections: int, timing: Timing) -> _Request:
    return _Request(
        connections,
        read_timeout=timing.answer,
        write_timeout=timing.answer,
        connect_timeout=timing.connect,
        pool_timeout=timing.connect,
        media_write_timeout=timing.upload,
        # One TLS context for all: each costs a megabyte and tens of milliseconds.
        httpx_kwargs={"verify": tls()},
    )


@lru_cache(1)
def tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()
