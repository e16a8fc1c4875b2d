"""Whether a message arrived, when nobody knows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from routing.errors import DeliveryFailed
from tests.channels.discord.doubles import Rig
from tests.fakes.discord.faults import Kind
from tests.fakes.discord.server import FakeDiscord


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def discord(clock: Clock) -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord(clock, heartbeat_ms=200) as fake:
        yield fake


@pytest.mark.req("P02")
async def test_within_minutes_the_nonce_serves_and_later_the_search(rig: Rig, clock: Clock) -> None:
    item = rig.item("answer", rig.discord.say(rig.ann, rig.general, "question"))
    rig.discord.fail(Kind.CUT_AFTER, "send")
    with pytest.raises(DeliveryFailed):
        await rig.channel.send(item)
    await rig.restart()
    clock.now += 60
    first = await rig.channel.send(item)
    clock.now += 3600
    await rig.restart()
    assert await rig.channel.find(item) == first
    assert rig.discord.texts(rig.general, rig.discord.bot) == ["answer"]
    # The fake does forget: without the search it would be there twice.
    await rig.channel.send(item)
    assert rig.discord.texts(rig.general, rig.discord.bot) == ["answer", "answer"]


@pytest.mark.req("P02")
async def test_our_own_echo_tells_which_message_it_was(rig: Rig) -> None:
    one, two = rig.item("same", rig.general), rig.item("same", rig.general)
    first = await rig.channel.send(one)
    rig.discord.fail(Kind.CUT_AFTER, "send")
    with pytest.raises(DeliveryFailed):
        await rig.channel.send(two)
    await rig.ready()
    ours = [str(message.id) for message in rig.discord.visible(rig.general)]
    assert [await rig.channel.find(one), await rig.channel.find(two)] == ours == [first, ours[1]]
    assert rig.discord.calls("history") == []


@pytest.mark.req("P02")
async def test_another_answer_with_the_same_words_is_not_taken_for_it(rig: Rig) -> None:
    """The same text under another question, or one that this process knows to be another, is not it."""
    asked = [rig.discord.say(rig.ann, rig.general, text) for text in ("one?", "two?")]
    await rig.channel.send(rig.item("yes", asked[1]))
    await rig.restart()
    missing = rig.item("yes", asked[0], nonce="other")
    assert await rig.channel.find(missing) is None
    await rig.channel.send(rig.item("yes", rig.dm, nonce="third"))
    assert await rig.channel.find(rig.item("yes", rig.dm, nonce="fourth")) is None


@pytest.mark.req("P02")
async def test_a_nonce_in_history_decides(rig: Rig) -> None:
    rig.discord.rest.nonce_in_history = True
    item = rig.item("answer", rig.general)
    sent = await rig.channel.send(item)
    await rig.restart()
    assert await rig.channel.find(item) == sent
    assert await rig.channel.find(replace(item, nonce="another")) is None


@pytest.mark.req("P02")
async def test_words_of_others_are_not_ours(rig: Rig) -> None:
    asked = rig.discord.say(rig.ann, rig.general, "question")
    rig.discord.say(rig.ann, rig.general, "answer")
    assert await rig.channel.find(rig.item("answer", asked)) is None


@pytest.mark.req("P02")
async def test_a_file_is_found_by_name_and_size(rig: Rig) -> None:
    asked = rig.discord.say(rig.ann, rig.general, "export")
    item = rig.item("all of it", asked, filename="history.md")
    sent = await rig.channel.send(item)
    await rig.restart()
    assert await rig.channel.find(item) == sent
    assert await rig.channel.find(replace(item, text="all of it!", nonce="x")) is None
    long = rig.item("y" * 2500, asked)
    sent = await rig.channel.send(long)
    await rig.restart()
    assert await rig.channel.find(long) == sent


@pytest.mark.req("P02")
async def test_a_search_that_fails_says_so(rig: Rig) -> None:
    rig.discord.fail(Kind.CUT_BEFORE, "history", times=3)  # aiohttp repeats what only reads, once
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.find(rig.item("answer", rig.general))
    assert (failed.value.retryable, failed.value.ambiguous) == (True, False)
