"""Whole daemons on the real libraries, against both platforms on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from gateway.agents.protocol import Agent
from gateway.clock import SystemClock
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.harness import Journal, Rig
from tests.fakes.telegram.server import FakeTelegram


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The libraries take proxies from the environment; loopback needs none."""
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as server:
        yield server


@pytest.fixture
async def deploy(tmp_path: Path) -> AsyncIterator[Deploy]:
    """Make a daemon in this process, on the clock of the machine: `await deploy(agents, telegram={…})`."""
    deployment = Deploy(tmp_path)
    yield deployment
    await deployment.end()


class Deploy:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journal = Journal()
        self._rigs: list[Rig] = []

    async def __call__(self, agents: Mapping[str, Agent], /, **tables: object) -> Rig:
        if not self._rigs:
            self._journal.open()
        tables = {"agents": {name: {"kind": "builtin"} for name in agents}, **tables}
        rig = Rig(self._folder / f"daemon{len(self._rigs)}", self._journal, agents, clock=SystemClock(), tables=tables)
        rig.channels = ()
        self._rigs.append(rig)
        return await rig.start()

    async def end(self) -> None:
        for rig in self._rigs:
            await rig.cut()
        if self._rigs:
            self._journal.close()


async def connected(rig: Rig, *accounts: str) -> None:
    """Wait until these accounts work."""
    components = rig.running.api.health.components
    async with asyncio.timeout(20):
        # Health is there to be read; it tells nobody when it changes.
        while not all((found := components.get(f"channel {one}")) is not None and found.ok for one in accounts):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
