"""Slash commands: the menu, the acknowledgement, the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from channels.base import MenuItem
from routing.errors import DeliveryFailed
from routing.keys import PeerKind
from routing.messages import Addressed, Inbound
from tests.channels.discord.doubles import QUICK, Rig
from tests.fakes.discord.faults import Kind
from tests.fakes.discord.model import Pressed
from tests.fakes.discord.server import FakeDiscord

MENU = (
    MenuItem(name="help", description="What I can do"),
    MenuItem(name="agent", description="Choose an agent " + "x" * 200, argument="Name of it"),
)


@pytest.fixture
async def idle(discord: FakeDiscord) -> AsyncIterator[Rig]:
    rig = Rig(discord, menu=MENU)
    yield rig
    await rig.stop()


async def press(rig: Rig, name: str = "help") -> tuple[Pressed, Inbound]:
    before = len(rig.host.inbox)
    pressed = rig.discord.press(rig.ann, rig.general, name, bot=rig.discord.bot)
    found = (await rig.host.received(before + 1))[before]
    return pressed, found


@pytest.mark.req("P42")
async def test_the_menu_is_written_once_and_again_only_when_it_changed(rig: Rig) -> None:
    rest = rig.discord.rest
    await rig.host.until(lambda: rig.host.facts)
    assert rest.command_writes == 1
    one, two = rest.commands[rig.discord.bot.application]
    assert (one["name"], one["description"], one["options"]) == ("help", "What I can do", [])
    assert len(two["description"]) == 100
    assert [option["name"] for option in two["options"]] == ["name_of_it"]
    for _ in range(10):
        await rig.restart()
    assert rest.command_writes == 1
    rig.host.menu = MENU[:1]
    await rig.restart()
    await rig.discord.until(lambda: rest.command_writes == 2)
    assert [one["name"] for one in rest.commands[rig.discord.bot.application]] == ["help"]


@pytest.mark.req("P42")
async def test_a_menu_that_could_not_be_written_is_tried_at_the_next_start(idle: Rig) -> None:
    idle.discord.fail(Kind.RATE_LIMIT, "put_commands", retry_after=86_400.0)
    await idle.start()
    await idle.discord.until(lambda: idle.discord.calls("put_commands"))
    await idle.ready()
    assert idle.host.facts == {}
    await idle.restart()
    await idle.host.until(lambda: idle.host.facts)
    assert idle.discord.rest.command_writes == 1


async def test_a_command_comes_in_as_if_it_was_typed(rig: Rig) -> None:
    role = rig.discord.add_role(rig.guild, "Cooks")
    rig.discord.join(rig.guild, rig.ann, role)
    pressed = rig.discord.press(rig.ann, rig.general, "agent", ("name", "main  one"), bot=rig.discord.bot)
    [found] = await rig.host.received(1)
    assert found.text == "/agent main  one"
    assert found.addressed is Addressed.COMMAND
    assert found.external_id == f"{rig.discord.bot.id}:{pressed.id}"
    assert (found.address.chat, found.guild) == (str(rig.general.id), str(rig.guild.id))
    assert (found.sender.id, found.roles) == (str(rig.ann.id), frozenset({str(role.id)}))
    assert found.seen is None
    assert found.peer_kind is PeerKind.CHANNEL


async def test_a_command_in_a_direct_message_and_in_a_thread(rig: Rig) -> None:
    thread = rig.discord.add_thread(rig.general, "old", announce=False)
    rig.discord.press(rig.ann, rig.dm, "help", bot=rig.discord.bot)
    rig.discord.press(rig.ann, thread, "help", bot=rig.discord.bot)
    found = {one.peer_kind: one for one in await rig.host.received(2)}
    assert found[PeerKind.DM].address.chat == str(rig.dm.id)
    place = found[PeerKind.CHANNEL].address
    assert (place.chat, place.thread) == (str(rig.general.id), str(thread.id))


@pytest.mark.req("P42")
async def test_it_is_acknowledged_within_a_second_whatever_else_waits(rig: Rig) -> None:
    rig.host.storing.clear()
    rig.discord.say(rig.ann, rig.general, "the store is busy")
    pressed = rig.discord.press(rig.ann, rig.general, "help", bot=rig.discord.bot)
    began = time.monotonic()
    await rig.discord.until(lambda: pressed.acknowledged_after is not None)
    assert time.monotonic() - began < 1
    assert pressed.message is not None
    assert pressed.message.thinking
    rig.host.storing.set()
    await rig.host.received(2)


async def test_the_answer_takes_the_place_of_thinking_and_the_next_is_a_message(rig: Rig) -> None:
    pressed, found = await press(rig)
    sent = await rig.channel.send(rig.item("@everyone this is it", found))
    assert pressed.message is not None
    assert sent == str(pressed.message.id)
    assert not pressed.message.thinking
    assert pressed.message.pinged == set()
    await rig.channel.send(rig.item("and more", found))
    await rig.channel.edit(sent, rig.item("this is all", found))
    assert rig.discord.texts(rig.general) == ["this is all", "and more"]


@pytest.mark.req("P02")
@pytest.mark.parametrize("kind", [Kind.CUT_BEFORE, Kind.CUT_AFTER, Kind.ERROR_AFTER])
async def test_an_answer_that_got_lost_is_given_once(rig: Rig, kind: Kind) -> None:
    _, found = await press(rig)
    item = rig.item("answer", found)
    rig.discord.fail(kind, "edit_original", status=503)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(item)
    assert (failed.value.retryable, failed.value.ambiguous) == (True, True)
    sent = await rig.channel.find(item)
    assert (sent is None) == (kind is Kind.CUT_BEFORE)
    again = await rig.channel.send(item)
    assert sent in (None, again)
    assert rig.discord.texts(rig.general) == ["answer"]


@pytest.mark.req("P02")
async def test_after_a_restart_an_answer_is_neither_repeated_nor_overwritten(rig: Rig) -> None:
    _, found = await press(rig)
    first = rig.item("first", found)
    rig.discord.fail(Kind.CUT_AFTER, "edit_original")
    with pytest.raises(DeliveryFailed):
        await rig.channel.send(first)
    await rig.restart()
    assert await rig.channel.send(first) == await rig.channel.find(first)
    await rig.restart()
    await rig.channel.send(rig.item("second", found))
    assert rig.discord.texts(rig.general) == ["first", "second"]


async def test_after_a_restart_a_command_that_still_waits_gets_its_answer(rig: Rig) -> None:
    pressed, found = await press(rig)
    await rig.restart()
    sent = await rig.channel.send(rig.item("answer", found))
    assert pressed.message is not None
    assert sent == str(pressed.message.id)
    assert rig.discord.texts(rig.general) == ["answer"]


async def test_too_late_for_an_answer_it_is_a_message(discord: FakeDiscord) -> None:
    clock = [time.time()]
    discord.clock = lambda: clock[0]
    rig = Rig(discord)
    await rig.start()
    pressed, found = await press(rig)
    await rig.discord.until(lambda: pressed.acknowledged_after is not None)
    clock[0] += 14 * 60 + 1
    calls = len(discord.calls())
    sent = await rig.channel.send(rig.item("late", found))
    assert pressed.message is not None
    assert sent != str(pressed.message.id)
    assert [call.name for call in discord.journal[calls:]] == ["send"]
    assert await rig.channel.find(rig.item("late", found, nonce="n1")) == sent
    await rig.stop()


async def test_an_interaction_that_discord_forgot_is_answered_by_a_message(rig: Rig) -> None:
    rig.discord.fail(Kind.ERROR, "acknowledge", status=404, code=10062)
    _, found = await press(rig)
    await rig.channel.send(rig.item("all the same", found))
    assert rig.discord.texts(rig.general) == ["all the same"]


async def test_a_file_is_a_message_and_the_thinking_ends(rig: Rig) -> None:
    pressed, found = await press(rig)
    await rig.channel.send(rig.item("everything", found, filename="export.md"))
    assert pressed.message is not None
    assert pressed.message.deleted
    [message] = rig.discord.visible(rig.general)
    assert [file.name for file in message.files] == ["export.md"]


async def test_a_command_that_nobody_answers_stops_thinking(discord: FakeDiscord) -> None:
    rig = Rig(discord, timing=replace(QUICK, answer=0.2))
    await rig.start()
    pressed, found = await press(rig)
    await discord.until(lambda: pressed.message and pressed.message.deleted)
    await rig.channel.send(rig.item("better late", found))
    assert discord.texts(rig.general) == ["better late"]
    answered, found = await press(rig)
    await rig.channel.send(rig.item("in time", found))
    await asyncio.sleep(0.3)  # there is no event for what must not happen
    assert answered.message is not None
    assert not answered.message.deleted
    await rig.stop()
