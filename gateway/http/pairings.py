"""For operators: strangers who wrote and wait to be let in."""

from __future__ import annotations

from aiohttp import web

from gateway.http import views
from gateway.http.sessions import API

routes = web.RouteTableDef()


@routes.get("/api/admin/pairings")
async def waiting(request: web.Request) -> web.Response:
    rows = await request.app[API].operations.pairings()
    return web.json_response({"pairings": [views.pairing(row) for row in rows]})


@routes.post("/api/admin/pairings/{code}/approve")
async def approve(request: web.Request) -> web.Response:
    """The person is known from now on; what they wrote first is answered."""
    return web.json_response(views.pairing(await request.app[API].intake.approve(request.match_info["code"])))


@routes.post("/api/admin/pairings/{code}/refuse")
async def refuse(request: web.Request) -> web.Response:
    """The code is worth nothing any more. If they write again they get another."""
    return web.json_response(views.pairing(await request.app[API].operations.refuse(request.match_info["code"])))


@routes.post("/api/admin/people/{person}/revoke")
async def revoke(request: web.Request) -> web.Response:
    """Somebody who was let in is a stranger again; their conversations stay."""
    person = await request.app[API].operations.revoke(request.match_info["person"])
    return web.json_response({"person": person.public_id, "name": person.name, "known": person.known})
