"""The fake server is as strict as the real one. Spoken to without the library, so that nothing is mended on the way."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.fakes.telegram.faults import CUT_AFTER, CUT_BEFORE, HTML, Chaos, retry_after
from tests.fakes.telegram.limits import Limits
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, User


class Caller:
    def __init__(self, session: aiohttp.ClientSession, server: FakeTelegram, bot: Bot) -> None:
        self._session = session
        self._root = f"{server.url}/bot{bot.token}/"

    async def __call__(self, method: str, **params: Any) -> tuple[int, Any]:
        fields = {key: value if isinstance(value, str) else json.dumps(value) for key, value in params.items()}
        async with self._session.post(self._root + method, data=fields) as response:
            content = await response.json()
        return response.status, content.get("result", content.get("description"))


@pytest.fixture
async def call(server: FakeTelegram, bot: Bot) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as session:
        yield Caller(session, server, bot)


async def test_tokens_and_methods(server: FakeTelegram, bot: Bot) -> None:
    async with aiohttp.ClientSession() as session:
        for path, status in (
            (f"bot{bot.token}/getMe", 200),
            (f"bot{bot.token}/getYou", 404),
            (f"bot1:{'x' * 35}/getMe", 401),
            ("botx/getMe", 404),
            (f"file/bot{bot.token}/nothing", 404),
            (f"file/bot1:{'x' * 35}/nothing", 401),
        ):
            async with session.get(f"{server.url}/{path}") as response:
                assert response.status == status, path


def mark(type: str, offset: object, length: int, **more: Any) -> dict[str, Any]:
    return {"type": type, "offset": offset, "length": length, **more}


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"text": ""}, "message text is empty"),
        ({"text": " \n"}, "message text is empty"),
        ({"text": "\u200b"}, "message text is empty"),
        ({"text": "x" * 4097}, "message is too long"),
        ({"text": "😀" * 2049}, "message is too long"),
        ({"text": "x", "parse_mode": "HTML"}, "unknown fields"),
        ({"text": "x", "chat_id": "me"}, "can't parse"),
        ({"text": "x", "chat_id": 5}, "chat not found"),
        ({"text": "x", "message_thread_id": 9}, "message thread not found"),
        ({"text": "x", "reply_parameters": {"message_id": 99}}, "message to be replied not found"),
        ({"text": "x", "reply_parameters": {"message_id": 99, "why": 1}}, "unknown fields"),
        ({"text": "x", "entities": [mark("fat", 0, 1)]}, "unsupported type"),
        ({"text": "x", "entities": [mark("bold", 0, 2)]}, "ends after the end of the text"),
        ({"text": "x", "entities": [mark("bold", 0, 0)]}, "ends after the end of the text"),
        ({"text": "x", "entities": [mark("bold", -1, 1)]}, "ends after the end of the text"),
        ({"text": "x", "entities": [mark("bold", "0", 1)]}, "must be numbers"),
        ({"text": "😀", "entities": [mark("bold", 0, 1)]}, "middle of a UTF-16 symbol"),
        ({"text": "😀", "entities": [mark("bold", 1, 1)]}, "middle of a UTF-16 symbol"),
        ({"text": "abcd", "entities": [mark("bold", 0, 3), mark("italic", 1, 3)]}, "entities cross"),
        ({"text": "abcd", "entities": [mark("code", 0, 3), mark("italic", 1, 1)]}, "inside code"),
        ({"text": "abcd", "entities": [mark("text_link", 0, 3)]}, '"url" is missing'),
        ({"text": "abcd", "entities": [mark("bold", 0, 3, url="x")]}, "unknown fields"),
    ],
)
async def test_what_it_refuses_to_send(call: Caller, dm: Chat, params: dict[str, Any], why: str) -> None:
    status, said = await call("sendMessage", **{"chat_id": dm.id, **params})
    assert status == 400
    assert why in said
    assert not dm.shown


async def test_what_it_takes(call: Caller, dm: Chat) -> None:
    nested = [mark("bold", 2, 4), mark("italic", 2, 2), mark("pre", 7, 1, language="py"), mark("bold", 7, 1)]
    status, sent = await call("sendMessage", chat_id=dm.id, text="  abcd x  ", entities=nested)
    assert status == 200, sent
    assert sent["text"] == "abcd x"
    assert [(one["offset"], one["length"]) for one in sent["entities"]] == [(0, 4), (0, 2), (5, 1), (5, 1)]
    assert await call("sendMessage", chat_id=dm.id, text="😀" * 2048)
    status, _ = await call(
        "sendMessage", chat_id=dm.id, text="x", reply_parameters={"message_id": 99, "allow_sending_without_reply": True}
    )
    assert status == 200


async def test_edits(call: Caller, bot: Bot, dm: Chat) -> None:
    _, sent = await call("sendMessage", chat_id=dm.id, text="one")
    number = sent["message_id"]
    for text, text_number, why in (
        ("one", number, "message is not modified"),
        ("one ", number, "message is not modified"),
        ("two", 99, "message to edit not found"),
        ("two", dm.say("mine").id, "message can't be edited"),
        ("x" * 4097, number, "MESSAGE_TOO_LONG"),
        ("", number, "message text is empty"),
    ):
        status, said = await call("editMessageText", chat_id=dm.id, message_id=text_number, text=text)
        assert status == 400
        assert why in said
    assert (await call("editMessageText", chat_id=dm.id, message_id=number, text="two"))[0] == 200
    assert [text for _, text in dm.shown[0].versions] == ["one", "two"]


async def test_closed_and_moved_chats(server: FakeTelegram, call: Caller, bot: Bot, dm: Chat) -> None:
    dm.close_to("bot was blocked by the user")
    assert await call("sendMessage", chat_id=dm.id, text="x") == (403, "Forbidden: bot was blocked by the user")
    assert (await call("sendChatAction", chat_id=dm.id, action="typing"))[0] == 403
    old = server.group(bot, type="group")
    server.migrate(old)
    status, said = await call("sendMessage", chat_id=old.id, text="x")
    assert (status, "upgraded to a supergroup" in said) == (400, True)


async def test_commands_and_actions_and_files(call: Caller, dm: Chat) -> None:
    for method, params, why in (
        ("setMyCommands", {"commands": [{"command": "Big", "description": "x"}]}, "BOT_COMMAND_INVALID"),
        ("setMyCommands", {"commands": [{"command": "a", "description": ""}]}, "DESCRIPTION_INVALID"),
        ("setMyCommands", {"commands": [{"command": "a", "description": "x"}] * 101}, "TOO_MUCH"),
        ("sendChatAction", {"chat_id": dm.id, "action": "dance"}, "wrong parameter action"),
        ("sendDocument", {"chat_id": dm.id, "document": "attach://x"}, "no document"),
        ("getFile", {"file_id": "x"}, "wrong file_id"),
    ):
        status, said = await call(method, **params)
        assert status == 400
        assert why in said


async def test_polls(server: FakeTelegram, call: Caller, bot: Bot, dm: Chat) -> None:
    assert await call("getUpdates", timeout=0) == (200, [])
    waiting = asyncio.create_task(call("getUpdates", timeout=20))
    await server.until(lambda: bot.polling)
    dm.say("one")
    _, (first,) = await waiting
    dm.say("two")
    # Not confirmed: it comes again; confirmed: it does not.
    _, both = await call("getUpdates", timeout=0)
    assert [one["message"]["text"] for one in both] == ["one", "two"]
    _, one = await call("getUpdates", timeout=0, limit=1)
    assert len(one) == 1
    _, rest = await call("getUpdates", timeout=0, offset=first["update_id"] + 1)
    assert [one["message"]["text"] for one in rest] == ["two"]
    assert bot.confirmed == [first["update_id"]]


async def test_only_one_may_poll_and_only_what_it_wants(server: FakeTelegram, call: Caller, bot: Bot, dm: Chat) -> None:
    older = asyncio.create_task(call("getUpdates", timeout=20, allowed_updates=["message"]))
    await server.until(lambda: bot.polling)
    newer = asyncio.create_task(call("getUpdates", timeout=20))
    status, said = await older
    assert (status, "terminated by other getUpdates" in said) == (409, True)
    assert bot.conflicts == 1
    dm.edit(dm.say("x"), "y")
    assert len((await newer)[1]) == 1
    bot.webhook = "https://example.org"
    assert (await call("getUpdates"))[0] == 409
    assert (await call("getWebhookInfo"))[1]["url"] == "https://example.org"
    await call("deleteWebhook")
    assert (await call("getUpdates", timeout=0))[0] == 200


async def test_faults(server: FakeTelegram, call: Caller, dm: Chat) -> None:
    server.faults.add("sendMessage", CUT_BEFORE, CUT_AFTER, retry_after(7), HTML)
    for _ in range(2):
        with pytest.raises(aiohttp.ClientError):
            await call("sendMessage", chat_id=dm.id, text="x")
    assert len(dm.shown) == 1
    assert [one.done for one in server.calls("sendMessage")] == [False, True]
    assert (await call("sendMessage", chat_id=dm.id, text="x"))[0] == 429
    with pytest.raises(aiohttp.ContentTypeError):
        await call("sendMessage", chat_id=dm.id, text="x")
    assert (await call("sendMessage", chat_id=dm.id, text="x"))[0] == 200


def test_chance_can_be_repeated_and_ends() -> None:
    def play(seed: int) -> list[object]:
        chaos = Chaos(seed, rate=0.5, left=10)
        return [chaos.next("sendMessage") for _ in range(100)]

    assert play(1) == play(1)
    assert play(1) != play(2)
    assert sum(one is not None for one in play(1)) == 10
    assert Chaos(1, rate=1.0).next("getMe") is None


async def test_limits(server: FakeTelegram, call: Caller, bot: Bot, dm: Chat, alice: User) -> None:
    server.limits = Limits(private=(2, 30.0), group=(3, 60.0))
    statuses = [(await call("sendMessage", chat_id=dm.id, text=str(number)))[0] for number in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert len(server.limits.early) == 1
    group = server.group(bot)
    statuses = [(await call("sendMessage", chat_id=group.id, text=str(number)))[0] for number in range(4)]
    assert statuses == [200, 200, 200, 429]


def test_a_limit_ends() -> None:
    limits = Limits(private=(2, 3.0), penalty=1.0)
    assert [limits.wait(5, at) for at in (0.0, 0.1, 0.2, 3.3, 3.4, 3.5)] == [0, 0, 3, 0, 0, 3]
    assert limits.early == []


async def test_an_outage_keeps_what_was_said(server: FakeTelegram, call: Caller, dm: Chat) -> None:
    await call("sendMessage", chat_id=dm.id, text="x")
    port = server.port
    await server.go_down()
    with pytest.raises(aiohttp.ClientError):
        await call("getMe")
    await server.come_up()
    assert server.port == port
    assert (await call("getMe"))[0] == 200
    assert dm.texts == ["x"]
