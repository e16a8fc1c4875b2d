"""The chat page: a few static files, and the exchange of the token for a cookie."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from gateway.http.auth import DOOR
from gateway.logs import Event, log

_STATIC = Path(__file__).with_name("static")
_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: On every answer: nothing is loaded from elsewhere, nothing runs that is not a file of ours.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_WRONG = "<!-- wrong token -->"
_SAY_WRONG = '<p class="problem" role="alert">That is not the token of this daemon. Please paste all of it.</p>'
#: A browser that follows a link from another site sends no strict cookie; a second step from here does.
_STEP = (
    '<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>Trunkline</title>'
    '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">'  # or else browsers ask for one that is not there
)

routes = web.RouteTableDef()


@dataclass(frozen=True, slots=True)
class Asset:
    text: str
    content_type: str
    etag: str


@functools.cache
def assets() -> dict[str, Asset]:
    """The files by name, read once: a name that is not here leads nowhere."""
    return {path.name: _asset(path) for path in _STATIC.iterdir() if path.suffix in _TYPES}


def _asset(path: Path) -> Asset:
    raw = path.read_bytes()
    return Asset(raw.decode(), _TYPES[path.suffix], hashlib.sha256(raw).hexdigest()[:32])


async def harden(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)


@routes.get("/")
async def index(request: web.Request) -> web.Response:
    """The chat; with a token in the address, first the exchange that takes it out of there."""
    door, token = request.app[DOOR], request.query.get("token")
    if token is not None and door.opens(token):
        return _in(request)
    if door.knows(request):
        if token is not None:
            raise web.HTTPSeeOther("/")
        response = _html(assets()["index.html"].text)
        door.let_in(request, response)  # the month begins anew
        return response
    if token is not None:
        return _refuse(request)
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        return _html(_STEP)
    return _html(assets()["login.html"].text)


@routes.post("/login")
async def login(request: web.Request) -> web.Response:
    form = await request.post()
    token = form.get("token")
    if isinstance(token, str) and request.app[DOOR].opens(token):
        return _in(request)
    return _refuse(request)


@routes.get("/login")
async def to_login(request: web.Request) -> web.Response:
    raise web.HTTPSeeOther("/")


@routes.get("/static/{name}")
async def static(request: web.Request) -> web.Response:
    asset = assets().get(request.match_info["name"])
    if asset is None or asset.content_type == "text/html":
        raise web.HTTPNotFound
    headers = {"Cache-Control": "no-cache", "ETag": f'"{asset.etag}"'}
    if any(tag.value in {asset.etag, "*"} for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(text=asset.text, content_type=asset.content_type, charset="utf-8", headers=headers)


def _in(request: web.Request) -> web.Response:
    response = web.Response(status=303, headers={"Location": "/"})
    request.app[DOOR].let_in(request, response)
    return response


def _refuse(request: web.Request) -> web.Response:
    log(Event.HTTP_REFUSED, method=request.method, path=request.path, remote=request.remote)
    return _html(assets()["login.html"].text.replace(_WRONG, _SAY_WRONG), status=403)


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="text/html", charset="utf-8", status=status)
