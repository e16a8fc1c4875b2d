"""A server with OpenAI's two APIs on loopback, for what no third-party one does; it keeps a ledger of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from tests.fakes.model import wire
from tests.fakes.model.script import Refuse, Reply, Step, Tokens

CREATED = 1_790_000_000


class FakeModel:
    """Follows its script, one step per request; afterwards it says hello. `async with` runs it."""

    def __init__(self, *steps: Step) -> None:
        self.script = list(steps)
        #: By model, before the script.
        self.scripts: dict[str, list[Step]] = {}
        #: The body of every request, and its headers.
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        #: What was charged, by the id of the answer.
        self.ledger: dict[str, Tokens] = {}
        #: Answers that can be followed.
        self.known: set[str] = set()
        #: As llama.cpp: never follows an answer.
        self.chains = True
        #: Characters of a request beyond which the context is exceeded.
        self.window: int | None = None
        #: More fields of every response.
        self.more: dict[str, Any] = {}
        #: Set when a caller goes away in the middle of an answer.
        self.left = asyncio.Event()
        self.waiting = asyncio.Event()
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeModel:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        body = await self._note(request)
        previous = body.get("previous_response_id")
        if previous is not None and not self.chains:
            return _refusal(Refuse(status=400, message="llama.cpp does not support 'previous_response_id'."))
        if previous is not None and previous not in self.known:
            message = f"Previous response with id '{previous}' not found."
            code = "previous_response_not_found"
            return _refusal(Refuse(status=400, code=code, message=message, param="previous_response_id"))
        return await self._follow(request, body, wire.responses)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._follow(request, await self._note(request), wire.chat)

    async def _note(self, request: web.Request) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        return body

    def _next(self, model: str) -> Step:
        steps = self.scripts.get(model) or self.script
        return steps.pop(0) if steps else Reply()

    async def _follow(self, request: web.Request, body: dict[str, Any], render: wire.Render) -> web.StreamResponse:
        said = json.dumps(body.get("input") or body.get("messages"), ensure_ascii=False)
        if self.window is not None and len(said) > self.window:
            text = "This model's maximum context length is exceeded."
            return _refusal(Refuse(status=400, code="context_length_exceeded", message=text))
        step = self._next(body["model"])
        if isinstance(step, Refuse):
            return _refusal(step)
        answer_id = step.id or f"answer-{len(self.requests)}"
        self.known.add(answer_id)
        if step.tokens is not None:
            # The same id is the same answer, however often it is asked for.
            self.ledger[answer_id] = step.tokens
        about = {"id": answer_id, "created": CREATED, "model": body["model"], **self.more}
        return await self._stream(request, step, render(step, about))

    async def _stream(self, request: web.Request, step: Reply, events: AsyncIterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            async for event in events:
                if event is wire.GATE:
                    self.waiting.set()
                    assert step.gate is not None
                    await step.gate.wait()
                elif event is wire.DROP:
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                else:
                    await response.write(event)
            await response.write_eof()
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return response


def _refusal(step: Refuse) -> web.Response:
    if step.page is not None:
        return web.Response(status=step.status, text=step.page, content_type="text/html", headers=step.headers)
    error = {"message": step.message, "type": step.kind, "param": step.param, "code": step.code}
    return web.json_response({"error": error}, status=step.status, headers=step.headers)
