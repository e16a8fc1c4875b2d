"""The menu of commands is written when it changed, and only then."""

import pytest

from channels.base import MenuItem
from tests.channels.telegram.host import HostDouble, message, running, to
from tests.fakes.telegram.faults import error, retry_after
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat

MENU = [
    MenuItem(name="new", description="start a new conversation"),
    MenuItem(name="agent", description="another agent", argument="name"),
]


async def started(server: FakeTelegram, bot: Bot, menu: list[MenuItem], facts: dict[str, str]) -> None:
    host = HostDouble(menu)
    host.facts = facts
    async with running(server, bot, host):
        await host.until(lambda: "menu" in facts)


@pytest.mark.req("P42")
async def test_it_is_written_once(server: FakeTelegram, bot: Bot) -> None:
    facts: dict[str, str] = {}
    for _ in range(10):
        await started(server, bot, MENU, facts)
    assert len(server.calls("setMyCommands")) == 1
    assert bot.commands == [
        {"command": "new", "description": "start a new conversation"},
        {"command": "agent", "description": "another agent"},
    ]


@pytest.mark.req("P42")
async def test_a_changed_menu_and_another_bot_are_written_again(server: FakeTelegram, bot: Bot) -> None:
    facts: dict[str, str] = {}
    await started(server, bot, MENU, facts)
    host = HostDouble(MENU[:1])
    host.facts = facts
    async with running(server, bot, host):
        await server.until(lambda: len(bot.commands) == 1)
    other = server.bot("other_bot")
    host = HostDouble(MENU[:1])
    host.facts = facts
    async with running(server, other, host):
        await server.until(lambda: other.commands)


async def test_a_failure_is_tried_again_and_nobody_waits_for_it(server: FakeTelegram, bot: Bot, dm: Chat) -> None:
    server.faults.add("setMyCommands", error(500, "x"), retry_after(1))
    host = HostDouble(MENU)
    async with running(server, bot, host) as channel:
        dm.say("hi")
        await host.one()
        await channel.send(message(to(dm)))
        await host.until(lambda: "menu" in host.facts)
    assert bot.commands


async def test_a_menu_that_is_never_taken_does_no_harm(
    server: FakeTelegram, bot: Bot, dm: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults.add("setMyCommands", error(400, "Bad Request: BOT_COMMAND_INVALID"), for_ever=True)
    host = HostDouble(MENU)
    async with running(server, bot, host):
        await server.until(lambda: server.calls("setMyCommands"))
        dm.say("hi")
        await host.one()
    assert len(server.calls("setMyCommands")) == 1, "the same again would be refused again"
    assert "menu" not in host.facts
    assert "BOT_COMMAND_INVALID".lower() in caplog.text.lower()
    assert host.troubles == []


async def test_it_gives_up_after_a_while(server: FakeTelegram, bot: Bot) -> None:
    server.faults.add("setMyCommands", error(500, "x"), for_ever=True)
    host = HostDouble(MENU)
    async with running(server, bot, host):
        await server.until(lambda: len(server.calls("setMyCommands")) == 5)
    assert "menu" not in host.facts


async def test_a_memory_that_fails_does_no_harm(
    server: FakeTelegram, bot: Bot, dm: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = HostDouble(MENU)
    recall = host.recall

    async def broken(name: str) -> str | None:
        if name == "menu":
            raise RuntimeError("no store")
        return await recall(name)

    monkeypatch.setattr(host, "recall", broken)
    async with running(server, bot, host):
        dm.say("hi")
        await host.one()
