"""What a failed call means: try again, when, or never; and whether it may have arrived."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from channels.telegram import TelegramChannel
from routing.errors import DeliveryFailed
from tests.channels.telegram.host import IMPATIENT, HostDouble, message, running, to
from tests.fakes.telegram.faults import CUT_AFTER, CUT_BEFORE, HANG, HANG_AFTER, HTML, Fault, error, retry_after
from tests.fakes.telegram.limits import Limits
from tests.fakes.telegram.server import Call, FakeTelegram
from tests.fakes.telegram.world import Bot, Chat


async def refused(channel: TelegramChannel, chat: Chat, text: str = "hello") -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as failure:
        await channel.send(message(to(chat), text))
    # The exception of the library would show the URL in a trace.
    assert failure.value.__suppress_context__
    return failure.value


@pytest.mark.req("P16")
@pytest.mark.parametrize(
    "why",
    ["bot was blocked by the user", "user is deactivated", "bot was kicked from the supergroup chat"],
)
async def test_a_chat_that_is_closed_to_us(channel: TelegramChannel, server: FakeTelegram, dm: Chat, why: str) -> None:
    dm.close_to(why)
    failure = await refused(channel, dm)
    assert (failure.retryable, failure.blocked, failure.ambiguous) == (False, True, False)
    assert why in failure.why
    assert len(server.calls("sendMessage")) == 1
    with pytest.raises(DeliveryFailed) as typing:
        await channel.typing(to(dm))
    assert typing.value.blocked
    dm.open()
    await channel.send(message(to(dm)))


@pytest.mark.req("P16")
@pytest.mark.parametrize(
    ("why", "blocked"),
    [
        ("chat not found", True),
        ("not enough rights to send text messages to the chat", True),
        ("have no rights to send a message", True),
        ("CHAT_WRITE_FORBIDDEN", True),
        ("PEER_ID_INVALID", True),
        ("need administrator rights in the channel chat", True),
        ("TOPIC_CLOSED", False),
        ("something else", False),
    ],
)
async def test_refusals(channel: TelegramChannel, server: FakeTelegram, dm: Chat, why: str, blocked: bool) -> None:
    server.faults.add("sendMessage", error(400, f"Bad Request: {why}"))
    failure = await refused(channel, dm)
    assert (failure.retryable, failure.blocked, failure.ambiguous) == (False, blocked, False)


async def test_a_chat_that_nobody_knows(channel: TelegramChannel, server: FakeTelegram, bot: Bot) -> None:
    stranger = server.group(server.bot("other_bot"))
    assert (await refused(channel, stranger)).blocked


@pytest.mark.req("P41")
async def test_a_pause_that_telegram_wants(channel: TelegramChannel, server: FakeTelegram, dm: Chat) -> None:
    server.faults.add("*", retry_after(238), for_ever=True)
    failure = await refused(channel, dm)
    assert (failure.retryable, failure.retry_after, failure.ambiguous) == (True, 238, False)
    assert len(server.calls("sendMessage")) == 1
    with pytest.raises(DeliveryFailed) as edit:
        await channel.edit("5", message(to(dm)))
    assert edit.value.retry_after == 238


@pytest.mark.req("P41")
async def test_the_real_limits_hold_one_chat_only(
    channel: TelegramChannel, server: FakeTelegram, bot: Bot, dm: Chat, group: Chat
) -> None:
    server.limits = Limits(private=(2, 60.0), group=None)
    await channel.send(message(to(dm), "1"))
    await channel.send(message(to(dm), "2"))
    failure = await refused(channel, dm)
    assert failure.retry_after
    assert 50 <= failure.retry_after <= 60
    await channel.send(message(to(group), "elsewhere"))
    assert server.limits.early == []
    await refused(channel, dm)
    assert [chat for _, chat in server.limits.early] == [dm.id]


@pytest.mark.req("P16")
async def test_a_group_that_moved_is_told_and_tried_again(server: FakeTelegram, bot: Bot, host: HostDouble) -> None:
    old = server.group(bot, type="group")
    new = server.group(bot)
    old.moved_to = new.id
    async with running(server, bot, host) as channel:
        failure = await refused(channel, old)
        assert (failure.retryable, failure.retry_after, failure.ambiguous) == (True, 0, False)
        (move,) = await host.moves(1)
        assert (move.channel, move.account, move.old, move.new) == ("telegram", "main", str(old.id), str(new.id))
        # What was said in the old one cannot be changed in the new one, whose ids are others.
        with pytest.raises(DeliveryFailed) as edit:
            await channel.edit("5", message(to(old)))
        assert not edit.value.retryable


@pytest.mark.req("P02")
@pytest.mark.parametrize(
    ("fault", "arrived"),
    [
        (CUT_BEFORE, False),
        (CUT_AFTER, True),
        (HANG, False),
        (HANG_AFTER, True),
        (error(500, "Internal Server Error"), False),
        (error(502, "Bad Gateway"), False),
        (HTML, False),
    ],
)
async def test_an_outcome_that_nobody_knows(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat, fault: Fault, arrived: bool
) -> None:
    async with running(server, bot, host, IMPATIENT) as channel:
        server.faults.add("sendMessage", fault)
        failure = await refused(channel, dm)
        assert (failure.retryable, failure.ambiguous, failure.retry_after) == (True, True, None)
        assert bool(dm.shown) is arrived
        assert len(server.calls("sendMessage")) == 1, "the channel itself never repeats"
        sent = await channel.send(message(to(dm), "x"))
        # An edit may be repeated, so that nothing about it is uncertain.
        server.faults.add("editMessageText", fault)
        with pytest.raises(DeliveryFailed) as edit:
            await channel.edit(sent, message(to(dm), "y"))
        assert (edit.value.retryable, edit.value.ambiguous) == (True, False)
        await channel.edit(sent, message(to(dm), "y"))


@pytest.mark.req("P02")
async def test_a_server_that_is_not_there_has_nothing(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    async with running(server, bot, host) as channel:
        await server.go_down()
        failure = await refused(channel, dm)
        assert (failure.retryable, failure.ambiguous) == (True, False)
        assert failure.why == "cannot reach Telegram (ConnectError)"


async def test_too_many_at_once_wait_and_nothing_is_uncertain(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    """All connections hang: whoever finds none has sent nothing."""
    server.faults.add("sendMessage", HANG, for_ever=True)
    async with running(server, bot, host, replace(IMPATIENT, connect=0.2, answer=0.8)) as channel:
        results = await asyncio.gather(
            *(channel.send(message(to(dm), str(number))) for number in range(40)), return_exceptions=True
        )
    failures = [one for one in results if isinstance(one, DeliveryFailed)]
    assert len(failures) == 40
    assert sum(one.ambiguous for one in failures) == len(server.calls("sendMessage"))
    assert any("PoolTimeout" in one.why for one in failures)


async def test_too_large(channel: TelegramChannel, server: FakeTelegram, dm: Chat) -> None:
    server.faults.add("sendMessage", error(413, "Request Entity Too Large"))
    failure = await refused(channel, dm)
    assert (failure.retryable, failure.ambiguous) == (False, False)


async def test_a_token_that_is_refused_keeps_the_message(
    channel: TelegramChannel, server: FakeTelegram, dm: Chat
) -> None:
    server.faults.add("sendMessage", error(401, "Unauthorized"))
    failure = await refused(channel, dm)
    assert (failure.retryable, failure.retry_after, failure.ambiguous) == (True, 60, False)
    assert "check the account's token" in failure.why


@pytest.mark.parametrize("body", ["[]", "null", '{"ok": true}', '{"ok": true, "result": {}}', '{"result": 5}'])
async def test_an_answer_of_another_shape(
    channel: TelegramChannel, server: FakeTelegram, dm: Chat, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message may have been sent all the same."""
    real = server._answer

    async def answer(request: web.Request, call: Call, *more: Any) -> web.StreamResponse:
        response = await real(request, call, *more)
        return web.Response(text=body) if call.method == "sendMessage" else response

    monkeypatch.setattr(server, "_answer", answer)
    failure = await refused(channel, dm)
    assert (failure.retryable, failure.ambiguous) == (True, True)
    assert "cannot be understood" in failure.why


async def test_an_answer_that_is_none(channel: TelegramChannel, server: FakeTelegram, dm: Chat) -> None:
    """200 with a page, as the login of a hotel's network sends it."""
    server.faults.add("sendMessage", Fault(HTML.kind, 200, "Welcome"))
    failure = await refused(channel, dm)
    assert (failure.retryable, failure.ambiguous) == (True, True)
    assert "cannot be understood" in failure.why
