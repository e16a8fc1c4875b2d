"""A daemon as a process, a Telegram and a model on loopback, and a third-party agent between them.

`make test` does not come here: the agents are 450 MB from npm.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.coding.server import CodingModel
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Message
from tests.gateway.cli.conftest import Place, made
from tests.real_agents.agents import GEMINI, OPENCODE, RealAgent, processes, settle_opencode

#: The table stands between these lines.
TABLE = re.compile(r"(?<=<!-- real agents -->\n).*?(?=<!-- end -->)", re.DOTALL)
#: A cold start on a busy machine takes a quarter of a minute.
PATIENCE = 120.0
REPO = "project"


class Record:
    """What was seen: rows by name, a column for each agent."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, str]] = {}

    def note(self, agent: RealAgent, what: str, value: str) -> None:
        self._rows.setdefault(what, {})[agent.preset] = value

    def table(self) -> str:
        agents = (GEMINI, OPENCODE)
        cores = len(os.sched_getaffinity(0))
        lines = [
            f"Last run: {datetime.now(UTC):%Y-%m-%d}, {cores} cores.\n",
            f"| | {' | '.join(f'{one.preset} {one.version}' for one in agents)} |",
            f"|---|{'---|' * len(agents)}",
            *(
                f"| {what} | {' | '.join(row.get(one.preset, '-') for one in agents)} |"
                for what, row in self._rows.items()
            ),
        ]
        return "\n" + "\n".join(lines) + "\n\n"


@pytest.fixture(scope="session")
def record(checkout: Path) -> Iterator[Record]:
    """Kept in the file that TRUNKLINE_AGENTS_REPORT names, if it names one."""
    kept = Record()
    yield kept
    if name := os.environ.get("TRUNKLINE_AGENTS_REPORT"):
        file = checkout / name
        text, replaced = TABLE.subn(lambda _: kept.table(), file.read_text())
        assert replaced == 1, f"{name} has no place for the table"
        file.write_text(text)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(params=[GEMINI, OPENCODE], ids=lambda agent: agent.preset)
def agent(request: pytest.FixtureRequest) -> RealAgent:
    found: RealAgent = request.param
    return found


class Scene:
    """A bot, its owner Ada, and a daemon whose only agent is a real one."""

    def __init__(self, place: Place, telegram: FakeTelegram, model: CodingModel, agent: RealAgent) -> None:
        self.place = place
        self.model = model
        self.agent = agent
        self._telegram = telegram
        self._bot = telegram.bot()
        self._ada = telegram.user("Ada")
        self.dm: Any = telegram.dm(self._bot, self._ada)
        self.repo = place.folder / "repositories" / REPO
        (self.repo / ".git").mkdir(parents=True)
        if agent is OPENCODE:
            settle_opencode(place.folder, model.url)
        place.configure(
            gateway={"workspace_root": "repositories"},
            agents={"coder": agent.table(REPO, model.url)},
            telegram={"main": {"token": self._bot.token, "base_url": telegram.url}},
            people={"ada": {"telegram": self._ada.id, "owner": True}},
        )

    # The loop serves Telegram and the model meanwhile, so that a daemon can start and stop.

    async def start(self) -> None:
        await asyncio.to_thread(self.place.start)

    async def stop(self) -> None:
        await asyncio.to_thread(self.place.stop)

    @property
    def texts(self) -> list[str]:
        texts: list[str] = self.dm.texts
        return texts

    async def until(self, condition: Callable[[], object]) -> float:
        """Wait for something in the chat; how long it took."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    await self._telegram.change()
        except TimeoutError:
            raise AssertionError(f"the chat shows {self.texts}\n{self.place.log.read_text()[-5000:]}") from None
        return time.monotonic() - began

    async def ask(self, text: str, answer: str) -> float:
        """Say something, and wait for a new message that has the answer; how long it took."""
        before = len(self.texts)
        self.dm.say(text)
        return await self.until(lambda: any(answer in shown for shown in self.texts[before:]))

    async def question(self) -> Message:
        """Wait for a message with buttons."""
        await self.until(lambda: any(one.buttons for one in self.dm.shown))
        found: Message = next(one for one in reversed(self.dm.shown) if one.buttons)
        return found

    def press(self, question: Any, sign: str) -> None:
        """The button that begins with a sign."""
        labels = [one["text"] for one in question.buttons]
        self.dm.press(question, next(number for number, label in enumerate(labels) if label.split()[0] == sign))

    async def notes(self) -> str:
        """What the gateway itself noted about the last turn."""
        return await asyncio.to_thread(self._notes)

    def _notes(self) -> str:
        [session] = self.place.api.get("/api/sessions")["sessions"]
        rows = self.place.api.get(f"/api/sessions/{session['id']}/messages")
        last = max(number for number, row in enumerate(rows) if row["role"] == "user")
        told = [row["content"] for row in rows[last:] if row["role"] == "system"]
        return " ".join(content["text"] for content in told if content["type"] == "text")

    @property
    def alive(self) -> list[int]:
        return processes(self.place.folder)

    async def nobody_left(self, seconds: float = 10.0) -> float:
        """How long it took; what the system does to processes has no event."""
        began = time.monotonic()
        while self.alive:
            assert time.monotonic() - began < seconds, self.alive
            await asyncio.sleep(0.01)
        return time.monotonic() - began


@pytest.fixture
async def scene(
    tmp_path: Path, checkout: Path, compiled: Path, agent: RealAgent, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    # The libraries take proxies from the environment; loopback needs none.
    monkeypatch.setenv("NO_PROXY", "*")
    async with FakeTelegram() as telegram, CodingModel() as model:
        for place in made(tmp_path, checkout, compiled):
            scene = Scene(place, telegram, model, agent)
            await scene.start()
            yield scene
            await scene.stop()
