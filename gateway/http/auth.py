"""Bearer tokens. Without one there is nothing to see but whether the daemon lives."""

from __future__ import annotations

import hmac
import os
import secrets
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Middleware

from gateway.http.errors import Handler, problem
from gateway.logs import Event, log
from routing.errors import DataDirUnusable

OPEN = frozenset({"/healthz", "/readyz"})
TOKEN_FILE = "admin.token"


def local_token(data_dir: Path) -> str:
    """The token of this installation, made at the first start; only the daemon's user can read it."""
    path = data_dir / TOKEN_FILE
    try:
        return path.read_text().strip() or _make(path)
    except FileNotFoundError:
        return _make(path)
    except OSError as exc:
        raise DataDirUnusable(path=data_dir, why=f"{TOKEN_FILE}: {exc.strerror}") from exc


def _make(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(f"{token}\n")
    return token


def require(token: str) -> Middleware:
    """A middleware that lets only requests with this token through."""
    expected = token.encode()

    @web.middleware
    async def authorise(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in OPEN:
            return await handler(request)
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(errors="replace"), expected):
            return await handler(request)
        log(Event.HTTP_REFUSED, method=request.method, path=request.path, remote=request.remote)
        response = problem(401, "unauthorized", "A valid token is needed: send it as `Authorization: Bearer TOKEN`.")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    return authorise
