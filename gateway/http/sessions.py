"""Sessions, prompts and messages: the routes of the session API."""

from __future__ import annotations

import json
from typing import Annotated, TypeVar

from aiohttp import web
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from gateway.api import Api
from gateway.http import views
from gateway.http.errors import BadRequest, problem
from store.content import clean
from store.messages import HistoryOptions
from store.records import Role, Session, Status

API = web.AppKey("api", Api)
#: Whoever has the admin token is the owner.
CALLER = "owner"
_MOST = 500

routes = web.RouteTableDef()
Body = TypeVar("Body", bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


def _readable(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty", "must not be empty")
    return text


#: A text that says something.
Said = Annotated[str, AfterValidator(_readable)]


class CreateSession(Strict):
    agent: str | None = None
    #: Chosen by the client: the same id twice makes one session.
    id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{8,64}$")
    #: Where its agent works; its id or its name. Only for agents that work in a repository.
    repoId: str | None = Field(default=None, min_length=1, max_length=200)
    #: A conversation that outlives the process of its agent, as in a chat.
    lasting: bool = False


class Prompt(Strict):
    text: Said
    #: Chosen by the client: the same id twice makes one turn.
    id: str | None = Field(default=None, min_length=1, max_length=200)


class CommandText(Strict):
    text: Said


class Ending(Strict):
    reason: str | None = Field(default=None, max_length=500)


@routes.post("/api/sessions")
async def create(request: web.Request) -> web.Response:
    body = await read(request, CreateSession)
    session = await request.app[API].create_session(body.agent, CALLER, body.id, body.repoId, lasting=body.lasting)
    return web.json_response(views.session(session), status=201)


@routes.get("/api/sessions/{id}")
async def detail(request: web.Request) -> web.Response:
    api = request.app[API]
    found, rows = await api.whole(request.match_info["id"])
    session = found.session
    repo = None if session.repo_id is None else await api.operations.repositories.named(session.repo_id)
    body = views.session(session) | {
        "repo": None if repo is None else views.repo(repo),
        "messages": views.messages(found.messages, found.waiting, session.public_id),
        "turns": [views.turn(turn, session.public_id) for turn in rows],
    }
    return web.json_response(body)


@routes.post("/api/sessions/{id}/prompt")
async def prompt(request: web.Request) -> web.Response:
    body = await read(request, Prompt)
    session_id = request.match_info["id"]
    accepted = await request.app[API].prompt(session_id, body.text, body.id)
    return web.json_response(views.accepted(accepted, session_id), status=202)


@routes.post("/api/sessions/{id}/command")
async def command(request: web.Request) -> web.Response:
    """What people type as `/status` or `/compact` in a chat; answered at once, and kept nowhere."""
    body = await read(request, CommandText)
    outcome = await request.app[API].command(request.match_info["id"], body.text)
    file = None if outcome.file is None else {"name": outcome.file.name, "content": outcome.file.content}
    return web.json_response({"text": outcome.text, "file": file})


@routes.get("/api/sessions/{id}/messages")
async def messages(request: web.Request) -> web.Response:
    """All, those after a time, or a page before or after a sequence number."""
    api, query = request.app[API], request.query
    session_id = request.match_info["id"]
    if "since" not in query and query.keys() & {"limit", "before", "after"}:
        options = HistoryOptions(
            limit=number(request, "limit", 50, most=_MOST),
            before=number(request, "before") if "before" in query else None,
            after=number(request, "after") if "after" in query else None,
        )
        return web.json_response(views.messages(await api.page(session_id, options), [], session_id))
    found = await api.conversation(session_id, _time(query["since"]) if "since" in query else None)
    return web.json_response(views.messages(found.messages, found.waiting, session_id))


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
    raw = await request.read() or b"{}"
    try:
        return model.model_validate_json(_whole(raw) if b"\\u" in raw else raw)
    except ValidationError as exc:
        raise BadRequest(why=" ".join(_sentence(error) for error in exc.errors())) from None


def _whole(raw: bytes) -> str | bytes:
    """JSON can escape half a surrogate, which no text can hold: it becomes the replacement character."""
    try:
        return clean(json.dumps(json.loads(raw), ensure_ascii=False))
    except (ValueError, RecursionError):
        return raw  # and is refused as it is


def number(request: web.Request, name: str, default: int = 0, *, most: int = 2**31) -> int:
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 11 and int(text) <= most):
        raise BadRequest(why=f"`{name}` is a whole number from 0 to {most}, not {text!r}.")
    return int(text)


def flag(request: web.Request, name: str) -> bool:
    text = request.query.get(name, "false").lower()
    if text not in {"true", "1", "false", "0"}:
        raise BadRequest(why=f"`{name}` is true or false, not {text!r}.")
    return text in {"true", "1"}


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
        return problem(404, "no_answer", f"Turn {row.seq} has no answer: it is {row.status}.")
    return web.Response(text=await api.turn_text(session, row, role))


def _time(text: str) -> int:
    try:
        return views.parse_time(text)
    except (ValueError, OverflowError):
        raise BadRequest(why=f"`since` is a time such as 2026-01-31T12:00:00Z, not {text!r}.") from None


def _sentence(error: ErrorDetails) -> str:
    """One problem of a body, without the input, which may be private."""
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
