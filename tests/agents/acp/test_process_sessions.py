"""Sessions of the API are one with the process of their agent: there once it has answered, over when it is."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from gateway import phrases, supervision
from gateway.logs import Event
from routing.errors import AgentFailed, AgentNotInstalled
from store import agent_sessions
from store.records import Session, Status
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.scene import Scene, eventually

HOUR = 3_600_000_000


async def create(scene: Scene, **how: Any) -> Session:
    return await scene.rig.running.api.create_session(None, "owner", **how)


async def status(scene: Scene, session: Session) -> tuple[Status, str | None]:
    now = await scene.rig.running.api.session(session.public_id)
    return now.status, now.reason


@pytest.mark.req("S002-05", "S002-12", "S002-13", "S002-14", "S000-38")
async def test_a_session_is_there_once_its_agent_has_answered(scenes: Scenes) -> None:
    scene = await scenes().start()
    session = await create(scene)
    assert session.status is Status.ACTIVE
    assert session.repo_id is not None
    [asked] = scene.sent("session/new")
    assert asked["params"]["cwd"] == str(scene.repo)
    known = await scene.rig.read(lambda db: agent_sessions.find(db, session.public_id, "main"))
    assert known is not None
    assert list(scene.pool.children) == [session.public_id]
    await scene.rig.running.api.prompt(session.public_id, "hello", None)
    await eventually(lambda: scene.sent("session/prompt"))
    assert len(scene.born) == 1
    assert scene.sent("session/prompt")[0]["params"]["sessionId"] == known.name


@pytest.mark.req("S002-08", "S002-14")
@pytest.mark.parametrize(
    ("script", "table"),
    [
        ({"session/new": [["exit", 3]]}, {}),
        ({"session/new": [["error", -32603, "no"]]}, {}),
        ({"initialize": [["exit", 1]]}, {}),
        ({}, {"command": ["/nowhere/agent"]}),
    ],
)
async def test_where_the_agent_fails_there_is_no_session_and_no_process(
    scenes: Scenes, script: dict[str, Any], table: dict[str, Any]
) -> None:
    scene = await scenes(table, **script).start()
    with pytest.raises(AgentFailed) as failed:
        await create(scene)
    assert isinstance(failed.value, AgentNotInstalled) == ("command" in table)
    assert await scene.rig.sessions() == []
    await scene.gone()
    await eventually(lambda: scene.pool.count == 0)


@pytest.mark.req("S000-64", "S000-65", "S000-66", "S000-67", "S000-68", "S000-69", "S002-54", "S002-55", "S002-56")
async def test_at_the_limit_it_is_429_until_one_ends(scenes: Scenes) -> None:
    scene = await scenes({"gateway": {"max_agent_processes": 2}}).start()
    url, token = scene.rig.running.url, scene.rig.running.token
    async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {token}"}) as http:
        made = [await (await http.post("/api/sessions", json={})).json() for _ in range(2)]
        async with http.post("/api/sessions", json={}) as refused:
            error = (await refused.json())["error"]
        assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
        assert "2 agent processes" in error["message"]
        assert "60 seconds" in error["message"]
        assert len(scene.processes) == 2
        assert len(scene.rig.journal.of(Event.AGENT_LIMIT)) == 1
        async with http.delete(f"/api/sessions/{made[0]['id']}") as deleted:
            assert deleted.status == 200
        await eventually(lambda: scene.pool.count == 1)
        async with http.post("/api/sessions", json={}) as again:
            assert again.status == 201


@pytest.mark.req("S002-06", "S002-16", "S002-17", "S002-19")
async def test_what_is_wrong_has_its_code(scenes: Scenes) -> None:
    scene = await scenes({"command": ["/nowhere/agent"]}).start()
    url, token = scene.rig.running.url, scene.rig.running.token
    async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {token}"}) as http:
        async with http.post("/api/sessions", json={}) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (503, "agent_not_installed")
        async with http.post("/api/sessions", json={"repoId": "nobody/knows"}) as answer:
            assert answer.status == 404
    assert await scene.rig.sessions() == []


@pytest.mark.req("S000-71", "S000-72", "S000-73", "S002-57", "S002-58", "S002-59")
async def test_nobody_uses_it_for_long_and_it_is_completed(scenes: Scenes) -> None:
    scene = await scenes().start()
    session = await create(scene)
    later = scene.rig.clock.now() + HOUR
    await supervision.tidy(scene.rig.running.intake.persist, later, 1800)
    assert await status(scene, session) == (Status.COMPLETED, "idle_timeout")
    await scene.gone()
    assert len(scene.sent("session/cancel")) == 1


@pytest.mark.req("S002-46", "S002-47", "S002-48")
async def test_a_stop_of_the_daemon_cancels_it(scenes: Scenes) -> None:
    scene = await scenes().start()
    session = await create(scene)
    await scene.stop()
    assert scene.processes == []
    assert len(scene.sent("session/cancel")) == 1
    await scene.restart()
    assert await status(scene, session) == (Status.CANCELLED, "shutdown")
    assert phrases.NOTE_SHUTDOWN in await scene.told(session)


@pytest.mark.req("R-01")
async def test_after_the_daemon_was_killed_it_is_an_error(scenes: Scenes) -> None:
    scene = await scenes().start()
    session = await create(scene)
    await scene.rig.cut()
    await scene.restart()
    assert await status(scene, session) == (Status.ERROR, "daemon_ended")
    assert phrases.NOTE_DAEMON_DIED in await scene.told(session)


@pytest.mark.req("R-03")
async def test_it_makes_room_for_nobody(scenes: Scenes) -> None:
    scene = await scenes({"gateway": {"max_agent_processes": 1}}).start()
    session = await create(scene)
    await scene.rig.say("hello")
    await eventually(lambda: phrases.ACP_QUEUED.format(limit=1, position=1) in scene.rig.chat.texts())
    assert list(scene.pool.children) == [session.public_id]
    await scene.rig.running.api.end(session.public_id, Status.CANCELLED, "by a test")
    await eventually(lambda: scene.answers() == ["You said: hello"])


@pytest.mark.req("R-01")
async def test_one_that_lasts_has_no_process_until_it_needs_one(scenes: Scenes) -> None:
    scene = await scenes().start()
    session = await create(scene, lasting=True)
    assert scene.born == []
    await scene.stop()
    await scene.restart()
    assert (await status(scene, session))[0] is Status.ACTIVE


@pytest.mark.req("S002-15", "S002-23", "S002-25", "S002-26", "S002-40", "S002-41")
async def test_from_the_first_prompt_to_its_cancellation(scenes: Scenes) -> None:
    scene = await scenes().start()
    url, token = scene.rig.running.url, scene.rig.running.token
    async with aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {token}"}) as http:
        async with http.post("/api/sessions", json={}) as answer:
            path = f"/api/sessions/{(await answer.json())['id']}"
        async with http.post(f"{path}/prompt", json={"text": "hello"}) as answer:
            assert answer.status == 202
        async with http.get(f"{path}/messages") as answer:
            first = (await answer.json())[0]
        assert (first["role"], first["content"]["text"]) == ("user", "hello")
        async with http.delete(path) as answer:
            assert answer.status == 200
        async with http.get(path) as answer:
            assert (await answer.json())["status"] == "cancelled"
    await scene.gone()


@pytest.mark.req("S002-27", "S002-28", "S002-29")
@pytest.mark.parametrize("ended", [Status.COMPLETED, Status.CANCELLED, Status.ERROR, Status.ARCHIVED])
async def test_an_ended_session_takes_no_prompt(scenes: Scenes, ended: Status) -> None:
    scene = await scenes().start()
    session = await create(scene)
    await scene.rig.running.api.end(session.public_id, ended, "by a test")
    url, token = scene.rig.running.url, scene.rig.running.token
    path = f"{url}/api/sessions/{session.public_id}/prompt"
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http,
        http.post(path, json={"text": "hello"}) as answer,
    ):
        assert (answer.status, (await answer.json())["error"]["status"]) == (409, ended)
    await scene.gone()
    assert scene.sent("session/prompt") == []


@pytest.mark.req("S002-32", "S000-74", "S000-75", "S000-76", "S000-79")
async def test_what_the_agent_says_keeps_the_session_awake(scenes: Scenes) -> None:
    work = [["say", "a"], ["sleep", 0.5], ["say", "b"], ["until cancelled"]]
    scene = await scenes(prompts={"work": work}).start()
    session, other = await create(scene), await create(scene)
    await scene.rig.running.api.prompt(session.public_id, "work", None)
    await eventually(lambda: scene.sent("session/prompt"))
    asked = (await scene.rig.running.api.session(session.public_id)).updated_at
    async with asyncio.timeout(20):
        while "ab" not in (await scene.rig.history(session))[-1].raw_content:  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # it is stored as it grows, by the clock
    said = (await scene.rig.running.api.session(session.public_id)).updated_at
    assert said > asked
    await scene.rig.running.api.stop(session.public_id)
    persist = scene.rig.running.intake.persist
    await supervision.tidy(persist, asked + 1_800_000_000, 1800)
    assert (await status(scene, session))[0] is Status.ACTIVE
    assert await status(scene, other) == (Status.COMPLETED, "idle_timeout")
    await supervision.tidy(persist, scene.rig.clock.now() + 1_800_000_000, 1800)
    assert await status(scene, session) == (Status.COMPLETED, "idle_timeout"), "the same time for all"
