"""Files that came with messages, from Discord's own hosts only."""

from __future__ import annotations

import asyncio

import aiohttp
import yarl

from channels.discord.failures import translate
from routing.errors import DeliveryFailed
from routing.messages import Attachment

_HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})


async def fetch(attachment: Attachment, limit: int, *, base_url: str | None, seconds: float) -> bytes:
    url = yarl.URL(attachment.ref)
    if not _is_discord(url, base_url):
        raise DeliveryFailed("the file is not at Discord", retryable=False)
    if attachment.size is not None and attachment.size > limit:
        raise _too_large(limit)
    try:
        async with (
            asyncio.timeout(seconds),
            aiohttp.ClientSession() as session,
            # A redirect would lead out of Discord.
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise DeliveryFailed(f"the file is not there ({response.status})", retryable=response.status >= 500)
            return await _read(response, limit)
    except (aiohttp.ClientError, OSError) as exc:
        raise translate(exc, creates=False) from None


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    found = bytearray()
    async for chunk in response.content.iter_any():
        found += chunk
        if len(found) > limit:
            raise _too_large(limit)
    return bytes(found)


def _is_discord(url: yarl.URL, base_url: str | None) -> bool:
    if not url.is_absolute():
        return False
    if base_url is not None and url.origin() == yarl.URL(base_url).origin():
        return True
    return url.scheme == "https" and url.host in _HOSTS and url.port == 443


def _too_large(limit: int) -> DeliveryFailed:
    return DeliveryFailed(f"the file is larger than {limit} bytes", retryable=False)
