"""Edits, typing, paces; and when a channel can be used at all."""

import asyncio
from dataclasses import replace

import pytest

from channels.base import Channel, Edits, Fetches, Pace, Paced, Splits, Types
from channels.telegram import TelegramChannel, Timing
from routing.errors import DeliveryFailed
from tests.channels.telegram.host import QUICK, HostDouble, message, running, to
from tests.fakes.telegram.faults import HANG
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, User


def test_it_has_the_abilities_of_its_platform() -> None:
    channel: Channel = TelegramChannel("main", "1:x")
    for ability in (Edits, Splits, Types, Paced, Fetches):
        assert isinstance(channel, ability)
    assert (channel.name, channel.account, channel.reads_history) == ("telegram", "main", False)
    assert channel.silent_after == 60


@pytest.mark.req("P46")
async def test_a_message_grows(channel: TelegramChannel, server: FakeTelegram, dm: Chat) -> None:
    sent = await channel.send(message(to(dm), "one"))
    await channel.edit(sent, message(to(dm), "one **two**"))
    await channel.edit(sent, message(to(dm), "one **two**"))
    (shown,) = dm.shown
    assert [text for _, text in shown.versions] == ["one", "one two"]
    assert shown.entities == [{"type": "bold", "offset": 4, "length": 3}]
    assert server.calls("editMessageText")[-1].status == 400
    assert server.calls("editMessageText")[0].params["link_preview_options"] == {"is_disabled": True}


async def test_a_message_that_is_gone_cannot_be_edited(channel: TelegramChannel, dm: Chat) -> None:
    sent = await channel.send(message(to(dm)))
    del dm.messages[int(sent)]
    with pytest.raises(DeliveryFailed, match="edit not found") as failure:
        await channel.edit(sent, message(to(dm), "two"))
    assert not failure.value.retryable
    assert not failure.value.blocked


async def test_an_edit_that_is_too_long_is_refused_for_good(channel: TelegramChannel, dm: Chat) -> None:
    sent = await channel.send(message(to(dm)))
    with pytest.raises(DeliveryFailed) as failure:
        await channel.edit(sent, message(to(dm), "x" * 5000))
    assert not failure.value.retryable
    assert dm.texts == ["hello"]


@pytest.mark.req("P47")
async def test_typing(channel: TelegramChannel, forum: Chat, dm: Chat) -> None:
    ops = forum.topic("Ops")
    await channel.typing(to(forum, ops.id))
    await channel.typing(to(dm))
    assert [thread for _, _, thread in (*forum.actions, *dm.actions)] == [ops.id, None]
    assert channel.typing_every == 4


@pytest.mark.req("P46", "P41")
def test_paces(alice: User, dm: Chat, group: Chat) -> None:
    channel = TelegramChannel("main", "1:x")
    assert channel.edit_spacing(to(dm)) == 1.5
    assert channel.edit_spacing(to(group)) == 3
    assert channel.pace(to(dm)) == Pace(3, 1.0)
    assert channel.pace(to(group)) == Pace(4, 3.75)


async def test_nothing_is_sent_before_and_after_it_runs(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    channel = TelegramChannel("main", bot.token, server.url)
    with pytest.raises(DeliveryFailed, match="not connected") as failure:
        await channel.send(message(to(dm)))
    assert failure.value.retryable
    assert not failure.value.ambiguous
    async with running(server, bot, host) as channel:
        pass
    with pytest.raises(DeliveryFailed, match="not connected"):
        await channel.send(message(to(dm)))


async def test_what_is_under_way_may_end_when_the_channel_stops(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    async with running(server, bot, host) as channel:
        sends = [asyncio.create_task(channel.send(message(to(dm), str(number)))) for number in range(5)]
        await server.until(lambda: server.calls("sendMessage"))
    assert [await one for one in sends] == [str(one.id) for one in sorted(dm.shown, key=lambda one: one.text)]


async def test_what_does_not_end_is_cut_off_when_the_channel_stops(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    server.faults.add("sendMessage", HANG)
    async with running(server, bot, host, replace(QUICK, farewell=0.05)) as channel:
        send = asyncio.create_task(channel.send(message(to(dm))))
        await server.until(lambda: server.calls("sendMessage"))
    with pytest.raises(DeliveryFailed) as failure:
        await send
    assert (failure.value.retryable, failure.value.ambiguous) == (True, True)


async def test_sends_work_while_polls_do_not(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    bot.webhook = "https://example.org/"
    async with running(server, bot, host, connected=False) as channel:
        await host.until(lambda: host.troubles)
        await channel.send(message(to(dm)))
    assert dm.texts == ["hello"]


@pytest.mark.req("P39")
def test_silence_is_noticed_within_a_minute() -> None:
    timing = Timing()
    assert timing.connect + timing.poll + timing.answer < (TelegramChannel("main", "1:x").silent_after or 0) <= 60
