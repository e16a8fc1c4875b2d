"""Server-sent events of a session. The rows are the truth: each wake-up reads what changed since the last."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from gateway.http import views
from gateway.http.errors import BadRequest
from gateway.http.sessions import API
from store.ids import Micros

#: Set when the daemon stops, so that open streams end at once.
STOPPING = web.AppKey("stopping", asyncio.Event)
_KEEP_ALIVE = 15.0

routes = web.RouteTableDef()


@routes.get("/api/sessions/{id}/events", allow_head=False)
async def events(request: web.Request) -> web.StreamResponse:
    """`message` and `turn` events; `Last-Event-ID` (or `?since=`) continues where a stream broke off."""
    api = request.app[API]
    session = await api.session(request.match_info["id"])
    since = _since(request, session.updated_at)
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    )
    await response.prepare(request)
    stopping = request.app[STOPPING]
    with api.feed.watch(session.id) as changed:
        changed.set()
        last = False
        while not last:
            woken = await _wait(changed, stopping)
            # Noted before the look, so that what was there at the end is still told.
            last = stopping.is_set()
            if not woken:
                await response.write(b": still here\n\n")
                continue
            changed.clear()
            changes = await api.changes(session, since)
            lines = [("message", views.message(row, session.public_id)) for row in changes.messages]
            lines += [("turn", views.turn(row, session.public_id)) for row in changes.turns]
            since = changes.until
            if lines:
                await response.write(_encode(lines, since))
    return response


async def _wait(changed: asyncio.Event, stopping: asyncio.Event) -> bool:
    """True when something changed (or the daemon stops), false when it is time for a sign of life."""
    waits = {asyncio.ensure_future(changed.wait()), asyncio.ensure_future(stopping.wait())}
    try:
        done, _ = await asyncio.wait(waits, timeout=_KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
    return bool(done)


def _encode(lines: list[tuple[str, views.Json]], until: Micros) -> bytes:
    """The id stands on the last event only: a stream that breaks within a batch gets the batch again."""
    parts = [f"event: {name}\ndata: {json.dumps(data)}\n" for name, data in lines]
    parts[-1] += f"id: {until}\n"
    return ("\n".join(parts) + "\n").encode()


def _since(request: web.Request, default: Micros) -> Micros:
    last = request.headers.get("Last-Event-ID") or request.query.get("since")
    if not last:
        return default
    try:
        return int(last) if last.isascii() and last.isdigit() and len(last) < 18 else views.parse_time(last)
    except (ValueError, OverflowError):
        raise BadRequest(why=f"`since` is a time or the id of an event, not {last!r}.") from None
