"""Keeps the child with the model running: starts it when it is first needed, and again whenever it dies."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from gateway import phrases
from gateway.agents.local import child as child_module
from gateway.agents.local.process import Child, NoAddress
from gateway.clock import Clock, SystemClock
from gateway.logs import mask
from routing.errors import AgentFailed

_log = logging.getLogger("trunkline.local")

#: As a file: the folder it lies in is kept out of its search path, and nothing of the gateway is imported.
COMMAND = (sys.executable, "-P", child_module.__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the child is told."""

    model: str
    alias: str
    context_window: int
    #: Answers at the same time.
    slots: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """In seconds."""

    #: Until a model is loaded; large ones come from slow disks.
    start: float = 120.0
    #: Before it is started again; the pause doubles while it keeps failing.
    first_pause: float = 0.5
    longest_pause: float = 60.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model is to be reached, until its process ends."""

    url: str
    key: str = field(repr=False)
    pid: int
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)


class Server:
    def __init__(
        self,
        wanted: Wanted,
        *,
        check: Callable[[], str | None] = lambda: None,
        command: Sequence[str] = COMMAND,
        env: Mapping[str, str] = os.environ,
        patience: Patience | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._name = wanted.alias
        self._wanted = wanted
        #: Asked before every start: what is missing, in words for people.
        self._check = check
        self._command = command
        self._env = env
        self._patience = patience or Patience()
        self._clock = clock or SystemClock()
        self._key = secrets.token_urlsafe(32)
        self._keeping: asyncio.Task[None] | None = None
        self._state: asyncio.Future[Endpoint] | None = None
        self._closed = False

    async def endpoint(self) -> Endpoint:
        """The running server; waits while it starts. Raises AgentFailed when the last attempt has failed."""
        if self._closed:
            raise AgentFailed(phrases.BROKEN_OFF, detail="the daemon is stopping")
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name=f"local model of {self._name}")
        return await asyncio.shield(self._state or self._renew())

    async def close(self) -> None:
        self._closed = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        if self._state is not None and not self._state.done():
            self._state.set_exception(AgentFailed(phrases.BROKEN_OFF, detail="the daemon is stopping"))
            self._state.exception()  # nobody may be waiting

    async def _keep(self) -> None:
        mask(self._key)
        pause = self._patience.first_pause
        while True:
            began = self._clock.monotonic()
            try:
                await self._once()
            except Exception as error:  # whatever it is: nobody may wait for ever
                self._failed(phrases.LOCAL_NOT_STARTED, repr(error))
            if self._clock.monotonic() - began > self._patience.longest_pause:
                pause = self._patience.first_pause
            await self._clock.sleep(pause)
            pause = min(pause * 2, self._patience.longest_pause)
            self._renew()

    async def _once(self) -> None:
        """One life of the child, from start to end."""
        began = self._clock.monotonic()
        if why := self._check():
            self._failed(why, f"{why} ({self._wanted.model})")
            return
        try:
            child = Child(self._command, self._env)
        except OSError as error:
            self._failed(phrases.LOCAL_NOT_STARTED, f"{self._command[0]} cannot be run: {error.strerror}")
            return
        try:
            endpoint = await self._started(child)
            if endpoint is None:
                return
            self._renew().set_result(endpoint)
            seconds = round(self._clock.monotonic() - began, 3)
            _log.info("model %s is ready: process %d, after %s seconds", self._name, child.pid, seconds)
            try:
                ending = await child.ended()
            finally:
                endpoint.ended.set()
                # Whoever asks now waits for the next one.
                self._renew()
            _log.error("model %s is started again: %s", self._name, ending)
        finally:
            await child.stop()

    async def _started(self, child: Child) -> Endpoint | None:
        seconds = self._patience.start
        try:
            async with self._clock.timeout(seconds):
                url = await child.address({**asdict(self._wanted), "key": self._key})
        except TimeoutError:
            why = child.with_words(f"it was not ready within {seconds:g} seconds")
            self._failed(phrases.LOCAL_SLOW.format(seconds=seconds), why)
        except NoAddress as error:
            self._failed(phrases.LOCAL_NOT_STARTED, str(error))
        else:
            return Endpoint(url, self._key, child.pid)
        return None

    def _failed(self, why: str, detail: str) -> None:
        """Everybody who waits is told, and whoever asks until the next attempt."""
        _log.error("model %s was not started: %s", self._name, detail)
        state = self._renew()
        state.set_exception(AgentFailed(why, detail=detail))
        state.exception()  # nobody may be waiting

    def _renew(self) -> asyncio.Future[Endpoint]:
        """What is being waited for, or something new to wait for."""
        if self._state is None or self._state.done():
            self._state = asyncio.get_running_loop().create_future()
        return self._state
