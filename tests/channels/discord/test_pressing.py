"""Buttons under messages, and presses that come back."""

from __future__ import annotations

import asyncio

import pytest

from channels.base import Button, Verdict
from routing.messages import Press
from tests.channels.discord.doubles import Rig
from tests.fakes.discord.model import Message

BUTTONS = (Button("Yes", "q:abc:1"), Button("No", "q:abc:2"))


async def shown(rig: Rig, sent: str) -> Message:
    return rig.general.messages[int(sent)]


async def test_buttons_come_and_go_with_edits(rig: Rig) -> None:
    sent = await rig.channel.send(rig.item("May I?", rig.general, buttons=BUTTONS))
    question = await shown(rig, sent)
    assert [(one["label"], one["custom_id"]) for one in question.buttons] == [("Yes", "q:abc:1"), ("No", "q:abc:2")]
    # The same text: only the buttons go.
    await rig.channel.edit(sent, rig.item("May I?", rig.general, buttons=()))
    assert (question.content, question.buttons) == ("May I?", [])


@pytest.mark.req("P42")
async def test_a_press_is_acknowledged_while_it_is_still_being_decided(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    presses: list[Press] = []

    async def slowly(press: Press) -> Verdict:
        presses.append(press)
        await go_on.wait()
        return Verdict("Not you.", alert=True)

    monkeypatch.setattr(rig.host, "press", slowly)
    thread = rig.discord.add_thread(rig.general, "aside")
    sent = await rig.channel.send(rig.item("May I?", thread, buttons=BUTTONS))
    press = rig.discord.press_button(rig.ann, thread.messages[int(sent)], 0)
    await rig.discord.until(lambda: press.acknowledged_after is not None)
    assert press.whispers == []
    go_on.set()
    await rig.discord.until(lambda: press.whispers)
    assert press.whispers == ["Not you."]
    [one] = presses
    assert (one.channel, one.account, one.chat, one.data) == ("discord", "main", str(rig.general.id), "q:abc:1")
    assert (one.sender.id, one.sender.name) == (str(rig.ann.id), "Ann")


async def test_buttons_that_do_nothing_any_more_are_taken_away(rig: Rig) -> None:
    rig.host.verdict = Verdict("It is over.", alert=True, over=True)
    question = await shown(rig, await rig.channel.send(rig.item("May I?", rig.general, buttons=BUTTONS)))
    rig.discord.press_button(rig.ann, question, 1)
    await rig.discord.until(lambda: not question.buttons)
    assert question.content == "May I?"
    # And what people write is still taken.
    rig.discord.say(rig.ann, rig.general, "goes on")
    assert [one.text for one in await rig.host.received(1)] == ["goes on"]
