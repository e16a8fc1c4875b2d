"""Stopping a turn: at once for people, politely for the agent, and never seen again."""

from __future__ import annotations

import json
import time

import pytest

from gateway import phrases
from gateway.agents.acp import session
from gateway.logs import Event
from store.records import Status, TurnStatus
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.scene import Scene, eventually

#: Says something, waits for the cancel, and goes on talking into whatever comes next.
LATE = [
    ["say", "early "],
    ["until cancelled"],
    ["say", "LATE"],
    ["answer", {"stopReason": "cancelled"}],
    ["say", "LATER"],
]
DEAF = [["say", "early "], ["hang"]]


async def working(scene: Scene, text: str) -> None:
    """Write, and wait until the agent has begun to answer."""
    await scene.rig.say(text)
    count = len(scene.sent("session/prompt"))
    await eventually(lambda: len(scene.sent("session/prompt")) > count or scene.sent("session/prompt"))
    await eventually(lambda: any(one.said for one in scene.pool.children.values()))


@pytest.mark.req("S002-37", "S002-38", "P36")
async def test_a_turn_that_is_stopped_leaves_nothing_in_the_next(scenes: Scenes) -> None:
    scene = await scenes(prompts={"work": LATE}).start()
    await working(scene, "work")
    began = time.monotonic()
    assert await scene.say("/stop") == phrases.STOPPED
    assert time.monotonic() - began < 1
    assert await scene.say("/stop") == phrases.NOTHING_RUNNING
    assert await scene.say("next") == "You said: next"
    assert len(scene.sent("session/cancel")) == 1
    assert len(scene.born) == 1
    assert not [text for text in scene.rig.chat.texts() if "LATE" in text]
    assert [turn.status for turn in await scene.rig.turns()] == [TurnStatus.FAILED, TurnStatus.COMPLETED]
    assert (await scene.rig.session()).status is Status.ACTIVE


@pytest.mark.req("P36")
async def test_what_comes_after_the_answer_belongs_to_no_turn(scenes: Scenes) -> None:
    """Even if it comes in the same breath."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "LATE"}}
    late = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "{session}", "update": update}}
    both = '{"id": {id}, "result": {"stopReason": "end_turn"}}\n' + json.dumps(late)
    scene = await scenes(prompts={"work": [["say", "ok"], ["raw", both], ["answered"]]}).start()
    assert await scene.say("work") == "ok"
    assert await scene.say("next") == "You said: next"


@pytest.mark.req("S002-38", "S002-39", "P36")
async def test_an_agent_that_does_not_stop_is_ended(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CANCEL_SECONDS", 0.3)
    scene = await scenes(prompts={"work": DEAF}, capabilities={"loadSession": True}).start()
    await working(scene, "work")
    [old] = scene.processes
    assert await scene.say("/stop") == phrases.STOPPED
    assert await scene.say("next") == "You said: next"
    assert old not in scene.processes
    assert len(scene.born) == 2
    assert phrases.ACP_RESUMED in await scene.told()
    assert (await scene.rig.session()).status is Status.ACTIVE
    assert scene.rig.journal.of(Event.AGENT_STUCK) == []


@pytest.mark.req("P36")
async def test_an_agent_that_leaks_can_be_started_again_after_each_stop(scenes: Scenes) -> None:
    scene = await scenes({"on_cancel": "restart"}, prompts={"work": LATE}).start()
    await working(scene, "work")
    await scene.say("/stop")
    assert await scene.say("next") == "You said: next"
    assert len(scene.born) == 2


@pytest.mark.req("P36")
async def test_a_message_that_began_in_a_stopped_turn_is_not_shown_in_the_next(scenes: Scenes) -> None:
    prompts = {
        "work": [["say", "old", {"messageId": "m1"}], ["until cancelled"]],
        "next": [["say", "LATE", {"messageId": "m1"}], ["say", "new", {"messageId": "m2"}]],
    }
    scene = await scenes(prompts=prompts).start()
    await working(scene, "work")
    await scene.say("/stop")
    assert await scene.say("next") == "new"


@pytest.mark.req("S002-65", "S002-63", "S002-64")
async def test_silence_is_told_once_and_a_late_answer_is_taken(scenes: Scenes) -> None:
    scene = await scenes({"silence_timeout": 0.2}, prompt=[["sleep", 1.0], ["say", "late"]]).start()
    assert await scene.say("hi") == "late"
    assert (await scene.told()).count(phrases.ACP_SILENT.format(seconds=0.2)) == 1
    assert len(scene.rig.journal.of(Event.AGENT_SILENT)) == 1
    assert (await scene.rig.session()).status is Status.ACTIVE


async def test_an_agent_that_gives_signs_of_life_is_not_silent(scenes: Scenes) -> None:
    signs = [["sleep", 0.2], ["update", {"sessionUpdate": "usage_update", "used": 1, "size": 2}]] * 5
    scene = await scenes({"silence_timeout": 0.6}, prompt=[*signs, ["say", "ok"]]).start()
    assert await scene.say("hi") == "ok"
    assert scene.rig.journal.of(Event.AGENT_SILENT) == []


@pytest.mark.req("S002-65", "P33")
async def test_the_hard_limit_ends_the_turn_and_frees_the_place(
    scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CANCEL_SECONDS", 0.3)
    table = {"turn_timeout": 0.8, "gateway": {"max_agent_processes": 1}}
    scene = await scenes(table, prompts={"work": DEAF}).start()
    assert await scene.say("work", sender="1") == phrases.FAILED.format(why=phrases.TIMED_OUT.format(seconds=0.8))
    await scene.gone()
    assert await scene.say("hello", sender="2") == "You said: hello"
    assert len(scene.sent("session/cancel")) == 1
    statuses = {one.status for one in await scene.rig.sessions()}
    assert statuses == {Status.ACTIVE}
