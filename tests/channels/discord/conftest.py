from collections.abc import AsyncIterator

import pytest

from tests.channels.discord.doubles import Rig
from tests.fakes.discord.server import FakeDiscord


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord(heartbeat_ms=200) as fake:
        yield fake


@pytest.fixture
async def idle(discord: FakeDiscord) -> AsyncIterator[Rig]:
    """Made, but not started."""
    rig = Rig(discord)
    yield rig
    await rig.stop()


@pytest.fixture
async def rig(idle: Rig) -> Rig:
    """Connected."""
    await idle.start()
    return idle
