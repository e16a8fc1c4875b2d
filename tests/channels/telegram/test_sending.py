"""What goes out, and what becomes of it when Telegram refuses."""

import pytest

from channels.telegram import TelegramChannel
from channels.telegram.sending import BLANK, TOPIC_GONE
from routing.errors import DeliveryFailed
from routing.messages import Address
from tests.channels.telegram.host import HostDouble, message, running, to
from tests.fakes.telegram.faults import error
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Chat, User


async def test_markdown_becomes_text_with_entities(channel: TelegramChannel, server: FakeTelegram, dm: Chat) -> None:
    sent = await channel.send(message(to(dm), "**bold** 😀 and `code` at https://example.org"))
    (shown,) = dm.shown
    assert sent == str(shown.id)
    assert shown.text == "bold 😀 and code at https://example.org"
    assert [(one["type"], one["offset"], one["length"]) for one in shown.entities][:2] == [
        ("bold", 0, 4),
        ("code", 12, 4),
    ]
    (call,) = server.calls("sendMessage")
    assert call.params["link_preview_options"] == {"is_disabled": True}
    assert "parse_mode" not in call.params


@pytest.mark.req("P08")
async def test_a_reply_is_tied_to_its_trigger(channel: TelegramChannel, dm: Chat) -> None:
    asked = dm.say("question")
    await channel.send(message(to(dm, reply_to=asked.id), "answer"))
    assert dm.shown[0].reply_to == asked.id


async def test_a_trigger_that_is_gone_does_not_stop_the_answer(channel: TelegramChannel, dm: Chat) -> None:
    await channel.send(message(to(dm, reply_to=999), "answer"))
    assert dm.texts == ["answer"]
    assert dm.shown[0].reply_to is None


@pytest.mark.req("P13")
async def test_an_answer_goes_to_its_topic(channel: TelegramChannel, forum: Chat) -> None:
    ops, art = forum.topic("Ops"), forum.topic("Art")
    await channel.send(message(to(forum, ops.id), "one"))
    await channel.send(message(to(forum), "two"))
    await channel.send(message(to(forum, art.id), "three"))
    assert [(one.text, one.thread) for one in forum.shown] == [("one", ops.id), ("two", None), ("three", art.id)]


@pytest.mark.req("P13")
@pytest.mark.parametrize("text", ["answer", "x" * 4090], ids=["short", "as long as can be"])
async def test_a_topic_that_is_gone_means_the_same_chat_with_a_word(
    channel: TelegramChannel, server: FakeTelegram, forum: Chat, dm: Chat, text: str
) -> None:
    ops = forum.topic("Ops")
    asked = ops.say("question")
    ops.delete()
    await channel.send(message(to(forum, ops.id, asked.id), text))
    assert "\n\n".join(forum.texts) == f"{TOPIC_GONE}\n\n{text}"
    assert {one.thread for one in forum.shown} == {None}
    assert not dm.shown
    assert {call.chat for call in server.calls("sendMessage")} == {forum.id}


@pytest.mark.req("P13")
async def test_a_file_for_a_topic_that_is_gone(channel: TelegramChannel, forum: Chat) -> None:
    await channel.send(message(to(forum, 77), "content", "a.md"))
    notice, file = forum.shown
    assert (notice.text, file.file) == (TOPIC_GONE, b"content")


async def test_a_second_refusal_is_the_last(channel: TelegramChannel, server: FakeTelegram, forum: Chat) -> None:
    server.faults.add("sendMessage", error(400, "Bad Request: message thread not found"), for_ever=True)
    with pytest.raises(DeliveryFailed, match="thread not found") as failure:
        await channel.send(message(to(forum, 77)))
    assert not failure.value.retryable
    assert len(server.calls("sendMessage")) == 2


@pytest.mark.req("P43")
@pytest.mark.parametrize(
    "refusal",
    [
        "can't parse entities: Unsupported start tag",
        "ENTITY_BOUNDS_INVALID",
        "entity beginning at UTF-16 offset 3 ends after the end of the text at UTF-16 offset 2",
    ],
)
async def test_refused_markup_becomes_plain_text(
    channel: TelegramChannel, server: FakeTelegram, dm: Chat, refusal: str
) -> None:
    server.faults.add("sendMessage", error(400, f"Bad Request: {refusal}"))
    sent = await channel.send(message(to(dm), "**bold** and [a link](https://example.org/x)"))
    (shown,) = dm.shown
    assert shown.text == "bold and a link (https://example.org/x)"
    assert not shown.entities
    server.faults.add("editMessageText", error(400, f"Bad Request: {refusal}"))
    await channel.edit(sent, message(to(dm), "**fat**"))
    assert shown.text == "fat"
    # Once more the same, which is not modified then.
    server.faults.add("editMessageText", error(400, f"Bad Request: {refusal}"))
    await channel.edit(sent, message(to(dm), "**fat**"))
    # If plain text is refused too, that is the end.
    server.faults.add("editMessageText", *[error(400, f"Bad Request: {refusal}")] * 2)
    with pytest.raises(DeliveryFailed):
        await channel.edit(sent, message(to(dm), "**fatter**"))
    assert shown.text == "fat"


@pytest.mark.req("P44")
async def test_a_text_that_is_too_long_after_all_becomes_a_file(channel: TelegramChannel, dm: Chat) -> None:
    text = "long " * 1000
    await channel.send(message(to(dm), text))
    assert dm.shown[0].file == text.encode()


@pytest.mark.req("P44")
async def test_the_parts_of_a_long_text_are_taken_one_and_all(channel: TelegramChannel, dm: Chat) -> None:
    text = "\n\n".join(
        f"Paragraph **{number}** 😀 with `code`.\n\n```python\nprint({number})\n```" for number in range(300)
    )
    parts = channel.split(text)
    assert len(parts) > 2
    for part in parts:
        await channel.send(message(to(dm), part))
    whole = "\n".join(dm.texts)
    assert all(f"print({number})" in whole for number in range(300))
    assert not any(one.file for one in dm.shown)


async def test_a_file(channel: TelegramChannel, forum: Chat) -> None:
    ops = forum.topic("Ops")
    asked = ops.say("export")
    sent = await channel.send(message(to(forum, ops.id, asked.id), "# Whole\n**answer**", "answer.md"))
    (shown,) = forum.shown
    assert sent == str(shown.id)
    assert shown.file == b"# Whole\n**answer**"
    assert shown.data["document"]["file_name"] == "answer.md"
    assert (shown.thread, shown.reply_to) == (ops.id, asked.id)


@pytest.mark.parametrize(("text", "shown"), [("", BLANK), (" \n ", BLANK), ("\u200b", BLANK), ("a\ud83d", "a\ufffd")])
async def test_text_that_cannot_be_sent_as_it_is(channel: TelegramChannel, dm: Chat, text: str, shown: str) -> None:
    await channel.send(message(to(dm), text))
    assert dm.texts == [shown]


@pytest.mark.parametrize("text", ["", "a\ud83d"])
async def test_a_file_is_never_empty_nor_unreadable(channel: TelegramChannel, dm: Chat, text: str) -> None:
    await channel.send(message(to(dm), text, "a.txt"))
    assert dm.shown[0].file


@pytest.mark.req("P12")
async def test_an_answer_leaves_by_the_bot_that_was_asked(server: FakeTelegram, alice: User) -> None:
    bots = [server.bot(f"bot{number}_bot") for number in range(3)]
    hosts = [HostDouble() for _ in bots]
    async with (
        running(server, bots[0], hosts[0]) as first,
        running(server, bots[1], hosts[1]) as second,
        running(server, bots[2], hosts[2]) as third,
    ):
        for bot, host, channel in zip(bots, hosts, (first, second, third), strict=True):
            server.dm(bot, alice).say(f"to {bot.user.username}")
            asked = await host.one()
            assert asked.external_id.startswith(f"{bot.user.id}:")
            await channel.send(message(asked.address, f"from {bot.user.username}"))
    for bot in bots:
        (shown,) = server.dm(bot, alice).shown
        assert shown.bot is bot
        assert shown.text == f"from {bot.user.username}"


@pytest.mark.parametrize("address", ["x", "", "@name"])
async def test_an_address_that_is_none(channel: TelegramChannel, address: str) -> None:
    place = Address(channel="telegram", account="main", chat=address)
    for call in (channel.send(message(place)), channel.edit("1", message(place)), channel.typing(place)):
        with pytest.raises(DeliveryFailed, match="no Telegram address") as failure:
            await call
        assert not failure.value.retryable
