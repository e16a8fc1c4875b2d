"""Nothing is lost in a gap, and nothing comes twice."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import discord
import pytest

from channels.discord import catching_up, receiving
from routing.messages import Inbound
from tests.channels.discord.doubles import Rig
from tests.fakes.discord.faults import Kind


@pytest.mark.req("P05", "P06", "P40")
async def test_what_was_said_while_it_was_away_is_read(rig: Rig) -> None:
    thread = rig.discord.add_thread(rig.general, "matter")
    places = [rig.general, rig.dm, thread]
    for place in places:
        rig.discord.say(rig.ann, place, "before")
    await rig.host.received(3)
    await rig.stop()
    for number in range(5):
        for place in places:
            rig.discord.say(rig.ann, place, f"missed {number}")
    thread.archived = True  # so that the library is not told of it
    await rig.restart()
    found = await rig.host.received(18)
    for place in places:
        texts = [one.text for one in found if one.seen and one.seen[0] == str(place.id)]
        assert texts == ["before", *(f"missed {number}" for number in range(5))]
    assert {(one.address.chat, one.address.thread) for one in found if one.text == "missed 0"} == {
        (str(rig.general.id), None),
        (str(rig.dm.id), None),
        (str(rig.general.id), str(thread.id)),
    }


@pytest.mark.req("P05", "P12")
async def test_roles_are_known_of_missed_messages_too(rig: Rig) -> None:
    role = rig.discord.add_role(rig.guild, "Cooks")
    rig.discord.join(rig.guild, rig.ann, role)
    left = rig.discord.add_user("Left")
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    await rig.stop()
    rig.discord.say(rig.ann, rig.general, "one")
    rig.discord.say(rig.ann, rig.general, "two")
    rig.discord.say(left, rig.general, "three")
    await rig.restart()
    _, one, two, three = await rig.host.received(4)
    assert one.roles == two.roles == {str(role.id)}
    assert three.roles == frozenset()
    assert len(rig.discord.calls("member")) == 2


@pytest.mark.req("P40")
async def test_the_first_words_in_a_channel_are_not_missed_either(rig: Rig) -> None:
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    other = rig.discord.add_channel(rig.guild, "other")
    await rig.stop()
    rig.discord.say(rig.ann, other, "anybody here?")
    await rig.restart()
    await rig.host.received(2)
    assert rig.host.texts == ["before", "anybody here?"]


@pytest.mark.req("P06")
async def test_a_first_start_does_not_dig_up_the_past(idle: Rig) -> None:
    idle.discord.say(idle.ann, idle.general, "long ago")
    await idle.start()
    assert idle.host.inbox == []
    assert idle.discord.calls("history") == []


@pytest.mark.req("P40")
async def test_a_resumed_session_needs_no_history(rig: Rig) -> None:
    gateway = rig.discord.gateway
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    gateway.abort()
    await rig.discord.until(lambda: not gateway.connected())
    rig.discord.say(rig.ann, rig.general, "in the gap")
    await rig.host.received(2)
    assert rig.host.texts == ["before", "in the gap"]
    assert len(gateway.identified) == 1
    assert rig.discord.calls("history") == []


@pytest.mark.req("P40")
@pytest.mark.parametrize("how", ["invalidate", "abort", "reconnect"])
async def test_five_messages_in_a_gap_come_exactly_once_even_after_ten_more_reconnects(rig: Rig, how: str) -> None:
    gateway = rig.discord.gateway
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    lose(rig, "invalidate")
    for number in range(5):
        rig.discord.say(rig.ann, rig.general, f"gap {number}")
    await rig.host.received(6)
    for number in range(10):
        await rig.discord.until(lambda: gateway.connected())
        came = len(gateway.identified) + len(gateway.resumed)
        lose(rig, how)
        await rig.discord.until(partial(returned, rig, came))
        rig.discord.say(rig.ann, rig.general, f"later {number}")
    await rig.host.received(16)
    await rig.ready()
    expected = ["before", *(f"gap {n}" for n in range(5)), *(f"later {n}" for n in range(10))]
    assert rig.host.texts == expected


def returned(rig: Rig, before: int) -> bool:
    return len(rig.discord.gateway.identified) + len(rig.discord.gateway.resumed) > before


def lose(rig: Rig, how: str) -> None:
    getattr(rig.discord.gateway, how)()


@pytest.mark.req("P40")
async def test_an_invalid_session_three_times_in_a_row(rig: Rig) -> None:
    gateway = rig.discord.gateway
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    gateway.refuse_identify.extend([0, 0])
    gateway.invalidate()
    for number in range(5):
        rig.discord.say(rig.ann, rig.general, f"gap {number}")
    await rig.host.received(6)
    assert len(gateway.identified) == 1 + 3
    assert rig.host.texts == ["before", *(f"gap {number}" for number in range(5))]


@pytest.mark.req("P40", "P05")
async def test_live_messages_do_not_overtake_missed_ones(rig: Rig) -> None:
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    await rig.stop()
    rig.discord.say(rig.ann, rig.general, "missed")
    # History answers late; meanwhile people go on talking, from the first moment.
    rig.discord.fail(Kind.CUT_BEFORE, "history", times=6)
    await rig.begin()
    rig.discord.say(rig.ann, rig.general, "live")
    await rig.discord.until(lambda: len(rig.discord.calls("history")) > 4)
    rig.discord.say(rig.ann, rig.general, "later")
    await rig.host.received(4)
    assert rig.host.texts == ["before", "missed", "live", "later"]
    # Not even what was handed over twice came too early: a crash in between would have lost what was missed.
    handed = [one.text for one in rig.host.handed if isinstance(one, Inbound) and one.seen]
    assert handed.index("missed") < handed.index("live")


@pytest.mark.req("P40")
@pytest.mark.parametrize("kind", [Kind.CUT_BEFORE, Kind.CUT_AFTER, Kind.ERROR, Kind.RATE_LIMIT, Kind.HTML])
async def test_catching_up_goes_on_until_it_works(rig: Rig, kind: Kind) -> None:
    rig.discord.say(rig.ann, rig.dm, "before")
    await rig.host.received(1)
    await rig.stop()
    rig.discord.say(rig.ann, rig.dm, "missed")
    rig.discord.fail(kind, "history", times=4, status=503)
    rig.discord.fail(kind, "channel", times=4, status=503)
    await rig.restart()
    await rig.host.received(2)
    assert rig.host.texts == ["before", "missed"]


@pytest.mark.req("P40")
async def test_rooms_that_are_gone_do_not_hinder_the_others(rig: Rig) -> None:
    gone = rig.discord.add_channel(rig.guild, "gone")
    closed = rig.discord.add_guild("Closed", rig.discord.bot, rig.ann)
    shut = rig.discord.add_channel(closed, "shut")
    await rig.restart()
    for place in (gone, shut, rig.general):
        rig.discord.say(rig.ann, place, "before")
    await rig.host.received(3)
    await rig.stop()
    for place in (gone, shut, rig.general):
        rig.discord.say(rig.ann, place, "missed")
    gone.gone = True
    del closed.members[rig.discord.bot.id]
    rig.host.last["not a number"] = "1"
    await rig.restart()
    await rig.host.received(4)
    assert [one.address.chat for one in rig.host.inbox if one.text == "missed"] == [str(rig.general.id)]
    # And these rooms do not stay shut for ever.
    rig.discord.say(rig.ann, rig.general, "now")
    await rig.host.received(5)


@pytest.mark.req("P40")
async def test_a_message_that_cannot_be_read_ends_neither_the_room_nor_the_run(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    await rig.stop()
    real = receiving.inbound

    def picky(message: discord.Message, **how: Any) -> Inbound | None:
        if message.content == "poison":
            raise ValueError("cannot")
        return real(message, **how)

    monkeypatch.setattr(receiving, "inbound", picky)
    rig.discord.say(rig.ann, rig.general, "poison")
    rig.discord.say(rig.ann, rig.general, "missed")
    await rig.restart()
    rig.discord.say(rig.ann, rig.general, "poison")
    rig.discord.say(rig.ann, rig.general, "live")
    await rig.host.received(3)
    assert rig.host.texts == ["before", "missed", "live"]


@pytest.mark.req("P40")
async def test_of_very_many_the_newest_are_taken_and_it_is_said(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catching_up, "MOST", 250)
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    await rig.stop()
    for number in range(300):
        rig.discord.say(rig.ann, rig.general, str(number))
    await rig.restart()
    await rig.host.received(251)
    assert rig.host.texts == ["before", *map(str, range(50, 300))]
    assert "only the newest" in caplog.text


@pytest.mark.req("P05")
async def test_a_few_hundred_are_all_taken_in_order(rig: Rig) -> None:
    rig.discord.say(rig.ann, rig.dm, "before")
    await rig.host.received(1)
    await rig.stop()
    for number in range(230):
        rig.discord.say(rig.ann, rig.dm, str(number))
    await rig.restart()
    await rig.host.received(231)
    assert rig.host.texts == ["before", *map(str, range(230))]


@pytest.mark.req("P05")
async def test_what_was_heard_but_not_stored_when_it_ended_is_read_again(rig: Rig) -> None:
    rig.discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    rig.host.storing.clear()
    for number in range(5):
        rig.discord.say(rig.ann, rig.general, str(number))
    await rig.host.until(lambda: rig.host.waiting == 1)
    await rig.stop()
    rig.host.waiting = 0
    rig.host.storing.set()
    await rig.restart()
    await rig.host.received(6)
    assert rig.host.texts == ["before", *map(str, range(5))]


@pytest.mark.req("P06")
async def test_twenty_restarts_under_load(rig: Rig) -> None:
    said = 0

    async def talk() -> None:
        nonlocal said
        while said < 100:
            rig.discord.say(rig.ann, rig.general, f"number {said}")
            said += 1
            await asyncio.sleep(0.01)

    rig.discord.say(rig.ann, rig.general, "first")
    await rig.host.received(1)
    talking = asyncio.create_task(talk())
    for _ in range(20):
        await rig.restart()
    await talking
    await rig.host.received(101)
    assert rig.host.texts == ["first", *(f"number {number}" for number in range(100))]
