"""Repositories in which agents work: the list, and for operators what changes it."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from gateway.http import views
from gateway.http.sessions import API, Said, Strict, read

routes = web.RouteTableDef()


class NewRepo(Strict):
    #: On the daemon's machine; a relative one starts at the workspace root.
    path: Said = Field(max_length=4096)
    name: Said | None = Field(default=None, max_length=200)


@routes.get("/api/repos")
async def listing(request: web.Request) -> web.Response:
    """Those that sessions can be bound to."""
    rows = await request.app[API].operations.repositories.every()
    return web.json_response({"repos": [views.repo(row) for row in rows]})


@routes.post("/api/admin/repos/scan")
async def scan(request: web.Request) -> web.Response:
    """Look for repositories below the workspace root."""
    done = await request.app[API].operations.repositories.scan()
    return web.json_response({"found": done.found, "new": done.new, "gone": done.gone})


@routes.post("/api/admin/repos")
async def add(request: web.Request) -> web.Response:
    wanted = await read(request, NewRepo)
    row = await request.app[API].operations.repositories.add(wanted.path, wanted.name)
    return web.json_response(views.repo(row), status=201)


@routes.delete("/api/admin/repos/{repo}")
async def remove(request: web.Request) -> web.Response:
    """Take one off the list; its directory is not touched."""
    row = await request.app[API].operations.repositories.remove(request.match_info["repo"])
    return web.json_response(views.repo(row))
