"""Sessions, prompts and messages: the routes of the session API."""

from __future__ import annotations

from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.api import Api
from gateway.http import views
from gateway.http.errors import BadRequest
from store.messages import HistoryOptions
from store.records import Role, Session, Status
from store.sessions import SessionFilter

API = web.AppKey("api", Api)
#: Whoever has the admin token is the owner.
CALLER = "owner"
_LIMIT = 20
_MOST = 500

routes = web.RouteTableDef()
Body = TypeVar("Body", bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CreateSession(Strict):
    agent: str | None = None
    #: Repositories come with the agents that need one; until then only null is taken.
    repoId: None = None


class Prompt(Strict):
    text: str = Field(min_length=1)
    #: Chosen by the client: the same id twice makes one turn.
    id: str | None = Field(default=None, min_length=1, max_length=200)


class Ending(Strict):
    reason: str | None = Field(default=None, max_length=500)


@routes.post("/api/sessions")
async def create(request: web.Request) -> web.Response:
    body = await read(request, CreateSession)
    session = await request.app[API].create_session(body.agent, CALLER)
    return web.json_response(views.session(session), status=201)


@routes.get("/api/sessions")
async def listing(request: web.Request) -> web.Response:
    which = SessionFilter(
        agent_id=request.query.get("agent"),
        channel=request.query.get("channel"),
        statuses=_statuses(request.query.get("status", "")),
        key=request.query.get("key"),
    )
    limit, offset = number(request, "limit", _LIMIT, most=_MOST), number(request, "offset", 0)
    rows, total = await request.app[API].list_sessions(which, limit, offset)
    body = {"sessions": [views.session(row) for row in rows], "total": total, "limit": limit, "offset": offset}
    return web.json_response(body)


@routes.get("/api/sessions/{id}")
async def detail(request: web.Request) -> web.Response:
    api = request.app[API]
    session = await _session(request)
    body = views.session(session) | {
        "repo": None,
        "messages": views.messages(await api.history(session), await api.waiting(session), session.public_id),
        "turns": [views.turn(turn, session.public_id) for turn in await api.turns(session)],
    }
    return web.json_response(body)


@routes.post("/api/sessions/{id}/prompt")
async def prompt(request: web.Request) -> web.Response:
    body = await read(request, Prompt)
    if not body.text.strip():
        raise BadRequest(why="`text` is empty.")
    session_id = request.match_info["id"]
    accepted = await request.app[API].prompt(session_id, body.text, body.id)
    answer = {
        "sessionId": session_id,
        "messageId": accepted.item.message_id,
        "status": "queued",
        "duplicate": accepted.duplicate,
    }
    return web.json_response(answer, status=202)


@routes.get("/api/sessions/{id}/messages")
async def messages(request: web.Request) -> web.Response:
    """All, those after a time, or a page before or after a sequence number."""
    api = request.app[API]
    session = await _session(request)
    since = request.query.get("since")
    waiting = await api.waiting(session)
    if since is not None:
        after = _time(since)
        rows = await api.messages_since(session, after)
        waiting = [item for item in waiting if item.received_at > after]
    elif request.query.keys() & {"limit", "before", "after"}:
        options = HistoryOptions(
            limit=number(request, "limit", 50, most=_MOST),
            before=number(request, "before") if "before" in request.query else None,
            after=number(request, "after") if "after" in request.query else None,
        )
        rows, waiting = await api.history(session, options), []
    else:
        rows = await api.history(session)
    return web.json_response(views.messages(rows, waiting, session.public_id))


@routes.delete("/api/sessions/{id}")
async def cancel(request: web.Request) -> web.Response:
    return await _end(request, Status.CANCELLED, "cancelled by the API")


@routes.post("/api/sessions/{id}/complete")
async def complete(request: web.Request) -> web.Response:
    return await _end(request, Status.COMPLETED, "completed by the API")


@routes.post("/api/sessions/{id}/archive")
async def archive(request: web.Request) -> web.Response:
    return await _end(request, Status.ARCHIVED, "archived by the API")


@routes.post("/api/sessions/{id}/stop")
async def stop(request: web.Request) -> web.Response:
    """Stop the running turn; the session goes on. Stopping when nothing runs is no error."""
    turn = await request.app[API].stop(request.match_info["id"])
    return web.json_response({"stopped": turn is not None, "turn": None if turn is None else turn.public_id})


@routes.get("/api/sessions/{id}/turns")
async def turns(request: web.Request) -> web.Response:
    session = await _session(request)
    rows = await request.app[API].turns(session)
    return web.json_response([views.turn(row, session.public_id) for row in rows])


@routes.get("/api/sessions/{id}/turns/{turn}")
async def turn(request: web.Request) -> web.Response:
    session = await _session(request)
    row = await request.app[API].turn(session, request.match_info["turn"])
    return web.json_response(views.turn(row, session.public_id))


@routes.get("/api/sessions/{id}/turns/{turn}/instruction")
async def instruction(request: web.Request) -> web.Response:
    return await _turn_text(request, Role.USER)


@routes.get("/api/sessions/{id}/turns/{turn}/answer")
async def answer(request: web.Request) -> web.Response:
    return await _turn_text(request, Role.AGENT)


async def read(request: web.Request, model: type[Body]) -> Body:
    """The request's JSON body as a typed value; no body counts as an empty object."""
    raw = await request.read()
    try:
        return model.model_validate_json(raw or b"{}")
    except ValidationError as exc:
        raise BadRequest(why=" ".join(_sentence(error) for error in exc.errors())) from None


def number(request: web.Request, name: str, default: int = 0, *, most: int = 2**31) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= most):
        raise BadRequest(why=f"`{name}` is a whole number from 0 to {most}, not {text!r}.")
    return int(text)


async def _session(request: web.Request) -> Session:
    return await request.app[API].session(request.match_info["id"])


async def _end(request: web.Request, status: Status, reason: str) -> web.Response:
    body = await read(request, Ending)
    session = await request.app[API].end(request.match_info["id"], status, body.reason or reason)
    return web.json_response(views.session(session))


async def _turn_text(request: web.Request, role: Role) -> web.Response:
    api = request.app[API]
    session = await _session(request)
    row = await api.turn(session, request.match_info["turn"])
    if role is Role.AGENT and row.answer_summary is None:
        raise web.HTTPNotFound
    return web.Response(text=await api.turn_text(session, row, role))


def _statuses(text: str) -> tuple[Status, ...]:
    try:
        return tuple(Status(part.strip()) for part in text.split(",") if part.strip())
    except ValueError:
        known = ", ".join(Status)
        raise BadRequest(why=f"`status` takes {known}, separated by commas, not {text!r}.") from None


def _time(text: str) -> int:
    try:
        return views.parse_time(text)
    except (ValueError, OverflowError):
        raise BadRequest(why=f"`since` is a time such as 2026-01-31T12:00:00Z, not {text!r}.") from None


def _sentence(error: object) -> str:
    """One problem of a body, without the input, which may be private."""
    if not isinstance(error, dict):
        return "The body is not valid."
    where = ".".join(str(part) for part in error["loc"])
    match error["type"]:
        case "json_invalid":
            return "The body is not valid JSON."
        case "missing":
            return f"`{where}` is missing."
        case "extra_forbidden":
            return f"`{where}` is not known here."
        case _:
            return f"`{where}`: {error['msg']}." if where else "The body must be a JSON object."
