"""Every error of the API has one shape: `{"error": {"code", "message", …}}`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from gateway.logs import Event, log
from routing.errors import (
    AgentBroke,
    AgentFailed,
    AgentLimit,
    AgentNotInstalled,
    BackupExists,
    BackupRefused,
    BadAllowance,
    BadImport,
    DiskLow,
    ForbiddenTransition,
    LaneFull,
    NoRoom,
    NotARepo,
    NoWorkspace,
    OwnerProtected,
    PathViolation,
    PersonConfigured,
    RepoBound,
    RepoExists,
    RepoNotWanted,
    SearchDisabled,
    SessionEnded,
    SessionExists,
    Stopping,
    StoreClosed,
    StoreUnavailable,
    TrunklineError,
    UnknownAccount,
    UnknownAgent,
    UnknownBudget,
    UnknownCommand,
    UnknownDelivery,
    UnknownMessage,
    UnknownPairing,
    UnknownPerson,
    UnknownRepo,
    UnknownSession,
    UnknownTurn,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: The largest request that is taken, in bytes.
LARGEST = 2**20

_STATUS: dict[type[TrunklineError], int] = {
    UnknownSession: 404,
    UnknownTurn: 404,
    UnknownMessage: 404,
    UnknownDelivery: 404,
    UnknownAccount: 404,
    UnknownPerson: 404,
    UnknownPairing: 404,
    UnknownRepo: 404,
    RepoExists: 409,
    RepoBound: 409,
    NotARepo: 400,
    RepoNotWanted: 400,
    NoWorkspace: 403,
    PathViolation: 403,
    PersonConfigured: 409,
    UnknownAgent: 400,
    UnknownBudget: 404,
    BadAllowance: 400,
    UnknownCommand: 400,
    BadImport: 400,
    BackupRefused: 400,
    BackupExists: 409,
    SessionExists: 409,
    SearchDisabled: 409,
    OwnerProtected: 409,
    NoRoom: 507,
    SessionEnded: 409,
    ForbiddenTransition: 409,
    LaneFull: 429,
    AgentLimit: 429,
    AgentNotInstalled: 503,
    AgentBroke: 502,
    AgentFailed: 502,
    DiskLow: 503,
    Stopping: 503,
    StoreUnavailable: 503,
    StoreClosed: 503,
}
_RETRY_AFTER = {429: "5", 503: "10"}


class BadRequest(TrunklineError):
    code = "bad_request"
    message = "{why}"


def problem(http_status: int, code: str, message: str, /, **more: object) -> web.Response:
    response = web.json_response({"error": {"code": code, "message": message, **more}}, status=http_status)
    if http_status in _RETRY_AFTER:
        response.headers["Retry-After"] = _RETRY_AFTER[http_status]
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
        answer = problem(_STATUS[type(exc)], exc.code, str(exc), **more)
        if isinstance(exc, AgentLimit):
            answer.headers["Retry-After"] = str(exc.retry_after)
        return answer
    except web.HTTPException as exc:
        if exc.status < 400:
            raise
        return _of_library(exc)
    except web.RequestPayloadError:
        return problem(400, BadRequest.code, "The body cannot be decoded.")
    except ConnectionResetError:
        # The client went away, in the middle of its request or of a stream. Nobody reads this.
        return problem(400, BadRequest.code, "The connection was lost.")
    except Exception as exc:  # an answer in the right shape, and the details in the log
        return _unexpected(request, exc)


_SENTENCES = {
    404: "There is nothing at this address.",
    405: "This address does not know that method.",
    413: f"The request is larger than {LARGEST} bytes.",
}


def _of_library(exc: web.HTTPException) -> web.Response:
    """What the server itself refuses: an unknown address or method, a body that is too large."""
    response = problem(exc.status, exc.reason.lower().replace(" ", "_"), _SENTENCES.get(exc.status, exc.reason))
    if "Allow" in exc.headers:
        response.headers["Allow"] = exc.headers["Allow"]
    return response


def _unexpected(request: web.Request, exc: Exception) -> web.Response:
    log(Event.HTTP_ERROR, logging.ERROR, exc=exc, method=request.method, path=request.path)
    return problem(500, "internal_error", "Something went wrong on our side; the log has the details.")
