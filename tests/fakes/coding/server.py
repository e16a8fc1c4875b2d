"""A model on loopback for coding agents: the Gemini API, and OpenAI's Chat Completions for everybody else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from tests.fakes.coding import gemini
from tests.fakes.coding.brain import Said, Thought, think
from tests.fakes.model import wire
from tests.fakes.model.script import Reply, Tokens


class CodingModel:
    """`async with` runs it; `url` is its root."""

    def __init__(self) -> None:
        #: Every request: its path, and what was said in it.
        self.asked: list[tuple[str, list[Said]]] = []
        #: Set while a slow answer waits, and when an agent hung up on one.
        self.waiting = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> CodingModel:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1beta/models/{model}:streamGenerateContent", self._stream)
        app.router.add_post("/v1beta/models/{model}:generateContent", self._generate)
        app.router.add_post("/v1beta/models/{model}:countTokens", self._count)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        thought = self._think(request, gemini.read(body))
        response = await _events(request)
        for answer in gemini.answers(thought, gemini.shell(body)):
            await response.write(_event(answer))
        if thought.slow:
            await self._hang()
        await response.write(_event(gemini.ending()))
        await response.write_eof()
        return response

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        """What the agent asks for itself, such as who speaks next: never slow, never with a tool."""
        body = await request.json()
        text = think(gemini.read(body)).text
        self.asked.append((request.path, gemini.read(body)))
        schema = body.get("generationConfig", {}).get("responseJsonSchema")
        if schema is not None:
            text = json.dumps({"reasoning": "it is done", "next_speaker": "user"})
        answer = {**next(gemini.answers(Thought(text=text), None)), "usageMetadata": gemini.ending()["usageMetadata"]}
        answer["candidates"][0]["content"]["parts"] = [{"text": text}]
        answer["candidates"][0]["finishReason"] = "STOP"
        return web.json_response(answer)

    async def _count(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"totalTokens": 20})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        said = [_of_chat(message) for message in body["messages"]]
        tool = next((one["function"]["name"] for one in body.get("tools", []) if _is_shell(one)), None)
        thought = self._think(request, said)
        calls: tuple[tuple[str, str, str], ...] = ()
        if thought.command is not None and tool is not None:
            arguments = json.dumps({"command": thought.command, "description": "write a file"})
            calls = ((f"call_{len(self.asked)}", tool, arguments),)
        pieces = (thought.text[:5], thought.text[5:])
        reply = Reply(pieces=pieces, calls=calls, tokens=Tokens(read=20, written=5), gate=asyncio.Event())
        about = {"id": f"answer-{len(self.asked)}", "created": 1_790_000_000, "model": body["model"]}
        response = await _events(request)
        async for event in wire.chat(reply, about):
            if event is not wire.GATE:
                await response.write(event)
            elif thought.slow:
                await self._hang()
        await response.write_eof()
        return response

    def _think(self, request: web.Request, said: list[Said]) -> Thought:
        self.asked.append((request.path, said))
        return think(said)

    async def _hang(self) -> None:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.left.set()
            raise


def _of_chat(message: dict[str, Any]) -> Said:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return Said(message["role"], text, result=message["role"] == "tool")


def _is_shell(tool: dict[str, Any]) -> bool:
    return tool["function"]["name"] in {"bash", "shell", "run_shell_command"}


async def _events(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\r\n\r\n"
