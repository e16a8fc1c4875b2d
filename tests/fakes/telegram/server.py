"""The server: tokens and methods in the path, faults, limits and a journal of every call."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from tests.fakes.telegram.errors import ApiError
from tests.fakes.telegram.faults import Fault, Faults, Kind
from tests.fakes.telegram.limits import Limits
from tests.fakes.telegram.methods import Methods, read
from tests.fakes.telegram.platform import Platform
from tests.fakes.telegram.world import Bot, Chat, Json

_TOKEN = re.compile(r"\d+:[\w-]{35}")
_LIMITED = {"sendMessage", "sendDocument", "editMessageText"}


@dataclass(slots=True)
class Call:
    """One request; `status` is 0 as long as it waits or if it got no answer."""

    at: float
    bot: Bot
    method: str
    params: Json
    status: int = 0
    description: str = ""
    fault: Kind | None = None
    #: Carried out, whatever the caller learnt of it.
    done: bool = False

    @property
    def chat(self) -> int | None:
        return self.params.get("chat_id")


class FakeTelegram(Platform):
    """`async with FakeTelegram() as telegram:` serves at `telegram.url` until it is left."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()
        self.limits: Limits | None = None
        self.journal: list[Call] = []
        #: While set, requests are taken and never answered, those that wait already among them.
        self.black_hole = False
        self.port = 0
        self._methods = Methods(self)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calls(self, *methods: str, chat: Chat | None = None) -> list[Call]:
        """What was asked, in order."""
        return [
            call
            for call in self.journal
            if (not methods or call.method in methods) and (chat is None or call.chat == chat.id)
        ]

    async def __aenter__(self) -> Self:
        await self.come_up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go_down()

    async def come_up(self) -> None:
        """Listen; after an outage again on the same port."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/bot{token}/{method}", self._serve)
        app.router.add_get("/file/bot{token}/{path:.+}", self._download)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def go_down(self) -> None:
        """Cut every connection and listen no more; what was said stays."""
        if self._runner:
            self.cut_all()
            runner, self._runner = self._runner, None
            await runner.cleanup()

    def cut_all(self) -> None:
        """Reset every connection, those of polls that wait among them."""
        server = self._runner.server if self._runner else None
        for connection in list(server.connections) if server else []:
            if connection.transport:
                connection.transport.abort()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            bot = self._find_bot(request.match_info["token"])
            raw, files = await _body(request)
            params = read(request.match_info["method"], raw)
        except ApiError as why:
            return _refusal(why)
        call = Call(time.monotonic(), bot, request.match_info["method"], params)
        self.journal.append(call)
        self.poke()
        fault = self.faults.next(call.method, params)
        call.fault = fault.kind if fault else None
        return await self._answer(request, call, fault, files)

    async def _answer(
        self, request: web.Request, call: Call, fault: Fault | None, files: Mapping[str, tuple[str, bytes]]
    ) -> web.StreamResponse:
        if early := await self._fail_before(request, fault):
            call.status = early.status
            return early
        try:
            self._limit(call)
            result = await self._methods.call(call.bot, call.method, call.params, files)
        except ApiError as why:
            answer = _refusal(why)
            call.description = why.description
        else:
            call.done = True
            answer = web.json_response({"ok": True, "result": result})
        if fault and fault.kind is Kind.CUT_AFTER:
            _cut(request)
        elif self.black_hole or (fault and fault.kind is Kind.HANG_AFTER):
            await _hang()
        else:
            call.status = answer.status
        self.poke()
        return answer

    async def _fail_before(self, request: web.Request, fault: Fault | None) -> web.Response | None:
        if self.black_hole or (fault and fault.kind is Kind.HANG):
            await _hang()
        match fault:
            case Fault(kind=Kind.CUT_BEFORE):
                _cut(request)
                return web.Response(status=500)
            case Fault(kind=Kind.ERROR):
                return _refusal(ApiError(fault.code, fault.description, fault.parameters))
            case Fault(kind=Kind.HTML):
                page = f"<html><h1>{fault.description}</h1>The URL {request.path} cannot be served.</html>"
                return web.Response(status=fault.code, text=page, content_type="text/html")
        return None

    def _limit(self, call: Call) -> None:
        if self.limits and call.method in _LIMITED and (wait := self.limits.wait(call.params["chat_id"], call.at)):
            raise ApiError(429, f"Too Many Requests: retry after {wait}", {"retry_after": wait})

    async def _download(self, request: web.Request) -> web.StreamResponse:
        try:
            bot = self._find_bot(request.match_info["token"])
        except ApiError as why:
            return _refusal(why)
        path = request.match_info["path"]
        call = Call(time.monotonic(), bot, "file", {"path": path})
        self.journal.append(call)
        fault = self.faults.next("file", {})
        if early := await self._fail_before(request, fault):
            return early
        data = next((data for name, data in self.files.values() if name == path), None)
        return _refusal(ApiError(404, "Not Found")) if data is None else web.Response(body=data)

    def _find_bot(self, token: str) -> Bot:
        if not _TOKEN.fullmatch(token):
            raise ApiError(404, "Not Found")
        if bot := self.find_bot(token):
            return bot
        raise ApiError(401, "Unauthorized")


async def _body(request: web.Request) -> tuple[dict[str, str], dict[str, tuple[str, bytes]]]:
    """Parameters and files; Telegram takes them in every way HTTP has."""
    if request.content_type == "application/json":
        content: Json = await request.json()
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in content.items()}, {}
    raw = {str(k): str(v) for k, v in request.query.items()}
    files: dict[str, tuple[str, bytes]] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            with value.file as file:
                files[name] = (value.filename, file.read())
        else:
            raw[name] = str(value)
    return raw, files


def _refusal(why: ApiError) -> web.Response:
    body: Json = {"ok": False, "error_code": why.code, "description": why.description}
    if why.parameters:
        body["parameters"] = dict(why.parameters)
    return web.json_response(body, status=why.code)


def _cut(request: web.Request) -> None:
    if request.transport:
        request.transport.abort()


async def _hang() -> None:
    """Until the caller goes away, or the server."""
    await asyncio.get_running_loop().create_future()
