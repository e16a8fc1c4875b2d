"""One child process with one session of the protocol: its greeting, its turns one after the other, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from acp import PROTOCOL_VERSION, text_block
from acp.exceptions import RequestError
from acp.schema import (
    AgentCapabilities,
    ClientCapabilities,
    Implementation,
    PermissionOption,
    PromptResponse,
    ToolCallUpdate,
)
from pydantic import ValidationError

from gateway import phrases
from gateway.agents.acp import permissions
from gateway.agents.acp.client import connect
from gateway.agents.acp.failures import broken, failed
from gateway.agents.acp.permissions import Verdict
from gateway.agents.acp.process import Process
from gateway.agents.acp.terms import Terms
from gateway.agents.acp.transport import Transport
from gateway.agents.acp.updates import Updates
from gateway.agents.protocol import Event, Notice, Option, OptionKind, Permission, ToolStatus
from gateway.clock import Clock
from gateway.logs import Event as Name
from gateway.logs import log
from gateway.version import __version__
from routing.errors import AgentFailed
from store.content import clean

#: How long a turn may take to end after it was told to, in seconds.
CANCEL_SECONDS = 5.0
#: A write that is not taken for so long has failed, in seconds.
_STUCK = 60.0
#: Events of a turn that may wait before the child has to.
_AHEAD = 512
#: Permissions that may be open at once, and options of each.
_OPEN = 16
_OPTIONS = 10
_NAME = 100
#: After an old session was taken up: nothing has to come for so long, and it is waited for so long at most, in seconds.
QUIET = 1.0
_REPLAY = 15.0
#: Messages of earlier turns that are recognised.
_REMEMBERED = 1000
#: Refused lines that are logged, and characters of each.
_LOGGED = 20
_SHOWN = 300


class _Again:
    """The clock has to be looked at again."""


@dataclass(slots=True)
class _Turn:
    began: float
    updates: Updates = field(default_factory=Updates)
    events: asyncio.Queue[Event | _Again | AgentFailed | None] = field(default_factory=asyncio.Queue)
    #: What people have not decided yet.
    open: set[asyncio.Future[str | None]] = field(default_factory=set)
    warned: bool = False
    #: Answered or given up: what comes now belongs to no turn.
    closed: bool = False


class Conversation:
    """Whoever makes one ends it."""

    def __init__(self, process: Process, terms: Terms, session_id: str, clock: Clock) -> None:
        self.process = process
        self.terms = terms
        self.session_id = session_id
        self._clock = clock
        self._turn: _Turn | None = None
        self._refused = 0
        self._stuck_since: float | None = None
        #: Set when an update comes that belongs to no turn.
        self._stray = asyncio.Event()
        #: Messages of turns that are over; an agent may go on with one in the next.
        self._stale: set[str] = set()
        #: What the agent calls the session.
        self.agent_session = ""
        self.capabilities = AgentCapabilities()
        #: A turn uses it, or it is being cancelled.
        self.busy = False
        #: Its session is one with it: it makes room for nobody.
        self.stays = False
        #: Somebody was told that it was lost.
        self.reported = False
        #: It is meant to end, so its end is nobody's fault.
        self.ending = False
        #: When it was last used, or said something.
        self.used = clock.monotonic()
        #: Why it is of no use any more, once it is not.
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.cancelling: asyncio.Task[bool] | None = None
        self.transport = Transport(
            process, clock, on_update=self._update, on_answer=self._answered, on_refused=self._refuse
        )
        self.connection = connect(self.transport, self._decide)
        self._watching = asyncio.create_task(self._watch(), name="agent process")

    async def greet(self, seconds: float) -> None:
        """Raises AgentFailed if the process does not become an agent of our version in time."""
        try:
            async with self._clock.timeout(seconds):
                told = await self.connection.initialize(
                    protocol_version=PROTOCOL_VERSION,
                    client_capabilities=ClientCapabilities(),
                    client_info=Implementation(name="trunkline", title="Trunkline", version=__version__),
                )
        except (TimeoutError, ConnectionError, RequestError, ValidationError) as error:
            raise await failed(error, self.process, self.terms.name, seconds) from error
        if told.protocol_version != PROTOCOL_VERSION:
            why = phrases.ACP_VERSION.format(name=self.terms.name, version=told.protocol_version)
            raise AgentFailed(why, detail=f"it speaks version {told.protocol_version}, not {PROTOCOL_VERSION}")
        self.capabilities = told.agent_capabilities or AgentCapabilities()

    async def quiet(self) -> None:
        """Wait for the end of a replay: some agents answer first and replay then, and it would end in the next turn.

        In real time, because it is about what is on its way in a pipe.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REPLAY):
                while True:
                    self._stray.clear()
                    try:
                        async with asyncio.timeout(QUIET):
                            await self._stray.wait()
                    except TimeoutError:
                        return

    # -- a turn --------------------------------------------------------------------------------------------------

    async def prompt(self, texts: Sequence[str]) -> AsyncGenerator[Event | PromptResponse, None]:
        """Ask, and yield what comes, the response last. If this is left before it, the turn is cancelled behind it."""
        turn = self._turn = _Turn(self._clock.monotonic(), Updates(self._stale))
        self.used = turn.began
        blocks = [text_block(text) for text in texts]
        asked = asyncio.create_task(self.connection.prompt(session_id=self.agent_session, prompt=blocks))
        asked.add_done_callback(lambda _: turn.events.put_nowait(None))
        try:
            while (event := await self._next(turn)) is not None:
                yield event
            response = await self._outcome(asked)
            for call in turn.updates.open():
                # The turn is over, so nothing of it is under way.
                for event in turn.updates.settle(call.call_id, ToolStatus.CANCELLED):
                    yield event
            yield response
        finally:
            self._close(turn)
            if not asked.done():
                self.cancelling = asyncio.create_task(self._cancel(asked), name="cancel a turn")
            elif not asked.cancelled():
                asked.exception()

    @property
    def said(self) -> bool:
        return self._turn is not None and self._turn.updates.said

    @property
    def worked(self) -> bool:
        """Whether it used a tool in the last turn."""
        return self._turn is not None and self._turn.updates.worked

    @property
    def rejected(self) -> bool:
        return self._turn is not None and self._turn.updates.rejected

    def _close(self, turn: _Turn) -> None:
        """Nothing that comes now belongs to the turn, and what it waits for is not decided any more."""
        turn.closed = True
        self._stale = turn.updates.messages | (self._stale if len(self._stale) < _REMEMBERED else set())
        self.transport.room.set()
        for answer in turn.open:
            answer.cancel()
        self.used = self._clock.monotonic()

    async def _next(self, turn: _Turn) -> Event | None:
        while True:
            waits = contextlib.nullcontext() if turn.warned or turn.open else self._clock.timeout(self._patience(turn))
            try:
                async with waits:
                    event = await turn.events.get()
            except TimeoutError:
                if turn.open or self._patience(turn) > 0:
                    continue
                turn.warned = True
                seconds = self.terms.silence
                log(Name.AGENT_SILENT, logging.WARNING, session=self.session_id, pid=self.process.pid, seconds=seconds)
                return Notice(phrases.ACP_SILENT.format(seconds=seconds))
            if turn.events.qsize() < _AHEAD // 2:
                self.transport.room.set()
            if isinstance(event, AgentFailed):
                raise event
            if not isinstance(event, _Again):
                return event

    def _patience(self, turn: _Turn) -> float:
        """Seconds until somebody has to be told that nothing comes."""
        return max(turn.began, self.transport.heard) + self.terms.silence - self._clock.monotonic()

    async def _outcome(self, asked: asyncio.Task[PromptResponse]) -> PromptResponse:
        try:
            return await asked
        except ConnectionError as error:
            self.lose(str(error))
            raise await broken(self.process, self.lost.result(), self.terms) from error
        except ValidationError as error:
            # It did answer, if not in words that we know.
            log(Name.AGENT_LINE_REFUSED, logging.WARNING, session=self.session_id, why=f"odd answer: {error.title}")
            return PromptResponse(stop_reason="end_turn", field_meta={"odd": True})
        except RequestError as error:
            raise await failed(error, self.process, self.terms.name, 0) from error

    async def _cancel(self, asked: asyncio.Task[PromptResponse]) -> bool:
        """Tell the agent to stop; whether it did so in time."""
        log(Name.AGENT_CANCELLED, session=self.session_id, pid=self.process.pid)
        try:
            async with self._clock.timeout(CANCEL_SECONDS):
                await self.connection.cancel(session_id=self.agent_session)
                await asyncio.wait({asked})
        except (TimeoutError, ConnectionError):
            pass
        stopped = asked.done() and not isinstance(asked.exception(), ConnectionError)
        if not asked.done():
            asked.cancel()
        self.used = self._clock.monotonic()
        return stopped

    # -- what comes from the child -------------------------------------------------------------------------------

    def _update(self, params: dict[str, Any]) -> None:
        self.used = self._clock.monotonic()
        turn = self._turn
        if turn is None or turn.closed:
            self._stray.set()  # replayed, or late
            return
        if params.get("sessionId") != self.agent_session:
            self._refuse("an update of another session", b"")
            return
        try:
            for event in turn.updates.read(params):
                self._put(turn, event)
        except ValidationError:
            self._refuse("an update that is not known", str(params.get("update")).encode(errors="replace"))

    def _put(self, turn: _Turn, event: Event) -> None:
        turn.events.put_nowait(event)
        if turn.events.qsize() > _AHEAD and not turn.closed:
            self.transport.room.clear()

    def _answered(self) -> None:
        """What comes after the answer to a prompt is not part of it."""
        if self._turn is not None:
            self._turn.closed = True

    def _refuse(self, why: str, line: bytes) -> None:
        self._refused += 1
        if self._refused <= _LOGGED:
            text = self.terms.redact(line[:_SHOWN].decode(errors="replace"))
            log(Name.AGENT_LINE_REFUSED, logging.WARNING, session=self.session_id, why=why, line=text)
        if why == "too long" and self._turn is not None and not self._turn.closed:
            # Perhaps it was the answer itself, for which the turn would wait in vain.
            self._turn.events.put_nowait(AgentFailed(phrases.ACP_TOO_LONG, detail="a line was too long"))

    async def _decide(self, asked: ToolCallUpdate, options: list[PermissionOption]) -> str | None:
        turn = self._turn
        if turn is None or turn.closed:
            return None
        for event in turn.updates.tool(asked):
            self._put(turn, event)
        call = turn.updates.call(asked)
        offered = _offered(options)
        verdict = permissions.judge(self.terms.mode, call, self.terms.repo)
        if verdict is Verdict.ASK and len(turn.open) < _OPEN:
            chosen = await self._ask(turn, Permission(call, offered, asyncio.get_running_loop().create_future()))
        elif verdict is Verdict.ALLOW:
            chosen = permissions.allowing(offered)
        else:
            chosen = permissions.rejecting(offered)
            if verdict is Verdict.OUTSIDE:
                self._put(turn, Notice(phrases.ACP_OUTSIDE.format(tool=call.tool)))
        log(Name.AGENT_PERMISSION, session=self.session_id, tool=call.tool, verdict=verdict, chosen=chosen)
        if permissions.rejects(offered, chosen):
            for event in turn.updates.settle(call.call_id, ToolStatus.REJECTED):
                self._put(turn, event)
        return chosen

    async def _ask(self, turn: _Turn, question: Permission) -> str | None:
        """Wait for a person; the agent's clock stands still meanwhile."""
        turn.open.add(question.answer)
        self._put(turn, question)
        try:
            await asyncio.wait({question.answer})
        finally:
            turn.open.discard(question.answer)
            self.transport.heard = self.used = self._clock.monotonic()
            turn.events.put_nowait(_Again())
        if question.answer.cancelled():
            return None
        chosen = question.answer.result()
        known = {one.id for one in question.options}
        return chosen if chosen in known else permissions.rejecting(question.options)

    # -- its end -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The heartbeat: the protocol has none, so what can be seen from outside has to do."""
        if self.process.vanished:
            self.lose("the process is gone")
        elif not self.process.unsent:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = self._clock.monotonic()
        elif self._clock.monotonic() - self._stuck_since >= _STUCK:
            self.lose(f"it has read nothing for {_STUCK:g} seconds (writing)")

    def lose(self, reason: str) -> None:
        if not self.lost.done():
            self.lost.set_result(reason)

    async def _watch(self) -> None:
        """Until the process has ended or says nothing more."""
        silent = asyncio.create_task(self.transport.silent.wait())
        ends: set[asyncio.Future[Any]] = {self.process.exit, silent}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self.process.running:
                # Its output ends a moment before it does.
                await asyncio.wait({self.process.exit}, timeout=0.5)
            self.lose("it ended" if not self.process.running else "its output is closed (reading)")
        finally:
            silent.cancel()

    async def say_goodbye(self) -> None:
        """Tell the agent to stop whatever it does; nobody waits for its answer."""
        if self.agent_session:
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with self._clock.timeout(1.0):
                    await self.connection.cancel(session_id=self.agent_session)

    async def end(self) -> None:
        """Nothing of it is left afterwards."""
        self.ending = True
        if self._turn is not None:
            self._close(self._turn)
        await self.process.stop()
        await self.connection.close()
        self._watching.cancel()


def _offered(options: Sequence[PermissionOption]) -> tuple[Option, ...]:
    """Options as people see them; of two with one id the first."""
    found: dict[str, Option] = {}
    for one in options[:_OPTIONS]:
        name = clean(one.name).strip()[:_NAME] or one.kind
        found.setdefault(one.option_id, Option(one.option_id, name, OptionKind(one.kind)))
    return tuple(found.values())
