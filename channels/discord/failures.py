"""What can go wrong with a call, as `DeliveryFailed`. What a library says may hold a token: none of it is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import discord

from routing.errors import DeliveryFailed

#: Codes that say: this place is closed to us, until somebody there changes it.
BLOCKED = {
    10003: "the channel does not exist any more",
    10004: "the server does not exist any more, or the bot is no longer in it",
    50001: "the bot has no access to the channel",
    50007: "this person does not take direct messages from the bot",
    50013: "the bot lacks a permission in the channel",
    50083: "the thread is archived and cannot be opened again by the bot",
    50278: "the bot shares no server with this person any more",
    160005: "the thread is locked",
}
_REFUSED = {
    10008: "the message does not exist any more",
    50005: "the message is not the bot's own",
    50006: "an empty message cannot be sent",
    50035: "Discord does not accept the form of the message",
    40005: "the file is too large",
}
#: The message was refused for its form; as a file it may pass.
TOO_LONG = frozenset({50035})
#: The answer to a slash command cannot be given there any more.
EXPIRED = frozenset({10008, 10015, 10062, 50027})

_WRONG_TOKEN_PAUSE = 60.0
_BANNED_PAUSE = 60.0


@asynccontextmanager
async def translated(seconds: float, *, creates: bool) -> AsyncIterator[None]:
    """Ends after `seconds` at the latest. `creates`: done twice it would be seen twice, so an unknown end matters."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except DeliveryFailed:
        raise
    except Exception as exc:
        raise translate(exc, creates=creates) from None


def translate(exc: Exception, *, creates: bool) -> DeliveryFailed:
    match exc:
        case discord.RateLimited():
            return DeliveryFailed("too many requests", retryable=True, retry_after=exc.retry_after)
        case discord.HTTPException():
            return _answered(exc, creates)
        case aiohttp.ClientConnectorError():
            return DeliveryFailed("Discord cannot be reached", retryable=True)
        case TimeoutError():
            return DeliveryFailed("Discord did not answer in time", retryable=True, ambiguous=creates)
        case aiohttp.ClientError() | OSError():
            return DeliveryFailed("the connection to Discord was cut", retryable=True, ambiguous=creates)
        case RuntimeError():
            # aiohttp: the session is closed, because the account is being connected anew.
            return DeliveryFailed("not connected to Discord", retryable=True)
        case _:
            return DeliveryFailed(f"unexpected {type(exc).__name__}", retryable=True, ambiguous=creates)


def _answered(exc: discord.HTTPException, creates: bool) -> DeliveryFailed:
    if exc.status == 429:
        return DeliveryFailed("too many requests", retryable=True, retry_after=_retry_after(exc))
    if exc.status >= 500:
        return DeliveryFailed(f"Discord is in trouble ({exc.status})", retryable=True, ambiguous=creates)
    if exc.status == 401:
        return DeliveryFailed("Discord refuses the token", retryable=True, retry_after=_WRONG_TOKEN_PAUSE)
    if exc.code in _REFUSED:
        return DeliveryFailed(_REFUSED[exc.code], retryable=False)
    blocked = exc.code in BLOCKED or exc.status == 403
    why = BLOCKED.get(exc.code) or f"Discord refused it ({exc.status}, code {exc.code})"
    return DeliveryFailed(why, retryable=False, blocked=blocked)


def _retry_after(exc: discord.HTTPException) -> float:
    """Only a ban by the proxy in front comes here; discord.py handles the others itself."""
    try:
        return max(float(exc.response.headers.get("Retry-After", _BANNED_PAUSE)), 1.0)
    except ValueError:
        return _BANNED_PAUSE
