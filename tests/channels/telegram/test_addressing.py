"""Whether a message in a group means this bot."""

from typing import Any

import pytest

from routing.messages import Addressed
from tests.channels.telegram.host import HostDouble
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, User

pytestmark = [pytest.mark.usefixtures("channel"), pytest.mark.req("P51")]

NOT, MENTION, REPLY, COMMAND = Addressed.NOT, Addressed.MENTION, Addressed.REPLY, Addressed.COMMAND


def entity(type: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": type, "offset": offset, "length": length, **more}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello all", NOT),
        ("@trunk_bot hello", MENTION),
        ("hello @Trunk_BOT", MENTION),
        ("😀😀 hello @trunk_bot", MENTION),
        ("hello @trunk_bots", NOT),
        ("hello @other_bot", NOT),
        ("mail@trunk_bot.org", NOT),
        ("/status", COMMAND),
        ("/status@trunk_bot", COMMAND),
        ("/status@TRUNK_bot now", COMMAND),
        ("/status@other_bot", NOT),
        ("/status@other_bot and @trunk_bot", MENTION),
        ("say /status", NOT),
        ("/ status", NOT),
    ],
)
async def test_words(host: HostDouble, group: Chat, alice: User, text: str, expected: Addressed) -> None:
    group.say(text, alice)
    assert (await host.one()).addressed is expected


async def test_a_name_alone_is_no_mention_if_telegram_did_not_mark_it(
    host: HostDouble, group: Chat, alice: User
) -> None:
    group.say("`@trunk_bot`", alice, entities=[entity("code", 0, 12)])
    assert (await host.one()).addressed is NOT


async def test_a_mention_in_a_block_quote_is_somebody_else_s(host: HostDouble, group: Chat, alice: User) -> None:
    quoted = [entity("mention", 0, 10), entity("blockquote", 0, 14)]
    group.say("@trunk_bot hey\nwhat is that?", alice, entities=quoted)
    group.say("@trunk_bot hey\n@trunk_bot?", alice, entities=[*quoted, entity("mention", 15, 10)])
    assert [one.addressed for one in await host.messages(2)] == [NOT, MENTION]


async def test_a_mention_of_a_message_that_is_quoted_does_not_count(
    server: FakeTelegram, host: HostDouble, group: Chat, alice: User
) -> None:
    first = group.say("@trunk_bot hey", alice)
    group.say("why?", server.user("Bob"), reply_to=first, quote={"text": "@trunk_bot", "position": 0})
    assert [one.addressed for one in await host.messages(2)] == [MENTION, NOT]


async def test_a_mention_by_id(server: FakeTelegram, host: HostDouble, bot: Bot, group: Chat, alice: User) -> None:
    group.say("Trunk, hi", alice, entities=[entity("text_mention", 0, 5, user=bot.user.json())])
    group.say("Bobby, hi", alice, entities=[entity("text_mention", 0, 5, user=server.user("Bobby").json())])
    assert [one.addressed for one in await host.messages(2)] == [MENTION, NOT]


async def test_a_caption_counts_like_a_text(server: FakeTelegram, host: HostDouble, group: Chat, alice: User) -> None:
    photo = [{**server.file("a.jpg", b"jpg"), "width": 9, "height": 9}]
    mention, command = entity("mention", 5, 10), entity("bot_command", 0, 5)
    group.post(alice, photo=photo, caption="look @trunk_bot", caption_entities=[mention])
    group.post(alice, photo=photo, caption="/keep it", caption_entities=[command])
    group.post(alice, photo=photo, caption="look")
    assert [one.addressed for one in await host.messages(3)] == [MENTION, COMMAND, NOT]


async def test_a_reply_to_the_bot_and_to_others(
    server: FakeTelegram, host: HostDouble, bot: Bot, group: Chat, alice: User
) -> None:
    own = group.new_message({"from": bot.user.json(), "text": "I am the bot"}, bot)
    other = group.new_message({"from": server.user("Bob").json(), "text": "I am Bob"})
    group.say("really?", alice, reply_to=own)
    group.say("really?", alice, reply_to=other)
    group.say("/stop@other_bot", alice, reply_to=own)
    group.say("/stop", alice, reply_to=own)
    taken = await host.messages(4)
    assert [one.addressed for one in taken] == [REPLY, NOT, NOT, COMMAND]
    assert taken[0].quote
    assert taken[0].quote.text == "I am the bot"
    assert taken[0].quote.sender
    assert taken[0].quote.sender.is_bot


async def test_a_topic_that_the_bot_opened_does_not_make_all_in_it_replies(
    host: HostDouble, bot: Bot, forum: Chat, alice: User
) -> None:
    topic = forum.topic("Ops", bot.user)
    topic.say("among ourselves", alice)
    topic.say("really", alice, reply_to=forum.messages[topic.id])
    # Without a word that it is in the topic.
    forum.say("outside", alice, reply_to=forum.messages[topic.id])
    # Telegram leaves out what the first message was, now and then.
    del forum.messages[topic.id].data["forum_topic_created"]
    topic.say("still", alice)
    assert [(one.addressed, one.quote) for one in await host.messages(4)] == [(NOT, None)] * 4


async def test_only_the_bot_s_own_name_is_taken_off_a_command(host: HostDouble, group: Chat, alice: User) -> None:
    for text in ("/new@Trunk_Bot", "/new@trunk_bot and @trunk_bot", "/new@other_bot x", "hi @trunk_bot", "/new x"):
        group.say(text, alice)
    texts = [one.text for one in await host.messages(5)]
    assert texts == ["/new", "/new and @trunk_bot", "/new@other_bot x", "hi @trunk_bot", "/new x"]
