"""Server-sent events: an answer while it grows, and a stream that goes on where it broke off."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.http import events
from tests.fakes.api import AUTH, PATIENCE, Client, Live, Sent, configure, connected, sent, started


@dataclass(slots=True)
class Stream:
    response: aiohttp.ClientResponse
    _events: AsyncIterator[Sent]

    async def next(self) -> Sent:
        async with asyncio.timeout(PATIENCE):
            return await anext(self._events)

    async def until(self, last: Callable[[Sent], bool]) -> list[Sent]:
        """All events up to one, and those of its batch: what a browser has when it knows the id."""
        found = [await self.next()]
        while not any(map(last, found)) or found[-1].id is None:
            found.append(await self.next())
        return found

    async def rest(self) -> list[Sent]:
        async with asyncio.timeout(PATIENCE):
            return [event async for event in self._events]


@asynccontextmanager
async def stream(live: Live, session: str, last_id: str | None = None, **query: str) -> AsyncIterator[Stream]:
    headers = AUTH if last_id is None else {**AUTH, "Last-Event-ID": last_id}
    async with (
        aiohttp.ClientSession(live.running.url, headers=headers) as client,
        client.get(f"/api/sessions/{session}/events", params=query) as response,
    ):
        assert response.status == 200, await response.text()
        yield Stream(response, sent(response))


def ended(turn: int) -> Callable[[Sent], bool]:
    return lambda event: (
        event.name == "turn" and event.data["sequenceNumber"] == turn and event.data["status"] != "pending"
    )


def messages(found: list[Sent]) -> list[dict[str, Any]]:
    return [event.data for event in found if event.name == "message"]


async def test_an_answer_streams(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    async with stream(live, session) as open_stream:
        assert open_stream.response.headers["Content-Type"] == "text/event-stream"
        assert open_stream.response.headers["Cache-Control"] == "no-store"
        message = await client.say(session, "go\non\r\n")
        first = await open_stream.until(lambda event: event.name == "turn")
        assert [(one["id"], one["content"]["text"]) for one in messages(first)] == [(message, "go\non\r\n")]
        assert first[-1].data["status"] == "pending"
        live.puppet.say("Hel")
        [growing] = await open_stream.until(lambda event: event.name == "message")
        assert growing.data["content"] == {"type": "text", "text": "Hel", "partial": True}
        live.puppet.answer("lo")
        last = await open_stream.until(ended(1))
        assert [event.name for event in last] == ["message", "turn"]
        assert last[0].data["id"] == growing.data["id"]
        assert last[0].data["content"] == {"type": "text", "text": "Hello", "partial": False}
        assert last[1].data["status"] == "completed"
        # What the stream says is what the other routes say.
        assert last[0].data == (await client.messages(session))[-1]
        assert last[1].data == await client.get(f"/api/sessions/{session}/turns/1")
        ids = [int(event.id) for event in [*first, growing, *last] if event.id is not None]
        assert ids == sorted(set(ids))


async def test_a_new_stream_begins_now(live: Live, client: Client) -> None:
    session = await client.create()
    await client.say(session, "before")
    await live.ended(session)
    async with stream(live, session) as open_stream:
        await client.say(session, "after")
        found = await open_stream.until(ended(2))
    assert [one["content"]["text"] for one in messages(found)] == ["after", "You said: after"]


async def test_every_watcher_sees_it(live: Live, client: Client) -> None:
    session, other = await client.create(), await client.create()
    async with stream(live, session) as one, stream(live, session) as two, stream(live, other) as elsewhere:
        await client.say(session, "hello")
        for open_stream in (one, two):
            found = await open_stream.until(ended(1))
            assert messages(found) == await client.messages(session)
        await client.say(other, "here")
        found = await elsewhere.until(ended(1))
        assert {event.data["sessionId"] for event in found} == {other}


async def test_a_cancelled_session_says_so(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    async with stream(live, session) as open_stream:
        await client.say(session, "go")
        await open_stream.until(lambda event: event.name == "turn")
        await client.ask("DELETE", f"/api/sessions/{session}", json={"reason": "enough"})
        found = await open_stream.until(ended(1))
        assert messages(found)[-1]["content"]["text"] == "The session was cancelled: enough"
        assert found[-1].data["errors"] == ["stopped"]


async def test_nothing_is_lost_under_load(live: Live, client: Client) -> None:
    """A commit falls between two looks, never into one."""
    session = await client.create()
    count = 40
    async with stream(live, session) as open_stream:
        talking = asyncio.gather(*(client.say(session, str(number)) for number in range(count)))
        found = await open_stream.until(ended(count))
        await talking
    assert [one["id"] for one in messages(found)] == [one["id"] for one in await client.messages(session)]
    for number in range(1, count + 1):
        assert sum(map(ended(number), found)) == 1
    ids = [int(event.id) for event in found if event.id is not None]
    assert ids == sorted(set(ids))


async def test_a_stream_goes_on_where_it_broke_off_even_after_a_restart(tmp_path: Path) -> None:
    config = configure(tmp_path)
    async with started(config) as live, connected(live) as client:
        session = await client.create()
        async with stream(live, session) as open_stream:
            await client.say(session, "1")
            found = await open_stream.until(ended(1))
            last_id = found[-1].id
        for number in (2, 3):
            await client.say(session, str(number))
            await live.ended(session, number)
        async with stream(live, session, last_id) as open_stream:
            missed = await open_stream.until(ended(3))
            middle_id = missed[-1].id
    async with started(config) as live, connected(live) as client:
        await client.say(session, "4")
        await live.ended(session, 4)
        async with stream(live, session, middle_id) as open_stream:
            later = await open_stream.until(ended(4))
            await client.say(session, "5")
            later += await open_stream.until(ended(5))
        parts = [found, missed, later]
        told = [one["id"] for part in parts for one in messages(part)]
        assert told == [one["id"] for one in await client.messages(session)]
        done = [event.data["sequenceNumber"] for part in parts for event in part if event.name == "turn"]
        assert sorted(set(done)) == [1, 2, 3, 4, 5]
        # The one that follows the whole stream from the beginning sees the same.
        async with stream(live, session, "0") as open_stream:
            assert messages(await open_stream.until(ended(5))) == await client.messages(session)


async def test_a_stream_that_was_away_for_many_turns_misses_none(tmp_path: Path) -> None:
    count = 70
    config = configure(tmp_path, agents={"main": {"kind": "builtin", "max_waiting": count}})
    async with started(config) as live, connected(live) as client:
        session = await client.create()
        await asyncio.gather(*(client.say(session, str(number)) for number in range(count)))
        await live.ended(session, count)
        async with stream(live, session, since="0") as open_stream:
            found = await open_stream.until(ended(count))
        turns = [event.data["sequenceNumber"] for event in found if event.name == "turn"]
        assert turns == list(range(1, count + 1))


async def test_since_takes_a_time_or_an_id(live: Live, client: Client) -> None:
    session = await client.create()
    for number in (1, 2):
        await client.say(session, str(number))
        await live.ended(session, number)
    first = await client.get(f"/api/sessions/{session}/turns/1")
    async with stream(live, session, since=first["statusTimeStamp"]) as open_stream:
        found = await open_stream.until(ended(2))
    assert messages(found) == (await client.messages(session))[2:]
    # A browser that comes back says where it was; that counts, not the address it began with.
    async with stream(live, session, found[-1].id, since="0") as open_stream:
        await client.say(session, "3")
        later = await open_stream.until(ended(3))
    assert messages(later) == (await client.messages(session))[4:]


@pytest.mark.parametrize("since", ["yesterday", "-1", "1.5", "9" * 18, "٣", "2026-13-01T00:00:00Z"])
async def test_since_that_is_neither(live: Live, client: Client, since: str) -> None:
    session = await client.create()
    path = f"/api/sessions/{session}/events"
    error = await client.refused(400, "GET", path, params={"since": since})
    assert "`since` is a time or the id of an event" in error["message"]
    error = await client.refused(400, "GET", path, headers={"Last-Event-ID": since})
    assert error["code"] == "bad_request"


async def test_a_stream_ends_at_once_when_the_daemon_stops(live: Live, client: Client) -> None:
    session = await client.create()
    async with stream(live, session) as open_stream:
        await client.say(session, "hello")
        await open_stream.until(ended(1))
        live.daemon.stop()
        async with asyncio.timeout(2):  # the server would wait for 5 s before it cuts
            assert await open_stream.rest() == []
            await live.task


async def test_a_stream_shows_the_answer_that_a_stop_waits_for(tmp_path: Path) -> None:
    async with started(configure(tmp_path, gateway={"drain_seconds": PATIENCE})) as live, connected(live) as client:
        session = await client.create("puppet")
        async with stream(live, session) as open_stream:
            await client.say(session, "go")
            await open_stream.until(lambda event: event.name == "turn")
            live.daemon.stop()
            live.puppet.answer("done")
            found = await open_stream.until(ended(1))
            assert found[-1].data["status"] == "completed"
            assert await open_stream.rest() == []


async def test_a_client_that_leaves_is_no_error(live: Live, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    session = await client.create()
    for number in (1, 2, 3):
        async with stream(live, session):
            pass
        await client.say(session, str(number))
        await live.ended(session, number)
    async with stream(live, session) as open_stream:
        await client.say(session, "4")
        await open_stream.until(ended(4))
    await live.stop()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_quiet_stream_shows_that_it_lives(live: Live, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_KEEP_ALIVE", 0.01)
    session = await client.create()
    async with stream(live, session) as open_stream:
        async with asyncio.timeout(PATIENCE):
            assert await open_stream.response.content.readline() == b": still here\n"
            assert await open_stream.response.content.readline() == b"\n"
        await client.say(session, "hello")
        assert messages(await open_stream.until(ended(1))) == await client.messages(session)


async def test_only_get(live: Live, client: Client) -> None:
    session = await client.create()
    answer = await client.ask("HEAD", f"/api/sessions/{session}/events")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET")
