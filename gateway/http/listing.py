"""The list of sessions: filters, order, and pages by number or by cursor."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web

from gateway.http import views
from gateway.http.errors import BadRequest
from gateway.http.sessions import API, number
from routing.keys import PeerKind
from store.filters import Cursor, Order, SessionFilter
from store.ids import Micros
from store.records import Session, Status

_LIMIT = 20
_MOST = 500
#: Either name for the order of the last activity.
_ORDERS = {"created": Order.CREATED, "updated": Order.UPDATED, "activity": Order.UPDATED}

routes = web.RouteTableDef()
Word = TypeVar("Word", Status, PeerKind)


@routes.get("/api/sessions")
async def listing(request: web.Request) -> web.Response:
    """Newest first. Pages by `offset`, or by `cursor`, whose cost does not grow with the depth."""
    limit, offset = number(request, "limit", _LIMIT, most=_MOST), number(request, "offset", 0)
    order = _order(request)
    after = _cursor(request, order)
    # One more than is shown tells whether there is a next page.
    rows, total = await request.app[API].list_sessions(_filter(request), limit + 1, offset, order=order, after=after)
    return web.json_response(
        {
            "sessions": [views.session(row) for row in rows[:limit]],
            "total": total,
            "limit": limit,
            "offset": offset,
            "nextCursor": _next(rows, limit, order),
        }
    )


def _filter(request: web.Request) -> SessionFilter:
    query = request.query
    kinds = _words(request, "peerKind", PeerKind)
    if len(kinds) > 1:
        raise BadRequest(why="`peerKind` takes one value.")
    return SessionFilter(
        key=query.get("key"),
        agent_id=query.get("agent"),
        channel=query.get("channel"),
        account_id=query.get("account"),
        peer_kind=kinds[0] if kinds else None,
        person=query.get("person"),
        repo_id=query.get("repoId") or None,
        statuses=_words(request, "status", Status),
        created_after=_moment(request, "createdAfter"),
        created_before=_moment(request, "createdBefore"),
        updated_after=_moment(request, "updatedAfter"),
        updated_before=_moment(request, "updatedBefore"),
    )


def _next(rows: list[Session], limit: int, order: Order) -> str | None:
    return str(Cursor.behind(rows[limit - 1], order)) if 0 < limit < len(rows) else None


def _order(request: web.Request) -> Order:
    text = request.query.get("sort", "created")
    if text not in _ORDERS:
        raise BadRequest(why=f"`sort` is created or updated, not {text!r}.")
    return _ORDERS[text]


def _cursor(request: web.Request, order: Order) -> Cursor | None:
    text = request.query.get("cursor")
    if not text:
        return None
    if "offset" in request.query:
        raise BadRequest(why="A page is chosen by `cursor` or by `offset`, not by both.")
    try:
        cursor = Cursor.parse(text)
    except ValueError:
        raise BadRequest(why="`cursor` is the `nextCursor` of an earlier page, and this is none.") from None
    if cursor.order is not order:
        raise BadRequest(why=f"This `cursor` belongs to a list with sort={cursor.order}.")
    return cursor


def _words(request: web.Request, name: str, known: type[Word]) -> tuple[Word, ...]:
    text = request.query.get(name, "")
    try:
        return tuple(known(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        words = ", ".join(known)
        raise BadRequest(why=f"`{name}` takes {words}, separated by commas, not {text!r}.") from None


def _moment(request: web.Request, name: str) -> Micros | None:
    text = request.query.get(name)
    if not text:
        return None
    try:
        return views.parse_time(text)
    except (ValueError, OverflowError):
        raise BadRequest(why=f"`{name}` is a time such as 2026-01-31T12:00:00Z, not {text!r}.") from None
