"""Exceptions of the library → ours, in plain words and without the token, which is part of every URL."""

from __future__ import annotations

from datetime import timedelta

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from routing.errors import DeliveryFailed

#: The request never left: nothing can have been sent.
_UNSENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    RuntimeError,  # the client is closed
)
#: Refusals (400) after which the chat is closed to us. In lower case: the library changes the case.
_CLOSED = (
    "chat not found",
    "peer_id_invalid",
    "user not found",
    "user_is_blocked",
    "user is deactivated",
    "chat_write_forbidden",
    "chat_restricted",
    "not enough rights to send",
    "have no rights to send",
    "need administrator rights",
)
_MARKUP = ("can't parse", "entity", "entities")
_THREAD_GONE = ("message thread not found", "topic_deleted", "topic_id_invalid")
_TOO_LONG = ("message is too long", "message_too_long")
_UNCHANGED = "message is not modified"
#: How long a send waits before it asks again whether the token is known.
_TOKEN_PAUSE = 60.0
_HIDDEN = "<token>"


def scrub(text: str, token: str) -> str:
    """The text without the token; what stands behind its colon is looked for alone, for a URL may spell that one."""
    secret = token.rpartition(":")[2]
    return text.replace(token, _HIDDEN).replace(secret, _HIDDEN) if secret else text


def translate(error: TelegramError, token: str, *, repeatable: bool = False) -> DeliveryFailed:
    """What a failed call means. `repeatable`: doing it twice is the same as once, so nothing is uncertain."""
    why = explain(error, token)
    match error:
        case RetryAfter():
            return DeliveryFailed(why, retryable=True, retry_after=seconds(error))
        case ChatMigrated():
            # A message of the old chat cannot be changed in the new one, where its id is another message's.
            return DeliveryFailed(why, retryable=not repeatable, retry_after=0.0)
        case Forbidden():
            return DeliveryFailed(why, retryable=False, blocked=True)
        case BadRequest():
            return DeliveryFailed(why, retryable=False, blocked=_says(error, _CLOSED))
        case InvalidToken():
            return DeliveryFailed(why, retryable=True, retry_after=_TOKEN_PAUSE)
        case NetworkError() if _too_large(error):
            return DeliveryFailed(why, retryable=False)
    return DeliveryFailed(why, retryable=True, ambiguous=not repeatable and not unsent(error))


def explain(error: Exception, token: str) -> str:
    """A sentence for operators."""
    match error:
        case RetryAfter():
            return f"Telegram wants a pause of {seconds(error):g} s"
        case InvalidToken():
            return f"Telegram refused the token ({_said(error, token)}): check the account's token and base_url"
        case BadRequest() | Forbidden() | ChatMigrated() | Conflict():
            return f"Telegram refused: {_said(error, token)}"
        case NetworkError() if _too_large(error):
            return "Telegram refused: too large"
        case TelegramError() if unsent(error):
            return f"cannot reach Telegram ({_cause(error)})"
        case TimedOut() | TimeoutError():
            return "Telegram did not answer in time"
        case NetworkError() if isinstance(error.__cause__, httpx.HTTPError):
            return f"the connection to Telegram broke ({_cause(error)})"
        case NetworkError():
            # A server error. What follows the first sentence may be a whole page that repeats the URL.
            return f"Telegram is in trouble: {_said(error, token).partition('. ')[0]}"
    return f"Telegram's answer cannot be understood ({_cause(error)})"


def seconds(error: RetryAfter) -> float:
    wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def unsent(error: Exception) -> bool:
    return isinstance(error.__cause__, _UNSENT)


def thread_gone(error: BadRequest) -> bool:
    return _says(error, _THREAD_GONE)


def too_long(error: BadRequest) -> bool:
    return _says(error, _TOO_LONG)


def unchanged(error: BadRequest) -> bool:
    return _says(error, (_UNCHANGED,))


def markup_refused(error: BadRequest) -> bool:
    return _says(error, _MARKUP)


def _too_large(error: NetworkError) -> bool:
    return "entity too large" in error.message.lower()


def _says(error: TelegramError, parts: tuple[str, ...]) -> bool:
    said = error.message.lower()
    return any(part in said for part in parts)


def _said(error: TelegramError, token: str) -> str:
    return scrub(error.message, token)[:200]


def _cause(error: Exception) -> str:
    """The kind of the trouble only: its text may hold a URL."""
    return type(error.__cause__ or error).__name__
