"""A whole daemon inside the test: real store, turns and HTTP; the clock, the agents and the chat are the test's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli_w

from channels.base import Channel, Outgoing, Pace
from channels.memory import MemoryChannel
from gateway.agents.protocol import Agent
from gateway.clock import Clock
from gateway.config import Config, load
from gateway.daemon import Daemon, Running
from gateway.logs import Event
from routing.errors import StoreClosed, StoreUnavailable
from routing.keys import PeerKind, SessionKey
from routing.messages import Address, Addressed, Attachment, Deleted, Edited, Inbound, Moved, Sender
from store import compactions, messages, outbox, refusals, sessions, turns
from store.content import Plan, Text, Tool
from store.database import _READERS, Database, Store
from store.outbox import Draft
from store.records import Compaction, Delivery, Message, OutboxKind, Session, Turn
from store.refusals import Refusal
from store.sessions import SessionFilter
from tests.fakes.clock import FakeClock, breathe

T = TypeVar("T")

#: Makes a `Rig`; see the fixture of that name.
Rigs = Callable[..., "Rig"]

#: Groups in which everybody may speak.
GROUPS = ["-100", "-200"]


@dataclass(frozen=True)
class Call:
    """One call to the platform."""

    at: float
    verb: str
    chat: str
    text: str


class Chat(MemoryChannel):
    """The shipped in-memory channel, with a list of the calls it got and when."""

    def __init__(self, clock: Clock, account: str = "main", name: str = "memory") -> None:
        super().__init__(account, name)
        self.log: list[Call] = []
        self._clock = clock

    async def send(self, item: Outgoing) -> str:
        self._note("send", item)
        return await super().send(item)

    async def edit(self, sent_id: str, item: Outgoing) -> None:
        self._note("edit", item)
        await super().edit(sent_id, item)

    def texts(self, chat: str = "1") -> list[str]:
        """What people in a chat see."""
        return [one.text for one in self.shown if one.address.chat == chat]

    def _note(self, verb: str, item: Outgoing) -> None:
        self.log.append(Call(self._clock.monotonic(), verb, item.address.chat, item.text))


class Platform(Chat):
    """A chat with all abilities: it shows typing, paces, and has files. `faults` concern its messages only."""

    def __init__(self, clock: Clock, account: str = "main", name: str = "memory") -> None:
        super().__init__(clock, account, name)
        self.typing_every = 4.0
        #: When somebody was shown that an answer is being written, and where.
        self.typed: list[tuple[float, str]] = []
        #: The next call says so.
        self.typing_error: Exception | None = None
        self.paces = Pace(burst=1000, every=0.001)
        #: What there is to fetch, by handle; an exception is raised.
        self.files: dict[str, bytes | Exception] = {}
        self.fetched: list[str] = []

    async def typing(self, address: Address) -> None:
        self.typed.append((self._clock.monotonic(), address.chat))
        if self.typing_error is not None:
            error, self.typing_error = self.typing_error, None
            raise error

    def pace(self, address: Address) -> Pace:
        return self.paces

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        self.fetched.append(attachment.ref)
        content = self.files[attachment.ref]
        if isinstance(content, Exception):
            raise content
        return content


class Journal(logging.Handler):
    """The daemon's log as a list."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self._logger = logging.getLogger("trunkline")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), getattr(record, "fields", {})))

    def of(self, event: Event) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == event]

    def open(self) -> None:
        self._before = self._logger.level
        self._logger.setLevel(logging.DEBUG)
        self._logger.addHandler(self)

    def close(self) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._before)
        super().close()


class Rig:
    """A data directory, a configuration, and the daemon that runs on them; it can be stopped and started again."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        agents: Mapping[str, Agent] | None = None,
        *,
        clock: Clock | None = None,
        tables: Mapping[str, Any],
    ) -> None:
        self.folder = folder
        self.journal = journal
        self.agents = agents
        self.clock = FakeClock() if clock is None else clock
        self.chat = Chat(self.clock)
        #: The test's own, beside those of the configuration; changed before the start.
        self.channels: Sequence[Channel] = (self.chat,)
        self.tables = _merged(_defaults(folder, agents), tables)
        self._daemon: Daemon | None = None
        self._task: asyncio.Task[None] | None = None
        self._running: Running | None = None
        self._said = 0
        if isinstance(self.clock, FakeClock):
            self.clock.settle = self.settled

    def on(self, chat: Chat) -> Rig:
        """Everything is said on this chat instead."""
        self.chat = chat
        self.channels = (chat,)
        return self

    # -- its life ------------------------------------------------------------------------------------------------

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    def config(self) -> Config:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "config.toml"
        file.write_text(tomli_w.dumps(self.tables), encoding="utf-8")
        return load(file, {"HOME": str(self.folder)})

    def daemon(self) -> Daemon:
        return Daemon(self.config(), clock=self.clock, agents=self.agents, channels=self.channels)

    async def start(self, **tables: Any) -> Rig:
        """Start the daemon, the first time or again, and wait until it is at rest."""
        self.tables = _merged(self.tables, tables)
        ready: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        self._daemon = self.daemon()
        self._task = asyncio.create_task(self._daemon.run(ready.set_result))
        self._task.add_done_callback(lambda _: None if ready.done() else ready.cancel())
        await asyncio.wait({ready})
        if ready.cancelled():
            await self._task
        self._running = ready.result()
        await asyncio.gather(*(one.started.wait() for one in self.channels if isinstance(one, MemoryChannel)))
        await self.settled()
        return self

    async def stop(self) -> None:
        """Stop as after SIGTERM; time passes as far as it has to."""
        await self.begin_stop()
        await self.stopped()

    async def begin_stop(self) -> None:
        assert self._daemon is not None
        self._daemon.stop()
        await self.settled()

    async def stopped(self) -> None:
        assert self._task is not None
        assert isinstance(self.clock, FakeClock)
        while not self._task.done():
            await self.settled()
            due = self.clock.next_due()
            if due is None:
                await asyncio.wait({self._task})
            else:
                await self.clock.advance(due)
        self._running = None
        await self._task

    async def cut(self) -> None:
        """Stop as after a second signal: nothing is drained. Trouble that the daemon had comes to light."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        self._running = None
        if not self._task.cancelled():
            await self._task

    async def ended(self) -> BaseException:
        """Wait for a daemon that ends by itself; return what ended it."""
        assert self._task is not None
        await asyncio.wait({self._task})
        self._running = None
        ended, self._task = self._task.exception(), None
        assert ended is not None
        return ended

    async def before(self, operation: Callable[[Database], T]) -> T:
        """Write while no daemon runs: the state in which a crash left the file."""
        store = await Store.open(self.data_dir)
        try:
            return await store.write(operation)
        finally:
            await store.close()

    # -- time ----------------------------------------------------------------------------------------------------

    async def settled(self) -> None:
        """Return when nothing moves any more: only time or somebody outside can change anything now."""
        last: tuple[int, ...] = ()
        quiet = 0
        while quiet < 2:
            await breathe()
            now = await self._traces()
            quiet = quiet + 1 if now == last else 0
            last = now

    async def advance(self, seconds: float) -> None:
        assert isinstance(self.clock, FakeClock)
        await self.clock.advance(seconds)

    async def _traces(self) -> tuple[int, ...]:
        """What work leaves behind. Passes through the store's threads, so that work inside them has ended."""
        timers = self.clock.timers if isinstance(self.clock, FakeClock) else 0
        written = 0
        if self._running is not None:
            try:
                with contextlib.suppress(StoreUnavailable):
                    written = await self._running.store.write(lambda db: db.total_changes)
                meet = threading.Barrier(_READERS)
                await asyncio.gather(*(self._running.store.read(lambda _: meet.wait(30)) for _ in range(_READERS)))
            except StoreClosed:
                self._running = None
        return (written, timers, len(self.journal.lines), sum(one.calls for one in self._chats))

    @property
    def _chats(self) -> list[MemoryChannel]:
        return [one for one in self.channels if isinstance(one, MemoryChannel)]

    # -- people --------------------------------------------------------------------------------------------------

    def message(
        self,
        text: str,
        *,
        sender: str = "1",
        chat: str | None = None,
        thread: str | None = None,
        group: bool = False,
        external_id: str | None = None,
        channel: MemoryChannel | None = None,
        addressed: Addressed = Addressed.MENTION,
        reply_to: str | None = None,
        bot: bool = False,
        name: str | None = None,
        **more: Any,
    ) -> Inbound:
        """More of it, such as `attachments` or `open`, as `Inbound` has it."""
        self._said += 1
        via = channel or self.chat
        place = chat or ("-100" if group else sender)
        return Inbound(
            external_id=external_id or f"x{self._said}",
            address=Address(channel=via.name, account=via.account, chat=place, thread=thread, reply_to=reply_to),
            peer_kind=PeerKind.GROUP if group else PeerKind.DM,
            sender=Sender(id=sender, name=f"Person {sender}" if name is None else name, is_bot=bot),
            text=text,
            addressed=addressed,
            **more,
        )

    async def say(self, text: str, **how: Any) -> None:
        """A person writes; returns when the message is safe."""
        via = how.get("channel") or self.chat
        await via.receive(self.message(text, **how))

    async def edit(self, text: str, **how: Any) -> None:
        """A person changes a message, recognised by its `reply_to`."""
        via = how.get("channel") or self.chat
        await via.receive(Edited(message=self.message(text, **how)))
        await self.settled()

    async def delete(self, external_id: str) -> None:
        await self.chat.receive(Deleted(channel=self.chat.name, external_id=external_id))
        await self.settled()

    async def move(self, old: str, new: str) -> None:
        """A group gets another id."""
        await self.chat.receive(Moved(channel=self.chat.name, account=self.chat.account, old=old, new=new))
        await self.settled()

    async def ask(self, text: str, **how: Any) -> None:
        """A person writes, and everything comes of it that can without time."""
        await self.say(text, **how)
        await self.settled()

    # -- what is to see ------------------------------------------------------------------------------------------

    @property
    def running(self) -> Running:
        assert self._running is not None
        return self._running

    async def read(self, operation: Callable[[Database], T]) -> T:
        return await self.running.store.read(operation)

    async def write(self, operation: Callable[[Database], T]) -> T:
        return await self.running.store.write(operation)

    async def sessions(self) -> list[Session]:
        """All, oldest first."""
        return (await self.read(lambda db: sessions.list_all(db, SessionFilter(), 1000)))[0][::-1]

    async def session(self) -> Session:
        [session] = await self.sessions()
        return session

    async def live(self, key: SessionKey) -> Session:
        session = await self.read(lambda db: sessions.live(db, key))
        assert session is not None
        return session

    async def history(self, session: Session | None = None) -> list[Message]:
        session = session or await self.session()
        return await self.read(lambda db: messages.every(db, session.id))

    async def said(self, session: Session | None = None) -> list[tuple[str, str]]:
        """The history in short: who, what."""
        return [(row.role, in_short(row)) for row in await self.history(session)]

    async def turns(self, session: Session | None = None) -> list[Turn]:
        session = session or await self.session()
        return await self.read(lambda db: turns.of_session(db, session.id))

    async def outbox(self) -> list[Delivery]:
        """Every row, oldest first."""

        def every(db: Database) -> list[Delivery]:
            ids = db.execute("SELECT id FROM outbox ORDER BY id").fetchall()
            return [outbox.get(db, number) for (number,) in ids]

        return await self.read(every)

    async def states(self) -> list[str]:
        return [row.state.value for row in await self.outbox()]

    async def compactions(self, session: Session | None = None) -> list[Compaction]:
        session = session or await self.session()
        return await self.read(lambda db: compactions.of_session(db, session.id))

    async def refusals(self) -> list[Refusal]:
        return await self.read(refusals.newest)


def notice(text: str, chat: str = "1") -> Draft:
    """A message to a chat that belongs to no turn."""
    return Draft(address=Address(channel="memory", account="main", chat=chat), text=text, kind=OutboxKind.NOTICE)


def in_short(message: Message) -> str:
    match message.content:
        case Text(text, True):
            return f"{text}…"
        case Text(text, _):
            return text
        case Tool(tool, _, result):
            return f"{tool}={result}"
        case Plan(steps):
            return f"plan of {len(steps)}"


def _defaults(folder: Path, agents: Mapping[str, Agent] | None) -> dict[str, Any]:
    return {
        "gateway": {"data_dir": str(folder / "data"), "disk_reserve_mb": 0},
        "http": {"listen": "127.0.0.1:0"},
        "memory": {"main": {"dm": "open", "groups": GROUPS, "streaming": False}},
        "agents": {name: {"kind": "builtin"} for name in agents or ()},
    }


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    both = {**old, **new}
    for name in old.keys() & new.keys():
        if isinstance(old[name], Mapping) and isinstance(new[name], Mapping):
            both[name] = _merged(old[name], new[name])
    return both
