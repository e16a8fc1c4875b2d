"""What an agent asks, answered over HTTP."""

from __future__ import annotations

import pytest

from gateway import phrases
from tests.fakes.api import Client, Live

pytestmark = pytest.mark.req("P52")


async def asked(live: Live, client: Client) -> tuple[str, dict[str, object]]:
    session = str((await client.post("/api/sessions", expect=201))["id"])
    number = await live.running.store.read(lambda db: db.execute("SELECT max(id) FROM sessions").fetchone()[0])
    with live.running.api.feed.watch(number) as changed:
        await client.post(f"/api/sessions/{session}/prompt", {"text": "ask"}, expect=202)
        while not (found := await client.get(f"/api/sessions/{session}/questions")):
            await changed.wait()
            changed.clear()
    [question] = found
    return session, question


async def test_a_question_is_listed_and_the_first_answer_counts(live: Live, client: Client) -> None:
    session, question = await asked(live, client)
    assert question["sessionId"] == session
    assert [one["label"] for one in question["options"]] == ["✅ Allow", "❌ Reject"]  # type: ignore[attr-defined]
    assert await client.get("/api/questions") == [question]
    path = f"/api/questions/{question['id']}"
    assert (await client.ask("POST", path, json={"option": 3})).status == 400
    assert (await client.ask("POST", path, json={"option": 0})).status == 400
    assert (await client.post(path, {"option": 2}))["chosen"] == "no"
    late = await client.ask("POST", path, json={"option": 1})
    assert late.status == 409
    assert await client.get("/api/questions") == []
    assert (await client.ask("POST", "/api/questions/nothing", json={"option": 1})).status == 404


async def test_by_a_command_in_the_session(live: Live, client: Client) -> None:
    session, _ = await asked(live, client)
    told = await client.post(f"/api/sessions/{session}/command", {"text": "/choose 1"})
    assert told["text"] == phrases.YOU_CHOSE.format(option="✅ Allow")
    assert await client.get("/api/questions") == []


async def test_stopping_over_http_closes_it(live: Live, client: Client) -> None:
    session, question = await asked(live, client)
    await client.post(f"/api/sessions/{session}/stop")
    late = await client.ask("POST", f"/api/questions/{question['id']}", json={"option": 1})
    assert late.status == 409
    rows = await client.get(f"/api/sessions/{session}/messages")
    assert any(phrases.OVER_STOPPED in row["content"].get("text", "") for row in rows)
