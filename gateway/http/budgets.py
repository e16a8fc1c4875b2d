"""For operators: how budgets stand, and more where somebody needs it."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from pydantic import Field

from gateway.allowing import Allowance
from gateway.budgets import MILLION
from gateway.http import views
from gateway.http.sessions import API, Said, Strict, read

routes = web.RouteTableDef()


class More(Strict):
    tokens: Annotated[int, Field(ge=0, le=10**15)] = 0
    #: US dollars.
    money: Annotated[float, Field(ge=0, le=1_000_000_000)] = 0.0
    person: Said | None = None
    agent: Said | None = None
    chat: Said | None = None


@routes.get("/api/admin/budgets")
async def standings(request: web.Request) -> web.Response:
    """Each budget for everybody who spent something in its day or month."""
    rows = await request.app[API].operations.budgets()
    return web.json_response({"budgets": [views.standing(row) for row in rows]})


@routes.post("/api/admin/budgets/{name}/allow")
async def allow(request: web.Request) -> web.Response:
    """More than the budget has, until its day or month is over."""
    more = await read(request, More)
    allowance = Allowance(
        tokens=more.tokens, cost=round(more.money * MILLION), person=more.person, agent=more.agent, chat=more.chat
    )
    row = await request.app[API].operations.allow(request.match_info["name"], allowance)
    return web.json_response(views.standing(row))
