"""The agent of a turn: finds or starts the session's process, asks it, and passes on what it says."""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from acp.schema import PromptResponse

from gateway import phrases
from gateway.agents.acp import homes, resuming
from gateway.agents.acp.memory import Memory
from gateway.agents.acp.pool import Place, Pool
from gateway.agents.acp.presets import Launch
from gateway.agents.acp.process import Process
from gateway.agents.acp.reports import report
from gateway.agents.acp.resuming import Hangs, How
from gateway.agents.acp.session import Conversation
from gateway.agents.acp.terms import Terms
from gateway.agents.acp.updates import usage_of
from gateway.agents.protocol import Done, Event, Notice, TextDelta, TurnContext
from gateway.attribution import prompt_text
from gateway.clock import Clock
from gateway.config.tables import AcpAgent as Table
from gateway.config.tables import OnCancel
from gateway.logs import Event as Name
from gateway.logs import Redactor, log
from gateway.persist import Persist
from routing.errors import AgentBroke, AgentFailed, AgentNotInstalled, NoWorkspace, PathViolation, UnknownRepo
from store.agent_sessions import AgentSession

_UNKNOWN_ARGUMENT = ("unknown argument", "unknown option", "unrecognized", "unexpected argument", "no such option")


@dataclass(frozen=True, slots=True)
class _Opened:
    child: Conversation
    how: How
    #: What the agent is told about the past, if it has forgotten it.
    record: str | None = None

    @property
    def notice(self) -> str | None:
        """What people are told about it."""
        if self.how is How.NEW:
            return phrases.ACP_FORGOTTEN if self.record is None else phrases.ACP_RETOLD
        return None if self.how is How.FIRST else phrases.ACP_RESUMED


class AcpAgent:
    side_effects = True

    def __init__(self, name: str, table: Table, root: Path | None, folder: Path, pool: Pool) -> None:
        self._name = name
        self._table = table
        self.repo = table.repo
        self._root = root
        self._homes = folder
        self._launch: Launch = table.launch
        self._env = {**self._launch.env, **{key: value.get_secret_value() for key, value in table.env.items()}}
        self.pool = pool

    def open(self, persist: Persist, clock: Clock) -> None:
        self.pool.open(Memory(persist, clock), clock)

    async def close(self) -> None:
        await self.pool.close()

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        terms = self._terms(await self._directory(turn))
        child = await self.pool.claim(turn.session_id)
        opened = None if child is None else _Opened(child, How.FIRST)
        if opened is None:
            place = self.pool.ask()
            try:
                if position := self.pool.position(place):
                    yield Notice(phrases.ACP_QUEUED.format(limit=self.pool.limit, position=position))
                await place.granted
            except BaseException:
                self.pool.give_up(place)
                raise
            opened = await self._start(place, terms, turn)
        try:
            if opened.notice is not None:
                yield Notice(opened.notice)
            async with aclosing(self._ask(opened, turn)) as events:
                async for event in events:
                    yield event
        except AgentBroke:
            opened.child.reported = True
            report(opened.child.process, opened.child.lost.result(), terms, turn.session_id)
            raise
        finally:
            self.pool.give_back(opened.child)

    async def _ask(self, opened: _Opened, turn: TurnContext) -> AsyncGenerator[Event, None]:
        child = opened.child
        text = "\n".join(prompt_text(message) for message in turn.instruction)
        texts = [text] if opened.record is None else [opened.record, text]
        response: PromptResponse | None = None
        async with aclosing(child.prompt(texts)) as events:
            async for event in events:
                if isinstance(event, PromptResponse):
                    response = event
                else:
                    yield event
        assert response is not None, "it is the last, or something was raised"
        for event in _ending(child, response):
            yield event

    @asynccontextmanager
    async def prepared(self, session_id: str, directory: Path) -> AsyncIterator[str]:
        place = self.pool.ask(wait=False)
        try:
            child = await self._greeted(place, self._terms(directory), session_id)
            _, child = await self._begun(place, child, None)
            child.stays = True
            yield child.agent_session
        except BaseException:
            self._abandon(place, session_id)
            raise
        self.pool.give_back(child)

    # -- the process ---------------------------------------------------------------------------------------------

    async def _start(self, place: Place, terms: Terms, turn: TurnContext) -> _Opened:
        """A process that is ready for a prompt, or AgentFailed; nothing is left of one that is not."""
        memory = self.pool.memory
        child: Conversation | None = None
        try:
            known = await memory.known(turn.session_id, self._name)
            child = await self._greeted(place, terms, turn.session_id)
            how, child = await self._begun(place, child, known)
            if how in {How.FIRST, How.NEW} or (known is not None and known.inherited):
                await memory.remember(turn.session_id, self._name, child.agent_session, str(terms.repo))
            record = None
            if how is How.NEW or (how is How.FIRST and turn.history):
                record = resuming.record(turn, await memory.past(turn.session_id))
        except BaseException:
            self._abandon(place, turn.session_id)
            raise
        return _Opened(child, how, record)

    def _abandon(self, place: Place, session_id: str) -> None:
        child = self.pool.children.get(session_id)
        if child is not None:
            self.pool.retire(child, "not started")
        else:
            self.pool.give_up(place)

    async def _greeted(self, place: Place, terms: Terms, session_id: str) -> Conversation:
        """With the older flag, if this version does not know the newer one; that is remembered."""
        child = await self._spawn(place, terms, session_id)
        try:
            await child.greet(self._table.start_timeout)
        except AgentFailed:
            older = self._launch.older
            if older is None or child.process.running or not _complains(child.process.complaints):
                raise
            await self.pool.drop(child, "does not know a flag")
            self._launch = Launch(
                name=self._launch.name, command=older, env=self._launch.env, loads_later=self._launch.loads_later
            )
            child = await self._spawn(place, terms, session_id)
            await child.greet(self._table.start_timeout)
        return child

    async def _begun(self, place: Place, child: Conversation, known: AgentSession | None) -> tuple[How, Conversation]:
        """If the agent hangs when it is to take up a session, it is started again and gets a new one."""
        seconds, clock = self._table.start_timeout, self.pool.clock
        later = self._launch.loads_later
        try:
            return await resuming.begin(child, known, seconds, clock, loads_later=later), child
        except Hangs:
            await self.pool.drop(child, "hangs")
            child = await self._greeted(place, child.terms, child.session_id)
            await resuming.begin(child, None, seconds, clock)
            return How.NEW, child

    async def _spawn(self, place: Place, terms: Terms, session_id: str) -> Conversation:
        command = [part.replace("{workspace}", str(terms.repo)) for part in self._launch.command]
        program = shutil.which(command[0], path=self._env.get("PATH"))
        if program is None:
            log(Name.AGENT_NOT_INSTALLED, logging.ERROR, session=session_id, agent=self._name, path=command[0])
            why = phrases.ACP_NOT_INSTALLED.format(name=terms.name)
            raise AgentNotInstalled(why, detail=f"there is no program {command[0]}")
        mark = secrets.token_hex(16)
        await self.pool.memory.lease(mark, session_id, self._name)
        try:
            env = {**self._env, **homes.home(self._table.preset, self._homes, self._env)}
            process = Process([program, *command[1:]], terms.repo, env, mark)
        except OSError as error:
            await self.pool.memory.drop(mark)
            why = phrases.ACP_NOT_STARTED.format(name=terms.name)
            raise AgentFailed(why, detail=f"{program} cannot be run: {error.strerror}") from error
        child = Conversation(process, terms, session_id, self.pool.clock)
        self.pool.add(child, place)
        log(Name.AGENT_STARTED, session=session_id, agent=self._name, pid=process.pid, repo=terms.repo)
        await self.pool.memory.name(mark, process.pid, process.started)
        return child

    async def _directory(self, turn: TurnContext) -> Path:
        try:
            return await self.pool.memory.directory(turn.session_id, self._root, self._table.repo)
        except (NoWorkspace, UnknownRepo, PathViolation) as error:
            raise AgentFailed(phrases.ACP_NO_REPOSITORY, detail=str(error)) from error

    def _terms(self, directory: Path) -> Terms:
        return Terms(
            agent=self._name,
            name=self._launch.name if self._table.preset else self._table.name,
            repo=directory,
            mode=self._table.permissions,
            silence=self._table.silence_timeout,
            restarts=self._table.on_cancel is OnCancel.RESTART,
            redact=Redactor(value.get_secret_value() for value in self._table.env.values() if len(value) >= _SECRET),
        )


#: Shorter values of the environment are no secrets, and masking them would make nonsense of a text.
_SECRET = 8


def _complains(words: str) -> bool:
    return any(phrase in words.lower() for phrase in _UNKNOWN_ARGUMENT)


def _ending(child: Conversation, response: PromptResponse) -> Iterator[Event]:
    warnings: list[str] = []
    match response.stop_reason:
        case "cancelled":
            raise AgentFailed(phrases.ACP_CANCELLED)
        case "refusal" if not child.said:
            raise AgentFailed(phrases.ACP_REFUSED)
        case "max_tokens":
            warnings.append(phrases.ANSWER_LIMITED)
        case "max_turn_requests":
            warnings.append(phrases.ACP_MOST_REQUESTS)
    if (response.field_meta or {}).get("odd"):
        warnings.append(phrases.ACP_ODD_END)
    if not child.said:
        if child.rejected:
            raise AgentFailed(phrases.ACP_REJECTED)
        if child.worked:
            yield TextDelta(phrases.ACP_WORDLESS)
    yield Done(usage_of(response), warnings=tuple(warnings))
