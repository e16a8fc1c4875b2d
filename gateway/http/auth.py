"""The door: a bearer token, or the cookie that the page got for it. Else there is only health and the way to log in."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Middleware

from gateway.http.errors import Handler, problem
from gateway.logs import Event, log
from routing.errors import DataDirUnusable

#: Routes that need no token.
OPEN = frozenset({"/healthz", "/readyz", "/", "/login", "/static/{name}"})
TOKEN_FILE = "admin.token"
_MONTH = 30 * 24 * 3600
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?")


def local_token(data_dir: Path) -> str:
    """The token of this installation, made at the first start; only the daemon's user can read it."""
    path = data_dir / TOKEN_FILE
    try:
        token = path.read_text(encoding="utf-8").strip() if path.exists() else ""
        return token or _make(path)
    except OSError as exc:
        why = exc.strerror
    except UnicodeDecodeError:
        why = "it is not text; delete it, and a new one is made"
    raise DataDirUnusable(path=data_dir, why=f"{TOKEN_FILE}: {why}")


def _make(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(f"{token}\n")
    return token


class Door:
    """Who may come in. The cookie is derived from the token: it survives a restart and ends with the token."""

    def __init__(self, token: str, host: str) -> None:
        self._token = token.strip().encode()
        self._cookie = hmac.new(self._token, b"the cookie of the page", hashlib.sha256).hexdigest()
        self._host = host.lower()

    def opens(self, token: str) -> bool:
        return hmac.compare_digest(token.strip().encode(errors="replace"), self._token)

    def knows(self, request: web.Request) -> bool:
        """Whether the browser was let in before."""
        given = request.cookies.get(_cookie_name(request), "")
        return hmac.compare_digest(given.encode(errors="replace"), self._cookie.encode())

    def let_in(self, request: web.Request, response: web.Response) -> None:
        response.set_cookie(
            _cookie_name(request),
            self._cookie,
            max_age=_MONTH,
            path="/",
            httponly=True,
            samesite="Strict",
            secure=request.secure,
        )

    def serves(self, host: str) -> bool:
        """Whether a request may name this host. A name that somebody else made point here is not ours."""
        name, _ = _split(host)
        if name == self._host or name == "localhost" or name.endswith(".localhost"):
            return True
        address, own = _address(name), _address(self._host)
        # Where it listens on every address, each of them is right; only names can be made to lie.
        return address is not None and (address.is_loopback or (own is not None and own.is_unspecified))


DOOR = web.AppKey("door", Door)


def require(door: Door) -> Middleware:
    """A middleware that lets nobody else in."""

    @web.middleware
    async def authorise(request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = _refusal(door, request)
        if refused is None:
            return await handler(request)
        log(Event.HTTP_REFUSED, method=request.method, path=request.path, remote=request.remote)
        return refused

    return authorise


def _refusal(door: Door, request: web.Request) -> web.Response | None:
    if not door.serves(request.headers.get("Host", "")):
        return problem(403, "bad_host", "This server is not known under the name that the request uses.")
    resource = request.match_info.route.resource
    if resource is not None and resource.canonical in OPEN:
        return None
    authorization = request.headers.get("Authorization")
    if authorization is not None:
        kind, _, given = authorization.partition(" ")
        if kind.lower() == "bearer" and door.opens(given):
            return None
    elif door.knows(request):
        if request.method in {"GET", "HEAD"} or _same_origin(request):
            return None
        return problem(403, "bad_origin", "With a cookie, only the page itself may ask for this.")
    response = problem(401, "unauthorized", "A valid token is needed: send it as `Authorization: Bearer TOKEN`.")
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _same_origin(request: web.Request) -> bool:
    origin = request.headers.get("Origin", "").lower()
    scheme, found, host = origin.partition("://")
    return bool(found) and scheme in {"http", "https"} and host == request.headers.get("Host", "").lower()


def _cookie_name(request: web.Request) -> str:
    """With the port, because a browser keeps one jar for all the ports of a host."""
    return f"trunkline-{_split(request.headers.get('Host', ''))[1]}"


def _split(host: str) -> tuple[str, str]:
    """The name and the port of a Host header; neither if it is not one."""
    found = _HOST.fullmatch(host.lower())
    return (found[1] or found[2], found[3] or "80") if found else ("", "")


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
