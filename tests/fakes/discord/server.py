"""The server: one port for REST, gateway and files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from aiohttp import web

from tests.fakes.discord.checks import Refused, answer
from tests.fakes.discord.faults import Buckets, Fault, Faults, Kind
from tests.fakes.discord.rest import Rest, a_token
from tests.fakes.discord.world import World

_CUT = (Kind.CUT_BEFORE, Kind.HOLE)


@dataclass(slots=True)
class Call:
    """One request that came; `status` is 0 if it got no answer."""

    at: float
    name: str
    place: str
    body: Any
    bot: str
    status: int = 0


class FakeDiscord(World):
    """`async with FakeDiscord() as discord`. There is one bot, `bot`, from the start; more with `add_bot`."""

    def __init__(self, clock: Callable[[], float] = time.time, *, heartbeat_ms: int = 41_250) -> None:
        super().__init__(clock)
        self.gateway.heartbeat_ms = heartbeat_ms
        self.rest = Rest(self)
        self.faults = Faults()
        self.buckets = Buckets()
        self.journal: list[Call] = []
        self.bot = self.add_bot("Trunkline", a_token())
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        return f"{self.root}/api/v10"

    @property
    def gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/gateway"

    async def start(self) -> None:
        """Serve; after `stop`, on the same port and with everything that was there."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/gateway", self.gateway.serve)
        app.router.add_get("/attachments/{channel}/{file}/{name}", self._file)
        app.router.add_get("/elsewhere/{rest:.*}", self._elsewhere)
        for method, path, name, handler in self.rest.routes():
            app.router.add_route(method, f"/api/v10{path}", self._call(name, handler))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.root = f"http://127.0.0.1:{self._port}"
        self.gateway.url = self.gateway_url

    async def stop(self) -> None:
        self.gateway.abort()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> FakeDiscord:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def outage(self, down: bool) -> None:
        """Every call is cut and nobody can connect, until it is over."""
        self.faults.down = self.gateway.down = down
        if down:
            self.gateway.abort()

    def fail(self, kind: Kind, *calls: str, times: int = 1, **how: Any) -> None:
        """Let the next such calls fail."""
        self.faults.plan.extend([Fault(kind, frozenset(calls), **how)] * times)

    def calls(self, *names: str) -> list[Call]:
        return [call for call in self.journal if not names or call.name in names]

    async def until(self, condition: Callable[[], object], patience: float = 20.0) -> None:
        await self.watch.until(condition, patience)

    def _call(
        self, name: str, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            place = request.match_info.get("channel", "")
            body = await request.text() if request.content_type == "application/json" else None
            call = Call(time.monotonic(), name, place, body, request.headers.get("Authorization", "")[-6:])
            self.journal.append(call)
            self.watch.changed()
            response = await self._play(self.faults.next(name), request, handler, name, place)
            if response is None:
                return await self._cut(request)
            call.status = response.status
            self.watch.changed()
            return response

        return serve

    async def _play(
        self,
        fault: Fault | None,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.Response]],
        name: str,
        place: str,
    ) -> web.Response | None:
        """The answer, or None if the connection is to be cut."""
        kind = fault.kind if fault else None
        if fault is not None and kind in _CUT:
            await self._silence(kind is Kind.HOLE)
            return None
        if fault is not None and kind is Kind.RATE_LIMIT:
            return self._too_many(fault.retry_after, {})
        if fault is not None and kind is Kind.ERROR:
            return answer({"message": "injected", "code": fault.code}, fault.status)
        if fault is not None and kind is Kind.HTML:
            return web.Response(text="<html>bad gateway</html>", content_type="text/html", status=fault.status)
        headers, wait = self.buckets.take(name, place)
        if wait is not None:
            return self._too_many(wait, headers)
        try:
            response = await handler(request)
        except Refused as refused:
            response = answer(refused.body, refused.status)
        response.headers.update(headers)
        if fault is not None and kind in (Kind.CUT_AFTER, Kind.HOLE_AFTER):
            await self._silence(kind is Kind.HOLE_AFTER)
            return None
        if fault is not None and kind is Kind.ERROR_AFTER:
            return answer({"message": "injected", "code": fault.code}, fault.status)
        return response

    async def _silence(self, for_ever: bool) -> None:
        if for_ever:
            await asyncio.get_running_loop().create_future()

    def _too_many(self, wait: float, headers: Any) -> web.Response:
        body = {"message": "You are being rate limited.", "retry_after": wait, "global": False}
        return answer(body, 429, {**headers, "Via": "1.1 google", "Retry-After": f"{wait:.0f}"})

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _file(self, request: web.Request) -> web.StreamResponse:
        channel = self.channels[int(request.match_info["channel"])]
        for message in channel.messages.values():
            for file in (*message.files, *(message.snapshot.files if message.snapshot else ())):
                if str(file.id) == request.match_info["file"]:
                    return web.Response(body=file.content, content_type=file.mime)
        return web.Response(status=404)

    async def _elsewhere(self, request: web.Request) -> web.StreamResponse:
        """A file that sends its reader somewhere else."""
        raise web.HTTPFound("http://127.0.0.1:1/secret")
