"""A daemon in the test's own loop, an agent that waits to be told, and a client that speaks to the HTTP API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import tomli_w

from channels.base import Channel
from gateway.agents.builtin import BuiltinAgent
from gateway.agents.protocol import Done, Event, TextDelta, TurnContext
from gateway.api import Conversation
from gateway.config import Config, load
from gateway.daemon import Daemon, Running
from store.records import Turn, TurnStatus

TOKEN = "canary-7f3a-of-the-administrator"
AUTH = {"Authorization": f"Bearer {TOKEN}"}

#: Far more than anything here takes; it only keeps a broken test from hanging.
PATIENCE = 20.0

Table = Mapping[str, object]
T = TypeVar("T")


class Puppet:
    """An agent that says what a test puts into `says`, and nothing until then."""

    side_effects = False

    def __init__(self) -> None:
        self.says: asyncio.Queue[Event | Exception] = asyncio.Queue()
        #: One for every run that began.
        self.asked: asyncio.Queue[TurnContext] = asyncio.Queue()

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        self.asked.put_nowait(turn)
        while True:
            said = await self.says.get()
            if isinstance(said, Exception):
                raise said
            yield said
            if isinstance(said, Done):
                return

    async def close(self) -> None: ...

    def say(self, *what: str | Event | Exception) -> None:
        for one in what:
            self.says.put_nowait(TextDelta(one) if isinstance(one, str) else one)

    def answer(self, *pieces: str) -> None:
        """A whole answer, to the end."""
        self.say(*pieces, Done())


def configure(folder: Path, **tables: Table) -> Config:
    """Two agents, `main` that echoes and `puppet`; a table that is given adds to the one here."""
    base: dict[str, Table] = {
        "gateway": {"data_dir": "data", "default_agent": "main", "drain_seconds": 0, "disk_reserve_mb": 0},
        "http": {"listen": "127.0.0.1:0", "admin_token": TOKEN},
        "agents": {"main": {"kind": "builtin"}, "puppet": {"kind": "builtin"}},
        "web": {"main": {}},
    }
    file = folder / "config.toml"
    whole = {name: {**base.get(name, {}), **tables.get(name, {})} for name in {**base, **tables}}
    file.write_text(tomli_w.dumps(whole))
    return load(file, {"HOME": str(folder)})


@dataclass(slots=True)
class Live:
    """A daemon that serves."""

    daemon: Daemon
    running: Running
    puppet: Puppet
    task: asyncio.Task[None]

    async def stop(self) -> None:
        self.daemon.stop()
        async with asyncio.timeout(PATIENCE):
            await self.task

    async def until(self, session_id: str, condition: Callable[[Conversation], bool]) -> Conversation:
        """Wait for a state of a session; looked at whenever it changes."""
        api = self.running.api
        number = (await api.session(session_id)).id
        async with asyncio.timeout(PATIENCE):
            with api.feed.watch(number) as changed:
                while not condition(found := await api.conversation(session_id)):
                    await changed.wait()
                    changed.clear()
                return found

    async def ended(self, session_id: str, count: int = 1) -> list[Turn]:
        """Wait for so many ended turns and none that runs."""
        api = self.running.api
        session = await api.session(session_id)
        async with asyncio.timeout(PATIENCE):
            with api.feed.watch(session.id) as changed:
                while True:
                    turns = await api.turns(session)
                    if len(turns) >= count and all(turn.status is not TurnStatus.PENDING for turn in turns):
                        return turns
                    await changed.wait()
                    changed.clear()


@asynccontextmanager
async def started(config: Config, channels: Sequence[Channel] = ()) -> AsyncIterator[Live]:
    puppet = Puppet()
    agents = {name: puppet if name == "puppet" else BuiltinAgent() for name in config.agents}
    daemon = Daemon(config, agents=agents, channels=channels)
    ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(daemon.run(ready.set_result))
    task.add_done_callback(lambda _: ready.cancel())
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({ready})
    if ready.cancelled():
        await task  # it could not start, and says why
    live = Live(daemon, ready.result(), puppet, task)
    try:
        yield live
    finally:
        await live.stop()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> dict[str, Any]:
        """What went wrong, after a look at the shape that every error has."""
        assert self.status >= 400
        assert self.headers["Content-Type"].startswith("application/json"), self.text
        assert self.json.keys() == {"error"}
        error: dict[str, Any] = self.json["error"]
        assert error.keys() - {"status"} == {"code", "message"}
        assert error["code"].replace("_", "").isalpha()
        assert error["message"].strip()
        return error


@dataclass(slots=True)
class Client:
    """Speaks to the API. `request` is that of an aiohttp client with a base URL."""

    request: Callable[..., Any]
    #: Everything that was ever answered.
    seen: list[Answer] = field(default_factory=list)

    async def ask(self, method: str, path: str, **how: Any) -> Answer:
        async with asyncio.timeout(PATIENCE), self.request(method, path, **how) as response:
            answer = Answer(response.status, response.headers, await response.text())
        self.seen.append(answer)
        return answer

    async def get(self, path: str, **query: str | int) -> Any:
        answer = await self.ask("GET", path, params=query)
        assert answer.status == 200, answer
        return answer.json

    async def post(self, path: str, body: object = None, *, expect: int = 200) -> Any:
        answer = await self.ask("POST", path, json=body) if body is not None else await self.ask("POST", path)
        assert answer.status == expect, answer
        return answer.json

    async def refused(self, status: int, method: str, path: str, **how: Any) -> dict[str, Any]:
        answer = await self.ask(method, path, **how)
        assert answer.status == status, answer
        return answer.error

    async def create(self, agent: str = "main") -> str:
        session = await self.post("/api/sessions", {"agent": agent}, expect=201)
        return str(session["id"])

    async def say(self, session: str, text: str, **more: str) -> str:
        """Prompt, and return the id of the message."""
        answer = await self.post(f"/api/sessions/{session}/prompt", {"text": text, **more}, expect=202)
        return str(answer["messageId"])

    async def messages(self, session: str, **query: str | int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.get(f"/api/sessions/{session}/messages", **query)
        return found


@asynccontextmanager
async def connected(live: Live) -> AsyncIterator[Client]:
    """A client of the daemon's own server, on its real port."""
    async with aiohttp.ClientSession(live.running.url, headers=AUTH) as session:
        yield Client(session.request)


@dataclass(frozen=True, slots=True)
class Sent:
    """One server-sent event."""

    name: str
    data: Any
    id: str | None


async def sent(response: aiohttp.ClientResponse) -> AsyncIterator[Sent]:
    """The events of a stream as a browser reads them, until it ends."""
    fields: dict[str, str] = {}
    async for line in response.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            yield Sent(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))
            fields = {}


async def eventually(look: Callable[[], Awaitable[T]], good: Callable[[T], bool] = bool) -> T:
    """Look until it is so. Each look is a round trip, in which everybody else gets on."""
    async with asyncio.timeout(PATIENCE):
        while not good(found := await look()):
            pass
        return found


def texts(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    return [message["content"]["text"] for message in messages]
