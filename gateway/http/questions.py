"""What agents ask of people, over HTTP: whoever has the token is the owner and may answer."""

from __future__ import annotations

from aiohttp import web
from pydantic import Field

from gateway.http import views
from gateway.http.errors import BadRequest, problem
from gateway.http.sessions import API, Strict, read
from store.questions import Question

routes = web.RouteTableDef()


class Choice(Strict):
    #: The number of the option, from one.
    option: int = Field(ge=1, le=100)


@routes.get("/api/questions")
async def every(request: web.Request) -> web.Response:
    """All that wait for an answer."""
    found = await request.app[API].questions()
    return web.json_response([_view(question, session) for question, session in found])


@routes.get("/api/sessions/{id}/questions")
async def of_session(request: web.Request) -> web.Response:
    found = await request.app[API].questions(request.match_info["id"])
    return web.json_response([_view(question, session) for question, session in found])


@routes.post("/api/questions/{question}")
async def choose(request: web.Request) -> web.Response:
    """The first answer counts; a later one is told what was decided."""
    body = await read(request, Choice)
    settled = await request.app[API].answer(request.match_info["question"], body.option)
    if settled is None:
        return problem(404, "unknown_question", "There is no such question.")
    if settled.question is not None:
        return web.json_response({"text": settled.verdict.text, "chosen": settled.question.chosen})
    if settled.verdict.over:
        return problem(409, "question_over", settled.verdict.text)
    raise BadRequest(why=settled.verdict.text)


def _view(question: Question, session: str) -> views.Json:
    return {
        "id": question.token,
        "sessionId": session,
        "text": question.text,
        "options": [{"number": at, "label": one.label, "kind": one.kind} for at, one in enumerate(question.options, 1)],
        "expiresAt": views.iso(question.expires_at),
        "createdAt": views.iso(question.created_at),
    }
