"""An answer while it grows: one row that is refreshed, tool calls and plans as rows of their own."""

from __future__ import annotations

import asyncio
from types import TracebackType

from gateway.agents.protocol import Notice, Permission, PlanUpdate, TextDelta, Thought, ToolUpdate
from gateway.clock import Clock
from gateway.feed import Feed
from gateway.persist import Persist
from gateway.presence import Presence
from gateway.questions.desk import Asking
from routing.errors import StoreUnavailable, TurnEnded, UnknownSession, UnknownTurn
from store import turns
from store.content import Content, Plan, Text, Tool
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

    def last_message(self, usage: Usage) -> NewMessage | None:
        """What is left to store at the end: the text after the last tool call."""
        text = "".join(self._pieces)
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
            case PlanUpdate(steps):
                self._plan = await self._write(self._plan, Role.SYSTEM, Plan(steps))
            case ToolUpdate(call_id, tool, args, result):
                await self._close_text()
                row = self._tools.get(call_id)
                self._tools[call_id] = await self._write(row, Role.SYSTEM, Tool(tool, args, result), call_id)
            case Notice(text):
                await self._write(None, Role.SYSTEM, Text(text))
            case Permission():
                await self._ask(event)

    async def _ask(self, permission: Permission) -> None:
        if self.asking is None:
            permission.answer.set_result(None)
        else:
            self.asking.ask(permission)

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
        self._presence.show(self.text)
