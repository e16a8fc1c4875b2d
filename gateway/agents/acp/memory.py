"""What agents with processes keep in the store: leases, the names of their sessions, and that a session broke."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from gateway import repositories
from gateway.clock import Clock
from gateway.persist import Persist
from routing.errors import StoreError
from store import agent_processes, agent_sessions
from store.agent_sessions import AgentSession
from store.records import Message, Session

#: Messages of a session that broke which its successor is told about.
_PAST = 50


class Memory:
    def __init__(self, persist: Persist, clock: Clock) -> None:
        self._persist = persist
        self._clock = clock

    async def directory(self, session_id: str, root: Path | None, wanted: str) -> Path:
        """Where the agent of a session works. Raises UnknownRepo, PathViolation or NoWorkspace."""
        return await repositories.of_session(self._persist, root, session_id, wanted)

    async def lease(self, mark: str, session_id: str, agent: str) -> None:
        await self._persist.must(lambda db: agent_processes.take(db, mark, session_id, agent, self._clock.now()))

    async def name(self, mark: str, pid: int, started: int | None) -> None:
        await self._persist.must(lambda db: agent_processes.name(db, mark, pid, started))

    async def drop(self, mark: str) -> None:
        """The process is gone. If that cannot be written, the next start finds nothing and drops it."""
        with contextlib.suppress(StoreError):
            await self._persist.once(lambda db: agent_processes.drop(db, mark))

    async def known(self, session_id: str, agent: str) -> AgentSession | None:
        return await self._persist.read(lambda db: agent_sessions.find(db, session_id, agent))

    async def remember(self, session_id: str, agent: str, name: str, cwd: str) -> None:
        now = self._clock.now()
        await self._persist.must(lambda db: agent_sessions.remember(db, session_id, agent, name, cwd, now))

    async def past(self, session_id: str) -> list[Message]:
        return await self._persist.read(lambda db: agent_sessions.past(db, session_id, _PAST))

    async def live(self, agents: Mapping[str, str]) -> set[str]:
        """Those of the sessions (each with its agent) that still take messages."""
        return await self._persist.read(lambda db: agent_sessions.live(db, agents))

    async def broke(self, session_id: str, note: str) -> Session | None:
        return await self._persist.must(lambda db: agent_sessions.broke(db, session_id, note, self._clock.now()))
