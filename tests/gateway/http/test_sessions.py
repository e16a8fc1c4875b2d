"""Sessions over HTTP: created, listed, read whole, ended in each way, and the same after a restart."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.http import views
from store import messages, sessions
from store.content import Text
from store.database import Database
from store.ids import now
from store.records import NewMessage, Role, Session, Status
from tests.fakes.api import Client, Live, configure, connected, started, texts

ENDINGS = {"complete": "completed", "archive": "archived"}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def end(client: Client, session: str, status: str) -> dict[str, Any]:
    """Take a session to an end by the route that leads there."""
    if status == "cancelled":
        answer = await client.ask("DELETE", f"/api/sessions/{session}")
        assert answer.status == 200
        return dict(answer.json)
    route = next(route for route, ended in ENDINGS.items() if ended == status)
    return dict(await client.post(f"/api/sessions/{session}/{route}"))


def in_store(live: Live, session_id: str, work: Callable[[Database, Session], object]) -> Any:
    return live.running.store.write(lambda db: work(db, sessions.get(db, session_id)))


# Creating


@pytest.mark.req("S000-05", "S000-14", "S000-49", "S000-50", "CARD-03", "CARD-08")
async def test_create(live: Live, client: Client) -> None:
    answer = await client.ask("POST", "/api/sessions", json={"repoId": None})
    assert answer.status == 201
    body = answer.json
    assert {"id", "repoId", "status", "createdAt", "updatedAt"} <= body.keys()
    assert uuid.UUID(body["id"])
    assert (body["repoId"], body["status"], body["recoverable"]) == (None, "active", True)
    created = moment(body["createdAt"])
    assert created.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=1)
    row = await live.running.api.session(body["id"])
    assert (row.public_id, row.status) == (body["id"], Status.ACTIVE)


@pytest.mark.req("S000-49")
async def test_create_without_a_body_takes_the_default_agent(client: Client) -> None:
    assert (await client.post("/api/sessions", expect=201))["agentId"] == "main"
    assert (await client.post("/api/sessions", {"agent": None}, expect=201))["agentId"] == "main"
    assert (await client.post("/api/sessions", {"agent": "puppet"}, expect=201))["agentId"] == "puppet"


@pytest.mark.req("S000-49")
async def test_a_session_that_cannot_be_created_is_not(client: Client) -> None:
    error = await client.refused(400, "POST", "/api/sessions", json={"agent": "mian"})
    assert error["code"] == "unknown_agent"
    assert "'mian'" in error["message"]
    assert "main, puppet" in error["message"]
    error = await client.refused(400, "POST", "/api/sessions", json={"repoId": str(uuid.uuid4())})
    assert error["code"] == "repository_not_wanted"
    assert (await client.get("/api/sessions"))["total"] == 0


# Listing


@pytest.mark.req("S000-51", "S000-52", "CARD-27")
async def test_list_pages(client: Client) -> None:
    made = [await client.create() for _ in range(25)]
    first = await client.get("/api/sessions", limit=10)
    assert (first["total"], first["limit"], first["offset"]) == (25, 10, 0)
    pages = [first] + [await client.get("/api/sessions", limit=10, offset=offset) for offset in (10, 20, 30)]
    assert [len(page["sessions"]) for page in pages] == [10, 10, 5, 0]
    assert {page["total"] for page in pages} == {25}
    assert [row["id"] for page in pages for row in page["sessions"]] == made[::-1]


@pytest.mark.req("S000-51", "S000-52", "S001-25")
async def test_list_filters(client: Client) -> None:
    one, two, three = await client.create(), await client.create("puppet"), await client.create("puppet")
    await end(client, two, "completed")
    await end(client, three, "archived")

    async def found(**query: str | int) -> list[str]:
        body = await client.get("/api/sessions", **query)
        assert body["total"] == len(body["sessions"])
        return [row["id"] for row in body["sessions"]]

    assert await found() == [three, two, one]
    assert await found(status="active") == [one]
    assert await found(status="completed, archived") == [three, two]
    assert await found(status="") == [three, two, one]
    assert await found(agent="puppet") == [three, two]
    assert await found(agent="puppet", status="archived", channel="api", limit=1, offset=0) == [three]
    assert await found(agent="nobody") == []
    assert await found(channel="telegram") == []
    assert await found(repoId=str(uuid.uuid4())) == []
    key = (await client.get(f"/api/sessions/{one}"))["key"]
    assert await found(key=key) == [one]


# Reading


@pytest.mark.req("S000-10", "S000-12", "S000-53", "S004-120")
async def test_detail_is_the_row_with_its_messages_and_turns(live: Live, client: Client) -> None:
    ids = [await client.create(), await client.create()]
    for number, session in enumerate(ids):
        await client.say(session, f"number {number}")
        await live.ended(session)
    for number, session in enumerate(ids):
        body = await client.get(f"/api/sessions/{session}")
        found, turns = await live.running.api.whole(session)
        assert texts(body["messages"]) == [f"number {number}", f"You said: number {number}"]
        assert body["repo"] is None
        assert body["messages"] == [views.message(row, session) for row in found.messages]
        assert body["turns"] == [views.turn(row, session) for row in turns]
        assert {**body, "repo": 0, "messages": 0, "turns": 0} == {
            **views.session(found.session),
            "repo": 0,
            "messages": 0,
            "turns": 0,
        }
        assert (body["messageCount"], body["turnCount"]) == (2, 1)


@pytest.mark.req("S000-11", "S000-13", "S000-53", "S000-59")
async def test_a_long_history_is_given_whole_and_in_order(live: Live, client: Client) -> None:
    session = await client.create()
    same = now()

    def append(db: Database, row: Session) -> None:
        for first in range(0, 500, 50):
            new = [NewMessage(role=Role.USER, content=Text(str(first + number))) for number in range(50)]
            messages.append(db, row.id, new, same)

    await in_store(live, session, append)
    expected = [str(number) for number in range(500)]
    body = await client.get(f"/api/sessions/{session}")
    assert texts(body["messages"]) == expected
    assert texts(await client.messages(session)) == expected
    times = [message["timestamp"] for message in body["messages"]]
    assert times == sorted(set(times))
    assert [message["seq"] for message in body["messages"]] == list(range(1, 501))


@pytest.mark.req("S000-01")
async def test_everything_is_the_same_after_a_restart(tmp_path: Path) -> None:
    config = configure(tmp_path)
    async with started(config) as live, connected(live) as client:
        session = await client.create()
        await client.say(session, "hello")
        await live.ended(session)
        before = await client.get(f"/api/sessions/{session}")
        listed = await client.get("/api/sessions")
    async with started(config) as live, connected(live) as client:
        assert await client.get(f"/api/sessions/{session}") == before
        assert await client.get("/api/sessions") == listed
        assert texts(before["messages"]) == ["hello", "You said: hello"]


@pytest.mark.req("S000-16")
async def test_updated_at_moves_with_every_activity(live: Live, client: Client) -> None:
    session = await client.create("puppet")

    async def updated() -> datetime:
        return moment((await client.get(f"/api/sessions/{session}"))["updatedAt"])

    times = [await updated()]
    await client.say(session, "go")
    await live.puppet.asked.get()
    times.append(await updated())
    live.puppet.say("Hel")
    await live.until(session, lambda found: len(found.messages) == 2)
    times.append(await updated())
    live.puppet.answer("lo")
    await live.ended(session)
    times.append(await updated())
    assert times == sorted(set(times))


# Ending


@pytest.mark.req("S000-17", "S000-20", "S000-63", "S001-25")
@pytest.mark.parametrize("status", ["completed", "cancelled", "archived"])
async def test_end(live: Live, client: Client, status: str) -> None:
    session = await client.create()
    await client.say(session, "hello")
    await live.ended(session)
    before = await client.get(f"/api/sessions/{session}")
    body = await end(client, session, status)
    assert (body["id"], body["status"], body["recoverable"]) == (session, status, False)
    assert moment(body["updatedAt"]) > moment(before["updatedAt"])
    assert f"{status} by the API" in body["metadata"]["reason"]
    after = await client.get(f"/api/sessions/{session}")
    assert after["status"] == status
    assert after["messages"][:2] == before["messages"]


@pytest.mark.req("S000-18", "S000-19", "S000-25", "S000-55", "S001-25")
@pytest.mark.parametrize("status", ["completed", "cancelled", "archived", "error"])
async def test_an_ended_session_takes_no_prompt(live: Live, client: Client, status: str) -> None:
    session = await client.create()
    if status == "error":
        await in_store(live, session, lambda db, row: sessions.end(db, row, Status.ERROR, "crashed", now()))
    else:
        await end(client, session, status)
    before = await client.get(f"/api/sessions/{session}")
    assert (before["status"], before["recoverable"]) == (status, False)
    error = await client.refused(409, "POST", f"/api/sessions/{session}/prompt", json={"text": "more"})
    assert (error["code"], error["status"]) == ("session_ended", status)
    assert session in error["message"]
    assert await client.get(f"/api/sessions/{session}") == before
    (count,) = await live.running.store.read(lambda db: db.execute("SELECT count(*) FROM inbox").fetchone())
    assert count == 0


@pytest.mark.req("S000-25", "S000-63")
@pytest.mark.parametrize("old", ["completed", "cancelled", "archived"])
@pytest.mark.parametrize("new", ["complete", "delete", "archive"])
async def test_an_ended_session_ends_once(client: Client, old: str, new: str) -> None:
    session = await client.create()
    before = await end(client, session, old)
    method, path = ("DELETE", "") if new == "delete" else ("POST", f"/{new}")
    if new == "archive" and old != "archived":
        assert (await end(client, session, "archived"))["status"] == "archived"
        return
    error = await client.refused(409, method, f"/api/sessions/{session}{path}")
    assert (error["code"], error["status"]) == ("session_ended", old)
    after = await client.get(f"/api/sessions/{session}")
    assert {name: after[name] for name in before} == before


@pytest.mark.req("S000-21")
@pytest.mark.parametrize("reason", [None, "nobody needs it"])
async def test_cancelling_says_why_in_the_history(client: Client, reason: str | None) -> None:
    session = await client.create()
    answer = await client.ask("DELETE", f"/api/sessions/{session}", json={} if reason is None else {"reason": reason})
    assert answer.status == 200
    [note] = await client.messages(session)
    assert note["role"] == "system"
    assert note["content"] == {"type": "text", "text": f"The session was cancelled: {reason or 'cancelled by the API'}"}
    assert answer.json["metadata"]["reason"] == (reason or "cancelled by the API")


@pytest.mark.req("S000-20", "S000-63")
@pytest.mark.parametrize("status", ["completed", "cancelled", "archived"])
async def test_ending_stops_what_runs_and_what_waits(live: Live, client: Client, status: str) -> None:
    session = await client.create("puppet")
    await client.say(session, "first")
    await live.puppet.asked.get()
    await client.say(session, "second")
    await end(client, session, status)
    [turn] = await live.ended(session)
    assert turn.errors == ("stopped",)
    body = await client.get(f"/api/sessions/{session}")
    assert "second" not in texts(body["messages"])
    assert {message["state"] for message in body["messages"]} == {"stored"}
    # The lane is free: another session of the same agent is answered.
    other = await client.create("puppet")
    await client.say(other, "third")
    assert (await live.puppet.asked.get()).text == "third"
    live.puppet.answer("yes")
    await live.ended(other)
    assert (await client.get(f"/api/sessions/{session}"))["turnCount"] == 1


@pytest.mark.req("S000-15", "S000-55")
async def test_a_resting_session_wakes(live: Live, client: Client) -> None:
    session = await client.create()
    await live.running.store.write(lambda db: sessions.rest(db, 2**60))
    resting = await client.get(f"/api/sessions/{session}")
    assert (resting["status"], resting["metadata"]) == ("idle", {"reason": "idle_timeout"})
    await client.say(session, "good morning")
    assert (await client.get(f"/api/sessions/{session}"))["status"] == "active"
    await live.ended(session)


# Stopping


async def test_stop_ends_the_turn_and_not_the_session(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    await live.puppet.asked.get()
    live.puppet.say("Hel")
    await live.until(session, lambda found: len(found.messages) == 2)
    stopped = await client.post(f"/api/sessions/{session}/stop")
    [turn] = await client.get(f"/api/sessions/{session}/turns")
    assert stopped == {"stopped": True, "turn": turn["id"]}
    assert (turn["status"], turn["errors"], turn["agentAnswerSummary"]) == ("failed", ["stopped"], None)
    _, shown, note = await client.messages(session)
    assert shown["content"] == {"type": "text", "text": "Hel", "partial": False}
    assert shown["metadata"]["incomplete"] is True
    assert note["role"] == "system"
    assert (await client.get(f"/api/sessions/{session}"))["status"] == "active"
    await client.say(session, "again")
    assert (await live.puppet.asked.get()).text == "again"
    live.puppet.answer("here")
    assert [turn.status for turn in await live.ended(session, 2)] == ["failed", "completed"]


async def test_stop_when_nothing_runs(client: Client) -> None:
    session = await client.create()
    assert await client.post(f"/api/sessions/{session}/stop") == {"stopped": False, "turn": None}
