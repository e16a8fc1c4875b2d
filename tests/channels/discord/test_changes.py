"""Edits and deletions."""

from __future__ import annotations

import pytest

from routing.messages import Deleted, Edited, Inbound
from tests.channels.discord.doubles import Rig


@pytest.mark.req("P50")
async def test_an_edit_brings_the_new_text(rig: Rig) -> None:
    said = rig.discord.say(rig.ann, rig.general, "teh")
    rig.discord.edit(said, "the")
    await rig.host.until(lambda: rig.host.edits)
    [edited] = rig.host.edits
    assert (edited.text, edited.external_id) == ("the", f"{rig.discord.bot.id}:{said.id}")
    assert edited.address == rig.host.inbox[0].address
    assert [type(one) for one in rig.host.handed[-2:]] == [Inbound, Edited]


@pytest.mark.req("P50")
async def test_an_update_that_nobody_made_is_no_edit(rig: Rig) -> None:
    said = rig.discord.say(rig.ann, rig.general, "see https://example.org")
    rig.discord.unfurl(said)
    rig.discord.say(rig.ann, rig.general, "next")
    await rig.host.received(2)
    assert rig.host.edits == []


async def test_our_own_edits_are_not_heard(rig: Rig) -> None:
    item = rig.item("one", rig.general)
    sent = await rig.channel.send(item)
    await rig.channel.edit(sent, rig.item("two", rig.general))
    rig.discord.say(rig.ann, rig.general, "next")
    await rig.host.received(1)
    assert rig.host.edits == []


async def test_a_deleted_message_is_told(rig: Rig) -> None:
    said = rig.discord.say(rig.ann, rig.general, "oops")
    rig.discord.delete(said)
    await rig.host.until(lambda: rig.host.deleted)
    assert rig.host.deleted == [f"{rig.discord.bot.id}:{said.id}"]
    assert [type(one) for one in rig.host.handed[-2:]] == [Inbound, Deleted]


async def test_many_deleted_at_once_are_told_each(rig: Rig) -> None:
    said = [rig.discord.say(rig.ann, rig.general, str(number)) for number in range(3)]
    rig.discord.delete(*said)
    await rig.host.until(lambda: len(rig.host.deleted) == 3)
    assert rig.host.deleted == [f"{rig.discord.bot.id}:{one.id}" for one in said]
