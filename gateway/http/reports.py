"""For operators: search, tokens, people, and how the daemon does."""

from __future__ import annotations

from aiohttp import web

from gateway.http import views
from gateway.http.errors import BadRequest
from gateway.http.sessions import API, number
from store.reports import By

_LONGEST_QUERY = 1000

routes = web.RouteTableDef()


@routes.get("/api/search")
async def search(request: web.Request) -> web.Response:
    """Messages that have all the words of `q`, newest first."""
    query = request.query
    text = query.get("q", "")
    if not text.strip():
        raise BadRequest(why="`q` is missing: say what to look for.")
    if len(text) > _LONGEST_QUERY:
        raise BadRequest(why=f"`q` has more than {_LONGEST_QUERY} characters.")
    limit = number(request, "limit", 20, most=100)
    found = await request.app[API].operations.search(text, query.get("agent"), query.get("session"), limit)
    body = {"query": text, "hits": [views.hit(hit) for hit in found.hits], "limit": limit}
    return web.json_response(body | {"indexing": not found.complete})


@routes.get("/api/admin/usage")
async def usage(request: web.Request) -> web.Response:
    """Tokens and cost of agents, days, people or sessions, from the turns that are there."""
    text = request.query.get("by", "agent")
    if text not in set(By):
        raise BadRequest(why=f"`by` is {', '.join(By)}, not {text!r}.")
    rows, total = await request.app[API].operations.usage(By(text), number(request, "limit", 100, most=10_000))
    body = {"by": text, "rows": [views.usage(row) for row in rows], "total": views.tokens(total)}
    return web.json_response(body)


@routes.get("/api/admin/people")
async def people(request: web.Request) -> web.Response:
    limit, offset = number(request, "limit", 100, most=1000), number(request, "offset", 0)
    rows, total = await request.app[API].operations.people(limit, offset)
    body = {"people": [views.person(row) for row in rows], "total": total, "limit": limit, "offset": offset}
    return web.json_response(body)


@routes.get("/api/admin/status")
async def status(request: web.Request) -> web.Response:
    return web.json_response(views.status(await request.app[API].operations.status()))
