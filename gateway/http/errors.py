"""Every error of the API has one shape: `{"error": {"code", "message", …}}`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from gateway.logs import Event, log
from routing.errors import (
    DiskLow,
    ForbiddenTransition,
    LaneFull,
    SessionEnded,
    Stopping,
    StoreClosed,
    StoreUnavailable,
    TrunklineError,
    UnknownAgent,
    UnknownDelivery,
    UnknownMessage,
    UnknownSession,
    UnknownTurn,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_STATUS: dict[type[TrunklineError], int] = {
    UnknownSession: 404,
    UnknownTurn: 404,
    UnknownMessage: 404,
    UnknownDelivery: 404,
    UnknownAgent: 400,
    SessionEnded: 409,
    ForbiddenTransition: 409,
    LaneFull: 429,
    DiskLow: 503,
    Stopping: 503,
    StoreUnavailable: 503,
    StoreClosed: 503,
}
_RETRY_AFTER = {429: "5", 503: "10"}


class BadRequest(TrunklineError):
    code = "bad_request"
    message = "{why}"


def problem(status: int, code: str, message: str, **more: object) -> web.Response:
    response = web.json_response({"error": {"code": code, "message": message, **more}}, status=status)
    if status in _RETRY_AFTER:
        response.headers["Retry-After"] = _RETRY_AFTER[status]
    return response


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequest as exc:
        return problem(400, exc.code, str(exc))
    except TrunklineError as exc:
        if type(exc) not in _STATUS:
            return _unexpected(request, exc)
        status = getattr(exc, "status", None) or getattr(exc, "old", None)
        more = {"status": status} if status is not None else {}
        return problem(_STATUS[type(exc)], exc.code, str(exc), **more)
    except web.HTTPException as exc:
        if exc.status < 400:
            raise
        return problem(exc.status, exc.reason.lower().replace(" ", "_"), _SENTENCES.get(exc.status, exc.reason))
    except Exception as exc:  # an answer in the right shape, and the details in the log
        return _unexpected(request, exc)


_SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not know that method.",
    413: "The request is too large.",
}


def _unexpected(request: web.Request, exc: Exception) -> web.Response:
    log(Event.HTTP_ERROR, logging.ERROR, exc=exc, method=request.method, path=request.path)
    return problem(500, "internal_error", "Something went wrong on our side; the log has the details.")
