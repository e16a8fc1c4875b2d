"""Fixtures of the model agents' tests: a server, agents that ask it, and the log."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.agents.openai.agent import ModelAgent
from tests.fakes.harness import Journal
from tests.fakes.model.server import FakeModel
from tests.fakes.model.turns import table
from tests.gateway.conftest import rigs as rigs

Agents = Callable[..., ModelAgent]


@pytest.fixture(params=["responses", "chat"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def model() -> AsyncIterator[FakeModel]:
    async with FakeModel() as server:
        yield server


@pytest.fixture
async def agents(model: FakeModel, tmp_path: Path) -> AsyncIterator[Agents]:
    """Make an agent: `agents(api="chat", fallback_models=["small"])`; it asks the fake server unless told otherwise."""
    made: list[ModelAgent] = []

    def make(url: str | None = None, **keys: Any) -> ModelAgent:
        made.append(ModelAgent(table(url or model.url, **keys), tmp_path / "files"))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
def journal() -> Iterator[Journal]:
    journal = Journal()
    journal.open()
    yield journal
    journal.close()
