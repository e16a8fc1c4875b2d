"""The gateway: sessions that outlive their connections, replay after RESUME, and all that can be wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from tests.fakes.discord.model import Bot
from tests.fakes.discord.watch import Watch

Json = dict[str, Any]

_MESSAGE_CONTENT = 1 << 15


@dataclass(slots=True, eq=False)
class Session:
    id: str
    bot: Bot
    intents: int
    #: Every event that was ever meant for it, with its number.
    events: list[Json] = field(default_factory=list)
    socket: Socket | None = None

    def add(self, name: str, data: Json) -> None:
        event = {"op": 0, "t": name, "s": len(self.events) + 1, "d": self._allowed(name, data)}
        self.events.append(event)
        if self.socket is not None:
            self.socket.send(event)

    def _allowed(self, name: str, data: Json) -> Json:
        """Without the intent the words of others are blank, except in direct messages and when it is mentioned."""
        if self.intents & _MESSAGE_CONTENT or not name.startswith("MESSAGE_") or "guild_id" not in data:
            return data
        mentioned = any(each["id"] == str(self.bot.id) for each in data.get("mentions", ()))
        if mentioned or "author" not in data or data["author"]["id"] == str(self.bot.id):
            return data
        return copy.deepcopy(data) | {"content": "", "attachments": [], "embeds": [], "components": []}


@dataclass(slots=True, eq=False)
class Socket:
    """One connection. What is sent goes out in order, by a task of its own."""

    request: web.Request
    ws: web.WebSocketResponse
    gateway: Gateway
    session: Session | None = None
    frozen: bool = False
    queue: asyncio.Queue[Json | int] = field(default_factory=asyncio.Queue)

    def send(self, what: Json) -> None:
        self.queue.put_nowait(what)

    def close(self, code: int) -> None:
        self.queue.put_nowait(code)

    def abort(self) -> None:
        """Gone without a word: the other side sees 1006."""
        if self.request.transport is not None:
            self.request.transport.abort()

    async def write(self) -> None:
        while True:
            what = await self.queue.get()
            if isinstance(what, int):
                await self.ws.close(code=what)
                return
            if not (self.gateway.mute or self.frozen):
                with contextlib.suppress(ConnectionError):
                    await self.ws.send_str(json.dumps(what))


@dataclass(slots=True)
class Gateway:
    """Serves every bot. The attributes below are for tests to turn."""

    watch: Watch
    bot_of: Callable[[str], Bot | None]
    #: What follows READY: the guilds.
    guilds: Callable[[Bot], Iterable[Json]]
    user: Callable[[Bot], Json]
    url: str = ""
    heartbeat_ms: int = 41_250
    #: Heartbeats get no answer any more; events still come.
    acks: bool = True
    #: Connected, but nothing comes: a zombie.
    mute: bool = False
    #: Close codes (0: INVALID_SESSION, -1: cut) for the next IDENTIFYs and RESUMEs, used up in order.
    refuse_identify: deque[int] = field(default_factory=deque)
    refuse_resume: deque[int] = field(default_factory=deque)
    down: bool = False
    #: New connections open, and nothing comes: see `freeze` for those that are open.
    hole: bool = False
    sessions: dict[str, Session] = field(default_factory=dict)
    sockets: list[Socket] = field(default_factory=list)
    #: Bots by id, one entry for every such packet that came.
    identified: list[int] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    heartbeats: int = 0

    def dispatch(self, bots: Iterable[Bot], name: str, data: Json) -> None:
        wanted = {bot.id for bot in bots}
        for session in self.sessions.values():
            if session.bot.id in wanted:
                session.add(name, data)
        self.watch.changed()

    def connected(self, bot: Bot | None = None) -> list[Session]:
        """The sessions that somebody listens to now."""
        return [each for each in self.sessions.values() if each.socket and bot in (None, each.bot)]

    def reconnect(self) -> None:
        """Ask all to come back and resume."""
        self._each({"op": 7, "d": None})

    def invalidate(self, *, resumable: bool = False) -> None:
        """The sessions end; what was not delivered is lost to them."""
        if not resumable:
            for session in list(self.sessions.values()):
                self.sessions.pop(session.id)
                if session.socket is not None:
                    session.socket.session = None
        self._each({"op": 9, "d": resumable})

    def close(self, code: int) -> None:
        for socket in list(self.sockets):
            socket.close(code)

    def abort(self) -> None:
        for socket in list(self.sockets):
            socket.abort()

    def freeze(self) -> None:
        """The connections that are open now fall into a black hole: nothing comes, nothing is read."""
        for socket in self.sockets:
            socket.frozen = True
            if isinstance(socket.request.transport, asyncio.ReadTransport):
                socket.request.transport.pause_reading()

    def forget_sessions(self) -> None:
        """So that the next RESUME is refused."""
        self.sessions.clear()

    def _each(self, packet: Json) -> None:
        for socket in list(self.sockets):
            socket.send(packet)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(autoping=True)
        if self.down:
            assert request.transport is not None
            request.transport.abort()
            return ws
        await ws.prepare(request)
        socket = Socket(request, ws, self, frozen=self.hole)
        self.sockets.append(socket)
        writer = asyncio.create_task(socket.write())
        socket.send({"op": 10, "d": {"heartbeat_interval": self.heartbeat_ms}})
        try:
            async for packet in ws:
                if packet.type is WSMsgType.TEXT:
                    self._received(socket, json.loads(packet.data))
        finally:
            self._left(socket)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        return ws

    def _left(self, socket: Socket) -> None:
        self.sockets.remove(socket)
        if socket.session is not None and socket.session.socket is socket:
            socket.session.socket = None
        self.watch.changed()

    def _received(self, socket: Socket, packet: Json) -> None:
        match packet["op"]:
            case 1:
                self.heartbeats += 1
                if self.acks:
                    socket.send({"op": 11})
            case 2:
                self._identify(socket, packet["d"])
            case 6:
                self._resume(socket, packet["d"])
        self.watch.changed()

    def _identify(self, socket: Socket, data: Json) -> None:
        bot = self.bot_of(data["token"])
        if bot is None:
            return socket.close(4004)
        self.identified.append(bot.id)
        if self.refuse_identify:
            return self._refuse(socket, self.refuse_identify.popleft())
        if data["intents"] & _MESSAGE_CONTENT and not bot.message_content:
            return socket.close(4014)
        session = Session(f"session-{len(self.identified)}", bot, data["intents"], socket=socket)
        self.sessions[session.id] = session
        socket.session = session
        guilds = list(self.guilds(bot))
        session.add("READY", self._ready(session, guilds))
        for guild in guilds:
            session.add("GUILD_CREATE", guild)
        return None

    def _ready(self, session: Session, guilds: list[Json]) -> Json:
        return {
            "v": 10,
            "user": self.user(session.bot),
            "guilds": [{"id": guild["id"], "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self.url,
            "application": {"id": str(session.bot.application), "flags": 0},
        }

    def _resume(self, socket: Socket, data: Json) -> None:
        session = self.sessions.get(data["session_id"] or "")
        if session is None or self.bot_of(data["token"]) is not session.bot:
            return socket.send({"op": 9, "d": False})
        self.resumed.append(session.bot.id)
        if self.refuse_resume:
            return self._refuse(socket, self.refuse_resume.popleft())
        session.socket = None
        for event in session.events[data["seq"] :]:
            socket.send(event)
        socket.session, session.socket = session, socket
        session.add("RESUMED", {})
        return None

    def _refuse(self, socket: Socket, how: int) -> None:
        if how == 0:
            socket.send({"op": 9, "d": False})
        elif how < 0:
            socket.abort()
        else:
            socket.close(how)
