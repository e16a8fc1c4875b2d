"""Files of people, into memory and never more than wanted."""

from __future__ import annotations

import httpx
from telegram import Bot

from channels.telegram.line import tls
from channels.telegram.timing import Timing
from routing.errors import DeliveryFailed

_OK = 200


async def fetch(bot: Bot, ref: str, limit: int, timing: Timing) -> bytes:
    """Raises the library's errors too."""
    file = await bot.get_file(ref)
    if (file.file_size or 0) > limit:
        raise _too_large(limit)
    if not file.file_path or not file.file_path.startswith(("http://", "https://")):
        raise DeliveryFailed("the Bot API server keeps its files to itself (local mode)", retryable=False)
    return await _download(file.file_path, limit, timing)


async def _download(url: str, limit: int, timing: Timing) -> bytes:
    """The library would read all there is, however much that is."""
    data = bytearray()
    pause = httpx.Timeout(timing.answer, connect=timing.connect)
    try:
        async with httpx.AsyncClient(verify=tls(), timeout=pause) as client, client.stream("GET", url) as answer:
            if answer.status_code != _OK:
                raise DeliveryFailed(f"Telegram answered {answer.status_code} for a file", retryable=True)
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > limit:
                    raise _too_large(limit)
    except httpx.HTTPError as error:
        # Its text may hold the URL, and with it the token.
        raise DeliveryFailed(f"a file could not be read ({type(error).__name__})", retryable=True) from None
    return bytes(data)


def _too_large(limit: int) -> DeliveryFailed:
    return DeliveryFailed(f"the file is larger than {limit} bytes", retryable=False)
