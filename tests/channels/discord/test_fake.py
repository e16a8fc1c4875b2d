"""The fake is as strict as what it stands for; else the other tests show nothing."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from tests.fakes.discord.faults import Kind
from tests.fakes.discord.server import FakeDiscord


class Raw:
    """Speaks to it without a library."""

    def __init__(self, discord: FakeDiscord) -> None:
        self.discord = discord
        ann = discord.add_user("Ann")
        self.dm = discord.dm(ann, discord.bot)

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any, Any]:
        auth = {"Authorization": f"Bot {self.discord.bot.token}", "Content-Type": "application/json", **headers}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, self.discord.base_url + path, data=None if body is None else json.dumps(body), headers=auth
            ) as response,
        ):
            text = await response.text()
            assert not text or response.headers["Content-Type"] == "application/json"
            return response.status, json.loads(text) if text else None, response.headers

    async def post(self, **body: object) -> tuple[int, Any, Any]:
        return await self.ask("POST", f"/channels/{self.dm.id}/messages", body)


@pytest.fixture
async def raw(discord: FakeDiscord) -> Raw:
    return Raw(discord)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"content": "x" * 2001}, 50035),
        ({"content": "  "}, 50006),
        ({}, 50006),
        ({"content": "x", "nonce": "n" * 26}, 50035),
    ],
)
async def test_what_is_refused(raw: Raw, body: dict[str, object], code: int) -> None:
    status, answer, _ = await raw.post(**body)
    assert (status, answer["code"]) == (400, code)
    assert raw.discord.visible(raw.dm) == []


async def test_who_is_refused(raw: Raw) -> None:
    status, *_ = await raw.ask("GET", "/users/@me", Authorization="Bot wrong")
    assert status == 401
    other = raw.discord.add_guild("elsewhere")
    channel = raw.discord.add_channel(other, "secret")
    assert (await raw.ask("GET", f"/channels/{channel.id}/messages"))[1]["code"] == 50001
    assert (await raw.ask("GET", "/channels/1/messages"))[1]["code"] == 10003


async def test_a_nonce_is_honoured_for_minutes_and_only_if_asked(raw: Raw) -> None:
    now = [1_790_000_000.0]
    raw.discord.clock = lambda: now[0]
    first = (await raw.post(content="a", nonce="n", enforce_nonce=True))[1]["id"]
    assert (await raw.post(content="a", nonce="n", enforce_nonce=True))[1]["id"] == first
    assert (await raw.post(content="a", nonce="n"))[1]["id"] != first
    now[0] += 600
    assert (await raw.post(content="a", nonce="n", enforce_nonce=True))[1]["id"] != first


async def test_the_sixth_in_five_seconds_is_too_many(raw: Raw) -> None:
    left = []
    for _ in range(5):
        status, _, headers = await raw.post(content="x")
        assert status == 200
        left.append(headers["X-RateLimit-Remaining"])
    assert left == ["4", "3", "2", "1", "0"]
    status, answer, headers = await raw.post(content="x")
    assert status == 429
    assert 0 < answer["retry_after"] <= 5
    assert headers["Via"]
    assert len(raw.discord.visible(raw.dm)) == 5


async def test_pages_of_history(raw: Raw) -> None:
    said = [raw.discord.say(raw.discord.bot, raw.dm, str(number)) for number in range(10)]
    path = f"/channels/{raw.dm.id}/messages"
    _, after, _ = await raw.ask("GET", f"{path}?after={said[2].id}&limit=3")
    _, before, _ = await raw.ask("GET", f"{path}?before={said[7].id}&limit=3")
    _, newest, _ = await raw.ask("GET", f"{path}?limit=2")
    assert [one["content"] for one in after] == ["5", "4", "3"]
    assert [one["content"] for one in before] == ["6", "5", "4"]
    assert [one["content"] for one in newest] == ["9", "8"]
    assert (await raw.ask("GET", f"{path}?limit=101"))[0] == 400


async def test_others_messages_cannot_be_edited(raw: Raw) -> None:
    theirs = raw.discord.say(raw.dm.recipients[0], raw.dm, "mine")
    status, answer, _ = await raw.ask("PATCH", f"/channels/{raw.dm.id}/messages/{theirs.id}", {"content": "yours"})
    assert (status, answer["code"]) == (403, 50005)


@pytest.mark.parametrize(("kind", "stored"), [(Kind.CUT_BEFORE, 0), (Kind.CUT_AFTER, 1)])
async def test_a_cut_before_and_a_cut_after(raw: Raw, kind: Kind, stored: int) -> None:
    raw.discord.fail(kind, "send")
    with pytest.raises(aiohttp.ClientError):
        await raw.post(content="x")
    assert len(raw.discord.visible(raw.dm)) == stored
    [call] = raw.discord.calls("send")
    assert call.status == 0
