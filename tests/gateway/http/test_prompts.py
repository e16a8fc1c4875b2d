"""Prompts and messages: accepted once, visible at once, in order; refused without a trace when they cannot be taken."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.agents.protocol import Done, PlanUpdate, ToolUpdate
from routing.errors import AgentFailed
from store.content import Text
from store.database import Database
from tests.fakes.api import PATIENCE, Client, Live, configure, connected, eventually, started, texts


def prompt(session: str) -> str:
    return f"/api/sessions/{session}/prompt"


async def rows(live: Live, table: str) -> int:
    def count(db: Database) -> int:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    return await live.running.store.read(count)


# Accepted


@pytest.mark.req("S000-06", "S000-07", "S000-15", "S000-44", "S000-45", "S000-58", "S000-59")
async def test_a_prompt_becomes_two_rows(live: Live, client: Client) -> None:
    session = await client.create()
    accepted = await client.post(prompt(session), {"text": "hello"}, expect=202)
    assert accepted == {
        "sessionId": session,
        "messageId": accepted["messageId"],
        "status": "queued",
        "duplicate": False,
    }
    await live.ended(session)
    user, agent = found = await client.messages(session)
    assert (user["id"], user["role"], user["content"]) == (
        accepted["messageId"],
        "user",
        {"type": "text", "text": "hello"},
    )
    assert (agent["role"], agent["content"]) == (
        "agent",
        {"type": "text", "text": "You said: hello", "partial": False},
    )
    assert all(message["sessionId"] == session for message in found)
    assert len({uuid.UUID(message["id"]) for message in found}) == 2
    for message in found:
        assert datetime.fromisoformat(message["timestamp"]).utcoffset() == timedelta(0)
    assert await client.messages(session) == found


@pytest.mark.req("S000-57", "S000-58")
async def test_a_message_is_visible_from_the_202_on(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    first = await client.say(session, "first")
    assert (first, "first") in {(one["id"], one["content"]["text"]) for one in await client.messages(session)}
    await live.puppet.asked.get()
    second, third = await client.say(session, "second"), await client.say(session, "third")
    for found in (await client.messages(session), (await client.get(f"/api/sessions/{session}"))["messages"]):
        assert [one["id"] for one in found] == [first, second, third]
        assert [one["state"] for one in found] == ["stored", "queued", "queued"]
        assert [one["seq"] for one in found] == [1, None, None]
        assert [one["role"] for one in found] == ["user"] * 3
        assert texts(found) == ["first", "second", "third"]
    arrived = found[1]["timestamp"]
    live.puppet.answer("one")
    assert (await live.puppet.asked.get()).text == "second"
    found = await client.messages(session)
    assert texts(found) == ["first", "one", "second", "third"]
    assert [one["state"] for one in found] == ["stored", "stored", "stored", "queued"]
    assert found[2]["id"] == second
    assert found[2]["metadata"]["receivedAt"] == arrived
    assert found[2]["timestamp"] > arrived
    live.puppet.answer("two")
    live.puppet.answer("three")
    await live.ended(session, 3)
    assert texts(await client.messages(session)) == ["first", "one", "second", "two", "third", "three"]


@pytest.mark.req("S000-57")
async def test_no_look_misses_an_accepted_message_or_shows_it_twice(live: Live, client: Client) -> None:
    session = await client.create()
    accepted: list[str] = []

    async def talk() -> None:
        for number in range(40):
            accepted.append(await client.say(session, str(number)))

    async def look(detail: bool) -> int:
        looks = 0
        while not talking.done():
            before = set(accepted)
            found = (
                (await client.get(f"/api/sessions/{session}"))["messages"] if detail else await client.messages(session)
            )
            ids = [one["id"] for one in found]
            assert len(ids) == len(set(ids))
            assert before <= set(ids)
            looks += 1
        return looks

    talking = asyncio.create_task(talk())
    looks = await asyncio.gather(look(True), look(False))
    await talking
    assert min(looks) > 5
    await live.ended(session, 40)


@pytest.mark.req("S000-57")
@pytest.mark.parametrize("path", ["", "/messages", "/messages?since=1970-01-01"])
async def test_a_turn_that_begins_behind_a_read_does_not_matter(
    live: Live, client: Client, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The worst moment: the waiting message starts its turn right after the route's first look at the store."""
    session = await client.create("puppet")
    first = await client.say(session, "first")
    await live.puppet.asked.get()
    second = await client.say(session, "second")
    read = live.running.store.read
    moved = False

    async def read_and_move_on(operation: Callable[[Database], Any]) -> Any:
        nonlocal moved
        found = await read(operation)
        if not moved:
            moved = True
            live.puppet.answer("one")
            await live.puppet.asked.get()
        return found

    monkeypatch.setattr(live.running.store, "read", read_and_move_on)
    found = await client.get(f"/api/sessions/{session}{path}")
    assert moved
    shown = found if path else found["messages"]
    assert [(one["id"], one["state"]) for one in shown] == [(first, "stored"), (second, "queued")]
    monkeypatch.undo()
    assert texts(await client.messages(session)) == ["first", "one", "second"]


@pytest.mark.req("S004-120")
async def test_a_session_is_shown_as_of_one_moment(live: Live, client: Client) -> None:
    """A completed turn comes with its final answer, and the counters count what is shown."""
    session = await client.create()
    count = 30
    for number in range(count):
        await client.say(session, str(number))
    while True:
        body = await client.get(f"/api/sessions/{session}")
        stored = [one for one in body["messages"] if one["state"] == "stored"]
        completed = [turn for turn in body["turns"] if turn["status"] == "completed"]
        answers = [one for one in stored if one["role"] == "agent" and not one["content"]["partial"]]
        assert body["messageCount"] == len(stored)
        assert body["turnCount"] == len(body["turns"])
        assert len(answers) == len(completed)
        if len(completed) == count:
            return


@pytest.mark.req("S000-46")
async def test_an_answer_grows_in_one_row(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    live.puppet.say("Hel")
    await live.until(session, lambda found: len(found.messages) == 2)
    growing = (await client.messages(session))[1]
    assert growing["content"] == {"type": "text", "text": "Hel", "partial": True}
    live.puppet.say("lo ")
    await live.until(session, lambda found: found.messages[1].content == Text("Hello ", partial=True))
    live.puppet.answer("world")
    await live.ended(session)
    user, final = await client.messages(session)
    assert (final["id"], final["seq"], final["timestamp"]) == (growing["id"], growing["seq"], growing["timestamp"])
    assert final["content"] == {"type": "text", "text": "Hello world", "partial": False}
    assert final["changedAt"] > growing["changedAt"]


@pytest.mark.req("S000-47", "S000-48")
async def test_plans_and_tools_are_rows_of_the_system(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    steps = ({"content": "look"}, {"content": "leap"}, {"content": "land"})
    live.puppet.say("Let me see.", PlanUpdate(steps[:2]), PlanUpdate(steps), ToolUpdate("t1", "ls", {"path": "."}))
    live.puppet.say(ToolUpdate("t1", "ls", {"path": "."}, {"files": 3}))
    live.puppet.answer("Three.")
    await live.ended(session)
    contents = [(one["role"], one["content"]) for one in await client.messages(session)]
    assert sorted(contents, key=str) == sorted(
        [
            ("user", {"type": "text", "text": "go"}),
            ("agent", {"type": "text", "text": "Let me see.", "partial": False}),
            ("system", {"type": "plan", "steps": list(steps)}),
            ("system", {"type": "tool", "tool": "ls", "args": {"path": "."}, "result": {"files": 3}}),
            ("agent", {"type": "text", "text": "Three.", "partial": False}),
        ],
        key=str,
    )


@pytest.mark.req("S000-46", "S004-107")
async def test_a_failed_answer_is_closed_and_says_so(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    live.puppet.say("Hel")
    await live.until(session, lambda found: len(found.messages) == 2)
    live.puppet.say(AgentFailed("the model is down.", detail="secret-detail"))
    await live.ended(session)
    _, closed, note = await client.messages(session)
    assert closed["content"] == {"type": "text", "text": "Hel", "partial": False}
    assert closed["metadata"] == {"incomplete": True}
    assert note["role"] == "system"
    assert "the model is down." in note["content"]["text"]
    assert all("secret-detail" not in answer.text for answer in client.seen)


# Unicode


@pytest.mark.req("S000-44", "S000-57")
@pytest.mark.parametrize(
    ("escaped", "stored"),
    [
        (r"\ud83d\udc68\u200d\ud83d\udc69\u200d\ud83d\udc67 family", "👨‍👩‍👧 family"),
        ("plain 🎉 and é, שלום, \u202e", "plain 🎉 and é, שלום, \u202e"),
        (r"a\u0000b", "a\0b"),
        (r"tab\tline\nreturn\r\u2028\ufeff", "tab\tline\nreturn\r\u2028\ufeff"),
        (r"half \ud800 pair", "half \ufffd pair"),
        (r"\udc00\ud800", "\ufffd\ufffd"),
        (r"half \ud83d", "half \ufffd"),
        (r"\\ud800 is text", r"\ud800 is text"),
        (r"{why} %s \u007bbraces\u007d", "{why} %s {braces}"),
    ],
)
async def test_unicode_goes_round_or_is_replaced(live: Live, client: Client, escaped: str, stored: str) -> None:
    session = await client.create()
    body = f'{{"text": "{escaped}", "id": "{escaped}"}}'.encode()
    answers = [await client.ask("POST", prompt(session), data=body) for _ in range(2)]
    assert [answer.status for answer in answers] == [202, 202]
    assert [answer.json["duplicate"] for answer in answers] == [False, True]
    await live.ended(session)
    assert texts(await client.messages(session)) == [stored, f"You said: {stored}"]
    assert (await client.ask("GET", f"/api/sessions/{session}/turns/1/instruction")).text == stored
    assert (await client.ask("GET", f"/api/sessions/{session}/turns/1/answer")).text == f"You said: {stored}"


# Once


@pytest.mark.req("S000-57")
async def test_the_same_id_is_one_message(live: Live, client: Client) -> None:
    session = await client.create()
    first = await client.post(prompt(session), {"text": "hello", "id": "mine"}, expect=202)
    again = await client.post(prompt(session), {"text": "something else", "id": "mine"}, expect=202)
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    assert first["messageId"] == again["messageId"]
    await live.ended(session)
    late = await client.post(prompt(session), {"text": "hello", "id": "mine"}, expect=202)
    assert (late["duplicate"], late["messageId"]) == (True, first["messageId"])
    assert texts(await client.messages(session)) == ["hello", "You said: hello"]


async def test_the_same_id_at_once_is_one_message(live: Live, client: Client) -> None:
    session = await client.create()
    answers = await asyncio.gather(
        *(client.post(prompt(session), {"text": "hello", "id": "mine"}, expect=202) for _ in range(20))
    )
    assert len({answer["messageId"] for answer in answers}) == 1
    assert sorted(answer["duplicate"] for answer in answers) == [False] + [True] * 19
    assert len(await live.ended(session)) == 1
    assert texts(await client.messages(session)) == ["hello", "You said: hello"]


async def test_the_same_id_in_two_sessions_is_two_messages(live: Live, client: Client) -> None:
    one, two = await client.create(), await client.create()
    assert await client.say(one, "hello", id="mine") != await client.say(two, "hello", id="mine")
    await live.ended(one)
    await live.ended(two)


async def test_without_an_id_every_prompt_is_its_own(live: Live, client: Client) -> None:
    session = await client.create()
    assert await client.say(session, "hello") != await client.say(session, "hello")
    await live.ended(session, 2)


async def test_a_repeat_is_known_after_a_restart_and_after_the_end(tmp_path: Path) -> None:
    config = configure(tmp_path)
    async with started(config) as live, connected(live) as client:
        session = await client.create()
        message = await client.say(session, "hello", id="mine")
        await live.ended(session)
    async with started(config) as live, connected(live) as client:
        assert await client.say(session, "hello", id="mine") == message
        assert (await client.ask("DELETE", f"/api/sessions/{session}")).status == 200
        again = await client.post(prompt(session), {"text": "hello", "id": "mine"}, expect=202)
        assert (again["duplicate"], again["messageId"]) == (True, message)
        assert (await client.get(f"/api/sessions/{session}"))["turnCount"] == 1


# Since, and pages


@pytest.mark.req("S000-60")
async def test_since_is_strictly_after(live: Live, client: Client) -> None:
    session = await client.create()
    for number in range(2):
        await client.say(session, str(number))
        await live.ended(session, number + 1)
    found = await client.messages(session)
    for position, message in enumerate(found):
        assert await client.messages(session, since=message["timestamp"]) == found[position + 1 :]
    second = datetime.fromisoformat(found[1]["timestamp"])
    spellings = [
        second.isoformat(),
        second.replace(tzinfo=None).isoformat(),
        second.isoformat().replace("+", " "),
        second.isoformat(sep="T", timespec="microseconds").replace("+00:00", "Z"),
        second.astimezone().isoformat(),
    ]
    for spelling in spellings:
        assert await client.messages(session, since=spelling) == found[2:]
    just_before = (second - timedelta(microseconds=1)).isoformat()
    assert await client.messages(session, since=just_before) == found[1:]
    assert await client.messages(session, since="1970-01-01") == found
    assert await client.messages(session, since="0001-01-01T00:00:00Z") == found
    assert await client.messages(session, since="9999-12-31T23:59:59Z") == []


@pytest.mark.req("S000-60", "S000-46")
async def test_since_gives_what_changed(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    live.puppet.say("Hel")
    await live.until(session, lambda found: len(found.messages) == 2)
    user, growing = await client.messages(session)
    assert await client.messages(session, since=growing["changedAt"]) == []
    live.puppet.say("lo")
    await live.until(session, lambda found: found.messages[1].content == Text("Hello", partial=True))
    [changed] = await client.messages(session, since=growing["changedAt"])
    assert (changed["id"], changed["timestamp"]) == (growing["id"], growing["timestamp"])
    assert changed["content"]["text"] == "Hello"
    live.puppet.answer("!")
    await live.ended(session)
    [final] = await client.messages(session, since=changed["changedAt"])
    assert (final["id"], final["content"]["partial"]) == (growing["id"], False)
    assert await client.messages(session, since=final["changedAt"]) == []


@pytest.mark.req("S000-60")
async def test_since_and_what_waits(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "first")
    await live.puppet.asked.get()
    second = await client.say(session, "second")
    queued = (await client.messages(session))[1]
    assert await client.messages(session, since=queued["timestamp"]) == []
    before = (datetime.fromisoformat(queued["timestamp"]) - timedelta(microseconds=1)).isoformat()
    assert await client.messages(session, since=before) == [queued]
    live.puppet.answer("one")
    await live.puppet.asked.get()
    stored = [one for one in await client.messages(session, since=queued["timestamp"]) if one["id"] == second]
    assert [one["state"] for one in stored] == ["stored"]


async def test_pages(live: Live, client: Client) -> None:
    session = await client.create()
    for number in range(5):
        await client.say(session, str(number))
    await live.ended(session, 5)
    found = await client.messages(session)
    assert [one["seq"] for one in found] == list(range(1, 11))
    assert await client.messages(session, limit=3) == found[-3:]
    assert await client.messages(session, limit=3, before=8) == found[4:7]
    assert await client.messages(session, before=2) == found[:1]
    assert await client.messages(session, before=1) == []
    assert await client.messages(session, before=0) == []
    assert await client.messages(session, after=8) == found[8:]
    assert await client.messages(session, after=2, limit=2) == found[2:4]
    assert await client.messages(session, after=10) == []
    assert await client.messages(session, limit=0) == []
    assert await client.messages(session, limit=500) == found
    other = await client.create()
    assert await client.messages(other, after=0) == []
    assert await client.messages(other, before=2**31) == []


# Not taken


@pytest.fixture
async def narrow(tmp_path: Path) -> AsyncIterator[tuple[Live, Client]]:
    """Two messages may wait, and a stop gives running turns time to end."""
    agents = {"puppet": {"kind": "builtin", "max_waiting": 2}}
    config = configure(tmp_path, agents=agents, gateway={"drain_seconds": PATIENCE})
    async with started(config) as live, connected(live) as client:
        yield live, client


async def test_a_full_lane_says_so(narrow: tuple[Live, Client]) -> None:
    live, client = narrow
    session = await client.create("puppet")
    await client.say(session, "first")
    await live.puppet.asked.get()
    for number in range(2):
        await client.say(session, str(number))
    before = await rows(live, "inbox")
    answer = await client.ask("POST", prompt(session), json={"text": "too much", "id": "late"})
    assert (answer.status, answer.error["code"]) == (429, "too_many_waiting")
    assert "2 messages are already waiting" in answer.error["message"]
    assert int(answer.headers["Retry-After"]) > 0
    assert await rows(live, "inbox") == before
    assert "too much" not in texts(await client.messages(session))
    # Other sessions of the agent are not full.
    other = await client.create("puppet")
    await client.say(other, "hello")
    await live.puppet.asked.get()
    for _ in range(4):
        live.puppet.answer("yes")
    await live.ended(session, 3)
    await live.ended(other)
    # The refused one left no trace: it is taken now, under its own id.
    taken = await client.post(prompt(session), {"text": "too much", "id": "late"}, expect=202)
    assert taken["duplicate"] is False
    live.puppet.answer("yes")
    await live.ended(session, 4)


async def test_nothing_is_taken_while_the_daemon_stops(narrow: tuple[Live, Client]) -> None:
    live, client = narrow
    session = await client.create("puppet")
    await client.say(session, "first")
    await live.puppet.asked.get()
    live.daemon.stop()
    await eventually(lambda: client.ask("GET", "/readyz"), lambda answer: answer.status != 200)
    answer = await client.ask("POST", prompt(session), json={"text": "late"})
    assert (answer.status, answer.error["code"]) == (503, "stopping")
    assert int(answer.headers["Retry-After"]) > 0
    for path, body in (("/api/sessions", {}), ("/api/web/main/messages", {"text": "hi", "id": "1"})):
        assert (await client.refused(503, "POST", path, json=body))["code"] == "stopping"
    # What runs can still be watched, and ends.
    assert (await client.get(f"/api/sessions/{session}"))["turns"][0]["status"] == "pending"
    assert (await client.ask("GET", "/healthz")).status == 200
    ready = await client.ask("GET", "/readyz")
    assert (ready.status, ready.json["components"]["intake"]["ok"]) == (503, False)
    live.puppet.answer("done")
    async with asyncio.timeout(PATIENCE):
        await live.task


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/sessions/{session}/prompt", {"text": "hello"}),
        ("/api/sessions", {}),
        ("/api/web/main/messages", {"text": "hello", "id": "1"}),
    ],
)
async def test_nothing_is_taken_on_a_full_disk(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async with started(configure(tmp_path)) as live, connected(live) as client:
        session = await client.create()
    low = configure(tmp_path, gateway={"disk_reserve_mb": 1_000_000_000})
    async with started(low) as live, connected(live) as client:
        before = [await rows(live, table) for table in ("sessions", "inbox", "refusals")]
        answer = await client.ask("POST", path.format(session=session), json=body)
        assert (answer.status, answer.error["code"]) == (503, "disk_low")
        assert int(answer.headers["Retry-After"]) > 0
        assert [await rows(live, table) for table in ("sessions", "inbox", "refusals")] == before
        assert await client.messages(session) == []
        ready = await client.ask("GET", "/readyz")
        assert (ready.status, ready.json["components"]["disk"]["ok"]) == (503, False)
        assert "MiB free" in ready.json["components"]["disk"]["detail"]


async def test_nothing_is_taken_while_the_store_cannot_write(live: Live, client: Client) -> None:
    session = await client.create()

    def limit(pages: int | None) -> Any:
        """Let the file grow no more, as on a full disk; or again."""
        return lambda db: db.execute(
            f"PRAGMA max_page_count = {pages or db.execute('PRAGMA page_count').fetchone()[0]}"
        ).fetchone()

    await live.running.store.write(limit(None))
    big = json.dumps({"text": "x" * 500_000, "id": "mine"})
    answer = await client.ask("POST", prompt(session), data=big)
    assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert await client.messages(session) == []
    ready = await client.ask("GET", "/readyz")
    assert (ready.status, ready.json["components"]["store"]["ok"]) == (503, False)
    await live.running.store.write(limit(2**30))
    answer = await client.ask("POST", prompt(session), data=big)
    assert (answer.status, answer.json["duplicate"]) == (202, False)
    await live.ended(session)
    assert (await client.ask("GET", "/readyz")).status == 200


async def test_a_closed_store_is_an_error_of_the_right_shape(live: Live, client: Client) -> None:
    session = await client.create()
    await live.stop()
    assert (await client.refused(503, "GET", f"/api/sessions/{session}"))["code"] == "store_closed"
    assert (await client.refused(503, "POST", prompt(session), json={"text": "x"}))["code"] == "stopping"


async def test_an_agent_that_is_gone_fails_the_turn_and_not_the_request(tmp_path: Path) -> None:
    async with started(configure(tmp_path, agents={"old": {"kind": "builtin"}})) as live, connected(live) as client:
        session = await client.create("old")
    async with started(configure(tmp_path)) as live, connected(live) as client:
        await client.say(session, "hello?")
        [turn] = await live.ended(session)
        assert turn.status == "failed"
        assert "no longer configured" in turn.errors[0]


async def test_the_end_of_an_answer_needs_its_closing_event(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    live.puppet.say(Done())
    [turn] = await live.ended(session)
    assert (turn.status, turn.errors) == ("failed", ("the agent gave no answer.",))
