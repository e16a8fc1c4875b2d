"""Polls: one at a time, nothing confirmed too early, everything closed at the end."""

import asyncio
import logging

import pytest

from routing.messages import Inbound
from tests.channels.telegram.host import IMPATIENT, HostDouble, running
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, User


@pytest.mark.req("P05")
async def test_nothing_is_confirmed_before_it_was_accepted(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    dm.say("one")
    dm.say("two")
    async with running(server, bot, host):
        await host.count(2)
        await server.until(lambda: bot.confirmed == [1000, 1001])
        host.gate.clear()
        dm.say("three")
        await host.until(lambda: len(host.offered) == 3)
        polls = len(server.calls("getUpdates"))
        # Everything that could confirm it has had its chance.
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(server.calls("getUpdates")) == polls
        assert bot.confirmed == [1000, 1001]
        host.gate.set()
        await server.until(lambda: 1002 in bot.confirmed)


@pytest.mark.req("P05", "P06")
async def test_what_was_not_accepted_comes_again(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    host.gate.clear()
    async with running(server, bot, host):
        dm.say("one")
        dm.say("two")
        await host.until(lambda: host.offered)
    assert not host.taken
    assert not bot.confirmed
    again = HostDouble()
    async with running(server, bot, again):
        assert [one.text for one in await again.messages(2)] == ["one", "two"]
        await server.until(lambda: len(bot.confirmed) == 2)


@pytest.mark.req("P06")
async def test_restarts_hand_over_the_same_id_for_the_same_message(server: FakeTelegram, bot: Bot, dm: Chat) -> None:
    seen: list[str] = []
    facts: dict[str, str] = {}
    for number in range(20):
        dm.say(str(number))
        host = HostDouble()
        host.facts = facts
        async with running(server, bot, host):
            await host.until(lambda: any(isinstance(one, Inbound) and one.text == str(number) for one in host.taken))  # noqa: B023
        seen += [one.external_id for one in host.taken if isinstance(one, Inbound)]
    assert set(seen) == {f"{bot.user.id}:{1000 + number}" for number in range(20)}


@pytest.mark.req("P06")
async def test_another_bot_with_lower_ids_is_heard(
    server: FakeTelegram, bot: Bot, host: HostDouble, alice: User, caplog: pytest.LogCaptureFixture
) -> None:
    server.dm(bot, alice).say("old")
    async with running(server, bot, host):
        await host.count(1)
    assert host.facts["bot_user_id"] == str(bot.user.id)
    other = server.bot("other_bot", first_update=3)
    server.dm(other, alice).say("new")
    with caplog.at_level(logging.WARNING):
        async with running(server, other, host):
            _, new = await host.messages(2)
    assert new.external_id == f"{other.user.id}:3"
    assert host.facts["bot_user_id"] == str(other.user.id)
    assert "is bot" in caplog.text


@pytest.mark.req("P06")
async def test_a_bot_whose_counting_begins_anew_is_heard(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    """Telegram may do so after a quiet week; an offset from before would hide everything."""
    async with running(server, bot, host, IMPATIENT):
        dm.say("old")
        await host.count(1)
        # The poll that confirms, and one that comes back empty.
        polls = len(server.calls("getUpdates"))
        await server.until(lambda: len(server.calls("getUpdates")) >= polls + 2)
        bot.next_update = 5
        dm.say("new")
        assert [one.text for one in await host.messages(2)] == ["old", "new"]


async def test_it_is_alive_after_every_poll_and_at_once_at_the_start(
    server: FakeTelegram, bot: Bot, host: HostDouble
) -> None:
    async with running(server, bot, host):
        first, *_ = server.calls("getUpdates")
        assert first.params["timeout"] == 0
        await server.until(lambda: bot.polling)
        assert server.calls("getUpdates")[-1].params["timeout"] == 25
        assert host.health == ["alive"]


async def test_what_it_asks_for(server: FakeTelegram, bot: Bot, host: HostDouble) -> None:
    async with running(server, bot, host):
        pass
    assert set(bot.allowed or ()) == {
        "message",
        "edited_message",
        "channel_post",
        "edited_channel_post",
        "my_chat_member",
        "callback_query",
    }


async def test_everything_is_closed_when_it_is_cancelled(server: FakeTelegram, bot: Bot, host: HostDouble) -> None:
    """An unclosed connection or a forgotten task would be a warning, and a warning fails the test."""
    for _ in range(3):
        async with running(server, bot, host):
            pass
    await server.until(lambda: not bot.polling)
    assert len(asyncio.all_tasks()) <= 2
