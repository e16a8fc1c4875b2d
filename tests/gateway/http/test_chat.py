"""What the page asks beyond the session API: agents, where a session stands, another title, the same once more."""

import uuid
from typing import Any

import pytest

from gateway.steps import title_of
from gateway.version import __version__
from routing.errors import AgentFailed
from store.database import Database
from tests.fakes.api import Client, Live, configure, connected, started, texts


async def test_me(client: Client) -> None:
    assert await client.get("/api/me") == {
        "version": __version__,
        "agents": [{"id": "main", "name": "main"}, {"id": "puppet", "name": "puppet"}],
        "defaultAgent": "main",
    }


async def test_the_names_of_agents(tmp_path: Any) -> None:
    config = configure(tmp_path, agents={"main": {"kind": "builtin", "name": "Ada"}})
    async with started(config) as live, connected(live) as client:
        assert (await client.get("/api/me"))["agents"] == [
            {"id": "main", "name": "Ada"},
            {"id": "puppet", "name": "puppet"},
        ]


# Creating under an id of one's own


async def test_the_same_wish_twice_makes_one_session(client: Client) -> None:
    wish = {"agent": "main", "id": str(uuid.uuid4())}
    one, two = [await client.post("/api/sessions", wish, expect=201) for _ in range(2)]
    assert one["id"] == two["id"]
    other = await client.post("/api/sessions", {**wish, "id": str(uuid.uuid4())}, expect=201)
    assert other["id"] != one["id"]
    assert (await client.get("/api/sessions"))["total"] == 2
    # When it has ended, the wish is a new one.
    await client.post(f"/api/sessions/{one['id']}/complete")
    assert (await client.post("/api/sessions", wish, expect=201))["id"] != one["id"]


@pytest.mark.parametrize("wish", ["", "short", "x" * 65, "with space and more", "main:main:main", "ünïcödé-1"])
async def test_a_wish_that_is_none(client: Client, wish: str) -> None:
    error = await client.refused(400, "POST", "/api/sessions", json={"id": wish})
    assert error["message"].startswith("`id`: ")


# Where a session stands


async def test_state(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    path = f"/api/sessions/{session}/state"
    empty = await client.get(path)
    assert (empty["session"]["id"], empty["turn"], empty["waiting"]) == (session, None, [])
    await client.say(session, "one")
    await live.puppet.asked.get()
    waiting = await client.say(session, "two")
    state = await client.get(path)
    assert (state["turn"]["sequenceNumber"], state["turn"]["status"]) == (1, "pending")
    assert [(row["id"], row["state"], row["content"]["text"]) for row in state["waiting"]] == [
        (waiting, "queued", "two")
    ]
    # Its cursor is where its events go on: what is there is not told again, what comes is.
    assert int(state["cursor"]) > int(empty["cursor"])
    since = {"since": state["session"]["updatedAt"]}
    assert texts(await client.messages(session, **since)) in ([], ["two"])
    live.puppet.answer("yes")
    await live.puppet.asked.get()
    assert "yes" in texts(await client.messages(session, **since))
    live.puppet.answer("and yes")
    await live.ended(session, 2)
    state = await client.get(path)
    assert (state["turn"]["sequenceNumber"], state["turn"]["status"], state["waiting"]) == (2, "completed", [])


# Titles


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hello", "hello"),
        ("\n\n  What is\tit? \nand more", "What is it?"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "…"),
        ("word " * 40, ("word " * 40)[:79].rstrip() + "…"),
        ("🎉" * 100, "🎉" * 79 + "…"),
        (" \n\t ", None),
        ("", None),
        ("x" * 1_000_000, "x" * 79 + "…"),
    ],
)
def test_a_title_is_the_first_line(text: str, title: str | None) -> None:
    assert title_of(text) == title


async def test_the_first_turn_gives_a_title(live: Live, client: Client) -> None:
    session = await client.create()
    for number, text in enumerate(("first\nof all", "second"), 1):
        await client.say(session, text)
        await live.ended(session, number)
        assert (await client.get(f"/api/sessions/{session}"))["title"] == "first"


async def test_a_title_that_was_given_stays(live: Live, client: Client) -> None:
    session = await client.create()
    await patch(client, session, {"title": "Mine"})
    await client.say(session, "hello")
    await live.ended(session)
    assert (await client.get(f"/api/sessions/{session}"))["title"] == "Mine"


async def patch(client: Client, session: str, body: object) -> dict[str, Any]:
    answer = await client.ask("PATCH", f"/api/sessions/{session}", json=body)
    assert answer.status == 200, answer
    return dict(answer.json)


async def test_rename(client: Client) -> None:
    session = await client.create()
    assert (await patch(client, session, {"title": "New"}))["title"] == "New"
    assert (await patch(client, session, {}))["title"] == "New"
    assert (await client.get(f"/api/sessions/{session}"))["title"] == "New"
    assert (await patch(client, session, {"title": None}))["title"] is None
    wrong: list[object] = [{"title": 1}, {"title": "x" * 201}, {"status": "archived"}, [], "title"]
    for body in wrong:
        await client.refused(400, "PATCH", f"/api/sessions/{session}", json=body)
    await client.post(f"/api/sessions/{session}/complete")
    error = await client.refused(409, "PATCH", f"/api/sessions/{session}", json={"title": "Late"})
    assert (error["code"], error["status"]) == ("session_ended", "completed")


async def test_a_new_name_is_no_activity(live: Live, client: Client) -> None:
    older, newer = await client.create(), await client.create()
    await patch(client, older, {"title": "renamed"})
    listed = (await client.get("/api/sessions", sort="updated"))["sessions"]
    assert [one["id"] for one in listed] == [newer, older]


# Once more


async def rows(live: Live) -> list[tuple[object, ...]]:
    """Every turn, byte by byte."""

    def look(db: Database) -> list[tuple[object, ...]]:
        return db.execute("SELECT * FROM turns ORDER BY id").fetchall()

    return await live.running.store.read(look)


@pytest.mark.req("S004-151", "S004-152", "S004-155")
@pytest.mark.parametrize("name", ["1", "last", "id"])
async def test_rerun(live: Live, client: Client, name: str) -> None:
    session = await client.create()
    await client.say(session, "one\ntwo")
    await live.ended(session)
    [before] = await rows(live)
    turn = await client.get(f"/api/sessions/{session}/turns/1")
    path = f"/api/sessions/{session}/turns/{turn['id'] if name == 'id' else name}/rerun"
    answer = await client.post(path, expect=202)
    assert answer.keys() == {"sessionId", "messageId", "status", "duplicate"}
    assert (answer["status"], answer["duplicate"]) == ("queued", False)
    await live.ended(session, 2)
    again = await client.get(f"/api/sessions/{session}/turns/2")
    assert (again["sequenceNumber"], again["instructionSummary"]) == (2, "one\ntwo")
    assert (await rows(live))[0] == before
    # Or something else in its place.
    await client.post(f"/api/sessions/{session}/turns/1/rerun", {"text": "three"}, expect=202)
    await live.ended(session, 3)
    assert (await client.get(f"/api/sessions/{session}/turns/3"))["instructionSummary"] == "three"
    assert (await rows(live))[0] == before
    assert turn == await client.get(f"/api/sessions/{session}/turns/1")


@pytest.mark.req("S004-151")
async def test_the_same_rerun_twice_is_one(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    await live.puppet.asked.get()
    live.puppet.say(AgentFailed("no."))
    await live.ended(session)
    path = f"/api/sessions/{session}/turns/1/rerun"
    answers = [await client.post(path, {"id": "click"}, expect=202) for _ in range(3)]
    assert [answer["duplicate"] for answer in answers] == [False, True, True]
    assert len({answer["messageId"] for answer in answers}) == 1
    assert (await live.puppet.asked.get()).text == "go"
    live.puppet.answer("yes")
    turns = await live.ended(session, 2)
    assert [str(turn.status) for turn in turns] == ["failed", "completed"]


@pytest.mark.req("S004-151")
async def test_a_long_instruction_is_asked_whole(live: Live, client: Client) -> None:
    session = await client.create()
    text = "wörds " * 1000
    await client.say(session, text)
    await live.ended(session)
    await client.post(f"/api/sessions/{session}/turns/1/rerun", expect=202)
    await live.ended(session, 2)
    assert (await client.ask("GET", f"/api/sessions/{session}/turns/2/instruction")).text == text


async def test_reruns_that_cannot_be(live: Live, client: Client) -> None:
    session = await client.create()
    path = f"/api/sessions/{session}/turns"
    assert (await client.refused(404, "POST", f"{path}/last/rerun"))["code"] == "unknown_turn"
    await client.say(session, "hello")
    await live.ended(session)
    for body in ({"text": " "}, {"id": ""}, {"text": 1}, {"what": 1}):
        await client.refused(400, "POST", f"{path}/1/rerun", json=body)
    assert (await client.refused(404, "POST", f"{path}/2/rerun"))["code"] == "unknown_turn"
    await client.post(f"/api/sessions/{session}/complete")
    error = await client.refused(409, "POST", f"{path}/1/rerun")
    assert error["code"] == "session_ended"
    assert len(await client.get(path)) == 1
