"""Messages of people → what the gateway takes in."""

import pytest

from channels.telegram import TelegramChannel, receiving
from routing.keys import PeerKind
from routing.messages import Address, Inbound, Sender
from tests.channels.telegram.host import HostDouble
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import ANONYMOUS_ADMIN, CHANNEL_BOT, TELEGRAM, Bot, Chat, User

pytestmark = pytest.mark.usefixtures("channel")


async def test_a_direct_message(host: HostDouble, bot: Bot, dm: Chat, alice: User) -> None:
    said = dm.say("Hello, *you*")
    taken = await host.one()
    assert taken.address == Address(channel="telegram", account="main", chat=str(alice.id), reply_to=str(said.id))
    assert taken.external_id == f"{bot.user.id}:1000"
    assert taken.peer_kind is PeerKind.DM
    assert taken.sender == Sender(id=str(alice.id), name="Alice")
    assert taken.text == "Hello, *you*"
    assert not taken.open
    assert not taken.attachments
    assert taken.quote is None
    assert taken.forwarded_from is None


@pytest.mark.parametrize("type", ["group", "supergroup"])
async def test_a_message_in_a_group(server: FakeTelegram, host: HostDouble, bot: Bot, alice: User, type: str) -> None:
    server.group(bot, type=type).say("hi", alice)
    taken = await host.one()
    assert taken.peer_kind is PeerKind.GROUP
    assert int(taken.address.chat) < 0
    assert taken.sender.id == str(alice.id)


async def test_a_channel_post(server: FakeTelegram, host: HostDouble, bot: Bot) -> None:
    news = server.group(bot, type="channel", title="News")
    news.post(text="today", sender_chat=news.json())
    taken = await host.one()
    assert taken.peer_kind is PeerKind.CHANNEL
    assert taken.sender == Sender(id=str(news.id), name="News")


@pytest.mark.req("P10", "P13")
async def test_topics_are_places_of_their_own_and_the_general_one_is_the_chat(
    host: HostDouble, forum: Chat, alice: User
) -> None:
    ops, art = forum.topic("Ops"), forum.topic("Art")
    forum.say("general", alice)
    ops.say("one", alice)
    art.say("two", alice)
    # Some servers name the general topic.
    forum.say("general again", alice, message_thread_id=1, is_topic_message=True)
    taken = await host.messages(4)
    assert [one.address.thread for one in taken] == [None, str(ops.id), str(art.id), None]
    assert {one.address.chat for one in taken} == {str(forum.id)}


@pytest.mark.req("P13")
async def test_a_thread_of_replies_outside_a_forum_is_no_place(host: HostDouble, group: Chat, alice: User) -> None:
    group.say("in a thread of comments", alice, message_thread_id=77)
    assert (await host.one()).address.thread is None


@pytest.mark.req("P56")
async def test_only_a_person_has_the_id_of_a_person(
    server: FakeTelegram, host: HostDouble, bot: Bot, group: Chat, alice: User
) -> None:
    """Anonymous administrators, channels and linked posts are chats; bots are bots; names decide nothing."""
    other = server.group(bot, type="channel", title="Elsewhere")
    impostor = server.user(alice.name, username=alice.username)
    robot = server.user("Robot", username="robot_bot", is_bot=True)
    group.say("anonymous", ANONYMOUS_ADMIN, as_chat=group)
    group.say("as a channel", CHANNEL_BOT, as_chat=other)
    origin = {"type": "channel", "date": 1, "chat": other.json(), "message_id": 5}
    group.say("linked", TELEGRAM, as_chat=other, is_automatic_forward=True, forward_origin=origin)
    group.say("namesake", impostor)
    group.say("robot", robot)
    taken = await host.messages(5)
    ids = [one.sender.id for one in taken]
    assert ids == [str(group.id), str(other.id), str(other.id), str(impostor.id), str(robot.id)]
    assert [one.sender.is_bot for one in taken] == [False, False, False, False, True]
    assert str(alice.id) not in ids
    assert not taken[2].open


async def test_a_reply_quotes_the_message_it_answers(
    server: FakeTelegram, host: HostDouble, group: Chat, alice: User
) -> None:
    bob = server.user("Bob")
    first = group.say("the roof leaks", alice)
    group.say("and now?", bob, reply_to=first)
    _, taken = await host.messages(2)
    assert taken.quote
    assert taken.quote.text == "the roof leaks"
    assert taken.quote.sender == Sender(id=str(alice.id), name="Alice")


async def test_a_part_that_was_quoted_stands_for_the_whole(host: HostDouble, group: Chat, alice: User) -> None:
    first = group.say("the roof leaks and the cellar is wet", alice)
    group.say("this", alice, reply_to=first, quote={"text": "the cellar", "position": 19})
    _, taken = await host.messages(2)
    assert taken.quote
    assert taken.quote.text == "the cellar"


async def test_a_quote_of_a_picture_or_from_another_chat(
    server: FakeTelegram, host: HostDouble, group: Chat, alice: User
) -> None:
    (picture,) = server.album(group, alice, None)
    group.say("what is it?", alice, reply_to=picture)
    origin = {"type": "user", "date": 1, "sender_user": alice.json()}
    group.say("and this?", alice, external_reply={"origin": origin}, quote={"text": "far away", "position": 0})
    group.say(
        "and that?", alice, external_reply={"origin": {"type": "hidden_user", "date": 1, "sender_user_name": "X"}}
    )
    group.say("seen?", alice, reply_to_story={"id": 1, "chat": group.json()})
    quotes = [one.quote for one in (await host.messages(5))[1:]]
    assert [quote.text if quote else None for quote in quotes] == [
        "[image]",
        "far away",
        "[a message from another chat]",
        "[story]",
    ]
    assert [quote.sender.id if quote and quote.sender else None for quote in quotes] == [
        str(alice.id),
        str(alice.id),
        None,
        str(group.id),
    ]


async def test_a_topic_s_first_message_is_not_quoted(host: HostDouble, forum: Chat, alice: User) -> None:
    forum.topic("Ops").say("hi", alice)
    assert (await host.one()).quote is None


async def test_a_forward_names_its_author_as_shown(
    server: FakeTelegram, host: HostDouble, bot: Bot, dm: Chat, alice: User
) -> None:
    news = server.group(bot, type="channel", title="News")
    for origin in (
        {"type": "user", "sender_user": alice.json()},
        {"type": "hidden_user", "sender_user_name": "Shy"},
        {"type": "chat", "sender_chat": news.json()},
        {"type": "channel", "chat": news.json(), "message_id": 3},
    ):
        dm.say("words", forward_origin={"date": 1, **origin})
    taken = await host.messages(4)
    assert [one.forwarded_from for one in taken] == ["Alice", "Shy", "News", "News"]
    assert all(one.open for one in taken)


@pytest.mark.req("P50")
async def test_an_edit_is_handed_over_with_the_message_s_own_id(host: HostDouble, dm: Chat) -> None:
    said = dm.say("wehre")
    dm.edit(said, "where")
    taken = await host.edited()
    assert taken.text == "where"
    assert taken.address.reply_to == str(said.id)
    first = host.taken[0]
    assert isinstance(first, Inbound)
    assert taken.external_id != first.external_id


@pytest.mark.req("P50")
async def test_an_edit_without_words_is_not_handed_over(host: HostDouble, dm: Chat) -> None:
    live = dm.post(location={"latitude": 1.0, "longitude": 2.0, "live_period": 60})
    dm.edit(live, location={"latitude": 1.5, "longitude": 2.0, "live_period": 60})
    dm.say("end")
    assert [one.text for one in await host.messages(2)] == ["[location 1.0, 2.0]", "end"]


async def test_an_edit_of_a_caption_or_a_channel_s_post(server: FakeTelegram, host: HostDouble, bot: Bot) -> None:
    news = server.group(bot, type="channel", title="News")
    (post,) = server.album(news, None, "old")
    news.edit(post, "new")
    assert (await host.edited()).text == "new"


async def test_what_telegram_says_about_a_chat_is_no_message(
    server: FakeTelegram, host: HostDouble, forum: Chat, alice: User
) -> None:
    forum.post(alice, new_chat_members=[server.user("Bob").json()])
    forum.post(alice, left_chat_member=alice.json())
    forum.post(alice, new_chat_title="Better")
    forum.post(alice, delete_chat_photo=True)
    forum.post(alice, message_auto_delete_timer_changed={"message_auto_delete_time": 60})
    forum.post(alice, video_chat_started={})
    forum.topic("Ops")
    forum.say("end", alice)
    assert (await host.one()).text == "end"


async def test_membership_and_the_bot_s_own_words_are_no_messages(host: HostDouble, bot: Bot, dm: Chat) -> None:
    dm.close_to("bot was blocked by the user")
    dm.open()
    dm.say("myself", bot.user)
    dm.say("end")
    assert (await host.one()).text == "end"


@pytest.mark.req("P16")
async def test_a_group_that_becomes_a_supergroup_has_moved(server: FakeTelegram, host: HostDouble, bot: Bot) -> None:
    old = server.group(bot, type="group")
    new = server.migrate(old)
    moves = await host.moves(2)
    assert {(move.channel, move.account, move.old, move.new) for move in moves} == {
        ("telegram", "main", str(old.id), str(new.id))
    }


async def test_an_update_that_cannot_be_converted_does_not_stop_the_next(
    host: HostDouble, dm: Chat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def quote_of(message: object) -> None:
        if getattr(message, "text", None) == "bad":
            raise ValueError("bad")

    monkeypatch.setattr(receiving, "quote_of", quote_of)
    dm.say("bad")
    dm.say("good")
    assert (await host.one()).text == "good"
    assert "update 1000 is left out" in caplog.text


async def test_an_update_that_the_library_cannot_read_does_not_make_the_bot_deaf(
    host: HostDouble, bot: Bot, dm: Chat, channel: TelegramChannel
) -> None:
    bot.push("message", {"message_id": 1, "date": "no date", "chat": 7})
    dm.say("good")
    assert (await host.one()).text == "good"
    assert "Telegram's answer cannot be understood" in host.troubles[0]
    assert host.health[-1] == "alive"
