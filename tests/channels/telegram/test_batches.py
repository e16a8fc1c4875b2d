"""Messages that belong together are marked, others are not."""

import asyncio

import pytest

from tests.channels.telegram.host import HostDouble, running
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, User

pytestmark = pytest.mark.req("P49")

FORWARD = {"type": "hidden_user", "date": 1, "sender_user_name": "Shy"}


async def opened(server: FakeTelegram, bot: Bot, host: HostDouble, number: int) -> list[bool]:
    """All that waits comes in one batch."""
    async with running(server, bot, host):
        return [one.open for one in await host.messages(number)]


async def test_parts_of_an_album(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    server.album(dm, None, "look", None, None)
    dm.say("and now?")
    assert await opened(server, bot, host, 4) == [True, True, True, False]


@pytest.mark.parametrize(("text", "expected"), [("x" * 3999, False), ("x" * 4000, True), ("😀" * 2000, True)])
async def test_a_text_that_the_app_cut(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat, text: str, expected: bool
) -> None:
    dm.say(text)
    dm.say("the rest")
    assert await opened(server, bot, host, 2) == [expected, False]


async def test_a_comment_that_a_forward_or_an_album_follows(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    dm.say("what do you say to this?")
    dm.say("words", forward_origin=FORWARD)
    dm.say("and this?")
    server.album(dm, None, None, None)
    assert await opened(server, bot, host, 5) == [True, True, True, True, True]


async def test_what_others_say_or_elsewhere_changes_nothing(
    server: FakeTelegram, bot: Bot, host: HostDouble, group: Chat, forum: Chat, alice: User
) -> None:
    bob = server.user("Bob")
    group.say("a", alice)
    group.say("forwarded", bob, forward_origin=FORWARD)
    forum.say("b", alice)
    forum.topic("Ops").say("forwarded", alice, forward_origin=FORWARD)
    assert await opened(server, bot, host, 4) == [False, True, False, True]


async def test_messages_of_others_between_a_comment_and_its_forward_do_not_matter(
    server: FakeTelegram, bot: Bot, host: HostDouble, group: Chat, dm: Chat, alice: User
) -> None:
    group.say("look", alice)
    dm.say("elsewhere")
    group.say("forwarded", alice, forward_origin=FORWARD)
    assert sorted(await opened(server, bot, host, 3)) == [False, True, True]


async def test_a_short_message_is_handed_over_at_once(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    """From the moment that the server has it; the best of a few, because other programs run here too."""
    loop = asyncio.get_running_loop()
    took = []
    async with running(server, bot, host):
        for number in range(1, 11):
            begun = loop.time()
            dm.say(f"hi {number}")
            assert not (await host.messages(number))[-1].open
            took.append(loop.time() - begun)
    assert min(took) < 0.05
