"""What a chat page asks beyond the session API: who answers here, where a session stands, once more, another title."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from gateway.http import views
from gateway.http.sessions import API, Said, Strict, read
from gateway.version import __version__
from store.sessions import UNSET, SessionPatch

routes = web.RouteTableDef()


class Rerun(Strict):
    #: Unless given, what the turn asked.
    text: Said | None = None
    id: str | None = Field(default=None, min_length=1, max_length=200)


class Change(Strict):
    title: str | None = Field(default=None, max_length=200)


@routes.get("/api/me")
async def me(request: web.Request) -> web.Response:
    api = request.app[API]
    agents = [{"id": name, "name": label} for name, label in api.agents.items()]
    return web.json_response({"version": __version__, "agents": agents, "defaultAgent": api.default_agent})


@routes.get("/api/sessions/{id}/state")
async def state(request: web.Request) -> web.Response:
    """The session, its newest turn, what waits, and the cursor from which its events continue."""
    found = await request.app[API].state(request.match_info["id"])
    session = found.session
    body = {
        "session": views.session(session),
        "turn": None if found.turn is None else views.turn(found.turn, session.public_id),
        "waiting": [views.queued(item, session.public_id) for item in found.waiting],
        "cursor": str(session.updated_at),
    }
    return web.json_response(body)


@routes.patch("/api/sessions/{id}")
async def change(request: web.Request) -> web.Response:
    body = await read(request, Change)
    title = body.title if "title" in body.model_fields_set else UNSET
    session = await request.app[API].patch(request.match_info["id"], SessionPatch(title=title))
    return web.json_response(views.session(session))


@routes.post("/api/sessions/{id}/turns/{turn}/rerun")
async def rerun(request: web.Request) -> web.Response:
    """A new turn that asks the same, or something else instead; the old one stays as it is."""
    body = await read(request, Rerun)
    session_id, turn = request.match_info["id"], request.match_info["turn"]
    accepted = await request.app[API].rerun(session_id, turn, body.text, body.id)
    return web.json_response(views.accepted(accepted, session_id), status=202)


@routes.get("/api/sessions/{id}/compactions")
async def compactions(request: web.Request) -> web.Response:
    """What stood for which part of the history, oldest first; those taken back too."""
    rows = await request.app[API].compactions(request.match_info["id"])
    return web.json_response([views.compaction(row) for row in rows])
