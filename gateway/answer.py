"""An answer while it grows: one row that is refreshed, tool calls and plans as rows of their own."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from types import TracebackType

from gateway.agents.protocol import Notice, Permission, PlanUpdate, TextDelta, Thought, ToolStatus, ToolUpdate
from gateway.clock import Clock
from gateway.feed import Feed
from gateway.persist import Persist
from gateway.presence import Presence
from gateway.progress import Progress
from gateway.questions.desk import Asking
from routing.errors import StoreUnavailable, TurnEnded, UnknownSession, UnknownTurn
from store import turns
from store.content import Content, Json, Plan, Text, Tool
from store.database import Database
from store.ids import session_of
from store.records import NewMessage, Role, Usage

#: Least time between two refreshes of the row, in seconds; longer answers are refreshed less often.
_REFRESH = 0.25
_CHARACTERS_PER_SECOND = 40_000


#: The turn was ended, or removed with its session, by somebody else: there is nothing left to answer.
GONE = (TurnEnded, UnknownTurn, UnknownSession)


class Answer:
    """Collects the events of one run. As a context manager it keeps the row fresh while the run lasts."""

    def __init__(
        self, persist: Persist, clock: Clock, feed: Feed, turn: int, presence: Presence, row: int | None
    ) -> None:
        self._persist = persist
        self._clock = clock
        self._feed = feed
        self._turn = turn
        self._presence = presence
        #: The row of the text that grows now; None until it was stored for the first time.
        self.row = row
        #: Estimated tokens that the agent was given, where it reports none itself.
        self.given: int | None = None
        #: Who puts the agent's questions to people.
        self.asking: Asking | None = None
        self.progress = Progress()
        self._closed: list[str] = []
        self._pieces: list[str] = []
        self._stored = ""
        self._plan: int | None = None
        self._tools: dict[str, int] = {}
        self._writing = asyncio.Lock()
        self._grew = asyncio.Event()
        self._ended = False
        self._pause: asyncio.Future[None] | None = None
        self._refresher: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        """The whole answer; text before and after a tool call stays apart."""
        current = "".join(self._pieces)
        return "\n\n".join([*self._closed, current] if current.strip() else self._closed)

    @property
    def begun(self) -> bool:
        """Whether anything of it can have been seen."""
        return bool(self._closed or self._pieces or self._tools) or self._plan is not None

    @property
    def thoughts(self) -> str:
        """Only where people want to know them."""
        return "".join(self._presence.thoughts or ())

    @property
    def final(self) -> str:
        """What people get: the answer, or what was done in its place."""
        return self.text if self.text.strip() else self.progress.in_words or ""

    def last_message(self, usage: Usage) -> NewMessage | None:
        """What is left to store at the end: the text after the last tool call."""
        text = "".join(self._pieces)
        if not self.text.strip() and self.row is None:
            return NewMessage(role=Role.SYSTEM, content=Text(self.final))
        if not text.strip() and self.row is None:
            return None
        return NewMessage(
            role=Role.AGENT,
            content=Text(text, partial=False),
            token_count=None if self._closed else usage.output,
        )

    async def take(self, event: TextDelta | Thought | PlanUpdate | ToolUpdate | Notice | Permission) -> None:
        match event:
            case TextDelta(text):
                self._pieces.append(text)
                self._grew.set()
            case Thought(text):
                self._presence.think(text)
            case PlanUpdate(steps):
                self.progress.planned(event)
                self._plan = await self._write(self._plan, Role.SYSTEM, Plan(steps))
                self._show()
            case ToolUpdate():
                await self._record(event)
                self._show()
            case Notice(text):
                await self._notice(text)
            case Permission():
                await self._ask(event)

    async def _record(self, update: ToolUpdate) -> None:
        """Text before and after a call stays apart; what comes while it runs is not cut by its progress."""
        if self.progress.called(update):
            await self._close_text()
        update = self.progress.call(update.call_id)
        content = Tool(update.tool, update.args, _result(update))
        row = self._tools.get(update.call_id)
        self._tools[update.call_id] = await self._write(row, Role.SYSTEM, content, update.call_id)

    async def _notice(self, text: str) -> None:
        """In the history, and at once as a message of its own."""

        def write(db: Database) -> None:
            now = self._clock.now()
            turns.progress(db, self._turn, None, Role.SYSTEM, Text(text), now)
            self._presence.put_notice(db, text, now)

        async with self._writing:
            await self._persist.must(write)
        self._feed.changed(session_of(self._turn))
        self._presence.spoke()

    async def _ask(self, permission: Permission) -> None:
        """Some agents speak of a call for the first time here."""
        if not self.progress.known(permission.call.call_id):
            await self._record(replace(permission.call, status=ToolStatus.PENDING))
        if self.asking is None:
            permission.answer.set_result(None)
        else:
            self.asking.on_wait, self.asking.on_rejected = self._waits, self._rejected
            self.asking.ask(permission)

    async def _rejected(self, permission: Permission) -> None:
        """Many agents say no more of a call that was rejected."""
        with contextlib.suppress(*GONE):
            await self._record(replace(permission.call, status=ToolStatus.REJECTED))

    def _show(self) -> None:
        """With a line about what is being done, unless the text itself has gone on since."""
        quiet = "".join(self._pieces).strip() and not self.progress.busy
        self._presence.show(self.text, "" if quiet else self.progress.line)

    def _waits(self, waiting: bool) -> None:
        self.progress.waiting = self._presence.waiting = waiting
        if waiting:
            self._presence.spoke()
        if self._presence.visible:  # a message of its own would only repeat the request
            self._show()

    async def __aenter__(self) -> Answer:
        self._refresher = asyncio.create_task(self._refresh(), name="answer")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let a write under way finish rather than cut it: its row must be known for the commit."""
        self._ended = True
        self._grew.set()
        if self._pause is not None:
            self._pause.cancel()
        if self._refresher is not None:
            await asyncio.wait({self._refresher})

    async def _close_text(self) -> None:
        async with self._writing:
            text = "".join(self._pieces)
            if not text.strip():
                return
            await self._persist.must(
                lambda db: turns.progress(
                    db, self._turn, self.row, Role.AGENT, Text(text, partial=False), self._clock.now()
                )
            )
            self._closed.append(text.strip())
            self._pieces.clear()
            self.row = None
            self._stored = ""

    async def _write(self, row: int | None, role: Role, content: Content, call_id: str | None = None) -> int:
        async with self._writing:
            written = await self._persist.must(
                lambda db: turns.progress(db, self._turn, row, role, content, self._clock.now(), tool_call_id=call_id)
            )
        self._feed.changed(session_of(self._turn))
        return written

    async def _refresh(self) -> None:
        while await self._growing():
            await self._wait(max(_REFRESH, len(self.text) / _CHARACTERS_PER_SECOND))
            if self._ended:
                return
            self._grew.clear()
            await self._store()

    async def _growing(self) -> bool:
        await self._grew.wait()
        return not self._ended

    async def _wait(self, seconds: float) -> None:
        self._pause = asyncio.ensure_future(self._clock.sleep(seconds))
        await asyncio.wait({self._pause})

    async def _store(self) -> None:
        async with self._writing:
            text = "".join(self._pieces)
            if not text.strip() or text == self._stored:
                return
            content = Text(text, partial=True)
            try:
                self.row = await self._persist.once(
                    lambda db: turns.progress(db, self._turn, self.row, Role.AGENT, content, self._clock.now())
                )
            except (StoreUnavailable, *GONE):
                return  # the commit decides; a refresh is only a courtesy
            self._stored = text
        self._feed.changed(session_of(self._turn))
        self._show()


def _result(update: ToolUpdate) -> dict[str, Json]:
    """What came of a call, and how far it is; one that is complete needs no word for it."""
    if update.status is ToolStatus.COMPLETED and "status" not in update.result:
        return update.result
    return {**update.result, "status": update.status.value}
