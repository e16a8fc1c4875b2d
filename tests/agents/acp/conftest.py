"""Fixtures of the agents with processes: daemons with a scripted agent, and the promise that nothing is left."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.acp.scene import Scene
from tests.fakes.harness import Rigs
from tests.gateway.conftest import rigs as rigs

Scenes = Callable[..., Scene]


@pytest.fixture
async def scenes(rigs: Rigs, tmp_path: Path) -> AsyncIterator[Scenes]:
    """Make a daemon with a scripted agent; when the test ends, no process of it may be left."""
    made: list[Scene] = []

    def make(table: dict[str, Any] | None = None, **script: Any) -> Scene:
        made.append(Scene(rigs, tmp_path / f"scene{len(made)}", table, **script))
        return made[-1]

    yield make
    for scene in made:
        await scene.rig.cut()
        await scene.gone()
