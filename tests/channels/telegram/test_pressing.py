"""Buttons under messages, and presses that come back."""

from dataclasses import replace

import pytest

from channels.base import Button, Verdict
from channels.telegram import TelegramChannel
from tests.channels.telegram.host import HostDouble, message, to
from tests.fakes.telegram.faults import CUT_BEFORE, error
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, Message, User

BUTTONS = (Button("Yes", "q:abc:1"), Button("No", "q:abc:2"))


@pytest.fixture
async def question(channel: TelegramChannel, group: Chat) -> Message:
    await channel.send(replace(message(to(group), "May **I**?"), buttons=BUTTONS))
    return group.shown[0]


async def test_buttons_come_and_go_with_edits(channel: TelegramChannel, group: Chat, question: Message) -> None:
    assert [(one["text"], one["callback_data"]) for one in question.buttons] == [("Yes", "q:abc:1"), ("No", "q:abc:2")]
    sent = str(question.id)
    await channel.edit(sent, replace(message(to(group), "May **I**?"), buttons=BUTTONS))
    await channel.edit(sent, replace(message(to(group), "May **I**?"), buttons=()))
    assert (question.text, question.buttons) == ("May I?", [])


async def test_buttons_stay_where_markup_is_refused(channel: TelegramChannel, server: FakeTelegram, dm: Chat) -> None:
    server.faults.add("sendMessage", error(400, "Bad Request: can't parse entities: nonsense"))
    await channel.send(replace(message(to(dm), "May **I**?"), buttons=BUTTONS))
    assert len(dm.shown[0].buttons) == 2


async def test_a_press_is_handed_over_and_answered_to_whoever_pressed(
    host: HostDouble, bot: Bot, server: FakeTelegram, group: Chat, question: Message, alice: User
) -> None:
    host.verdict = Verdict("x" * 300, alert=True)
    press = group.press(question, 1, alice)
    await server.until(lambda: press in bot.answers)
    assert bot.answers[press] == ("x" * 200, True)
    [one] = host.presses
    assert (one.channel, one.account, one.chat, one.data) == ("telegram", "main", str(group.id), "q:abc:2")
    assert (one.sender.id, one.sender.name) == (str(alice.id), "Alice")
    assert question.buttons
    assert host.taken == []


@pytest.mark.parametrize("fault", [CUT_BEFORE, error(400, "Bad Request: query is too old")])
async def test_a_press_counts_although_it_cannot_be_answered(
    host: HostDouble, server: FakeTelegram, group: Chat, question: Message, alice: User, fault: object
) -> None:
    server.faults.add("answerCallbackQuery", fault)  # type: ignore[arg-type]
    host.verdict = Verdict("over", over=True)
    group.press(question, 0, alice)
    await server.until(lambda: not question.buttons)
    assert len(host.presses) == 1
    group.say("goes on", alice)
    await host.count(1)
