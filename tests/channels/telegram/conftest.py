"""A fake server with one bot, one person and a channel that runs."""

from collections.abc import AsyncIterator

import pytest

from channels.telegram import TelegramChannel
from tests.channels.telegram.host import HostDouble, running
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, User


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes proxies from the environment; loopback needs none."""
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def server() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as server:
        yield server


@pytest.fixture
def bot(server: FakeTelegram) -> Bot:
    return server.bot()


@pytest.fixture
def alice(server: FakeTelegram) -> User:
    return server.user("Alice")


@pytest.fixture
def dm(server: FakeTelegram, bot: Bot, alice: User) -> Chat:
    return server.dm(bot, alice)


@pytest.fixture
def group(server: FakeTelegram, bot: Bot) -> Chat:
    return server.group(bot)


@pytest.fixture
def forum(server: FakeTelegram, bot: Bot) -> Chat:
    return server.group(bot, title="Forum", forum=True)


@pytest.fixture
def host() -> HostDouble:
    return HostDouble()


@pytest.fixture
async def channel(server: FakeTelegram, bot: Bot, host: HostDouble) -> AsyncIterator[TelegramChannel]:
    async with running(server, bot, host) as channel:
        yield channel
    assert bot.conflicts == 0, "two polls at once"
