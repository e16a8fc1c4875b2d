"""Taking up a conversation after its process has gone: the agent's own way if it has one, else our record."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from gateway import phrases
from gateway.agents.acp.presets import _LAUNCHES
from gateway.logs import Event
from store import agent_sessions
from store.records import Status
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.scene import Scene, eventually

LOADS: dict[str, Any] = {"loadSession": True}
RESUMES: dict[str, Any] = {"sessionCapabilities": {"resume": {}}}
BOTH = {**LOADS, **RESUMES}


async def again(scene: Scene) -> None:
    """The daemon stops and starts."""
    await scene.stop()
    await scene.gone()
    await scene.restart()


#: What the agent can do → what it is asked, and what people are told.
WAYS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "resume": ({"capabilities": BOTH}, ["session/resume"], phrases.ACP_RESUMED),
    "load": ({"capabilities": LOADS}, ["session/load"], phrases.ACP_RESUMED),
    "resume is a lie": (
        {"capabilities": BOTH, "session/resume": [["error", -32601, "Method not found"]]},
        ["session/resume", "session/load"],
        phrases.ACP_RESUMED,
    ),
    "both are lies": (
        {
            "capabilities": BOTH,
            "session/resume": [["error", -32601, "Method not found"]],
            "session/load": [["error", -32603, "Invalid session identifier"]],
        },
        ["session/resume", "session/load", "session/new"],
        phrases.ACP_RETOLD,
    ),
    "load dies": (
        {"capabilities": LOADS, "session/load": [["exit", 1]]},
        ["session/load", "session/new"],
        phrases.ACP_RETOLD,
    ),
    "nothing": ({}, ["session/new"], phrases.ACP_RETOLD),
}


@pytest.mark.req("P35", "S002-13", "S002-22", "S002-46", "S002-47")
@pytest.mark.parametrize("way", WAYS)
async def test_a_conversation_goes_on_after_a_restart(scenes: Scenes, way: str) -> None:
    script, asked, told = WAYS[way]
    scene = await scenes(**script).start()
    await scene.say("remember the number 42")
    before = len(scene.sent())
    await again(scene)
    assert (await scene.rig.session()).status.live
    assert await scene.say("which number?") == "You said: which number?"
    methods = [line["method"] for line in scene.sent()[before:] if "method" in line]
    wanted = [name for name in methods if name in {"session/new", "session/load", "session/resume"}]
    assert wanted == asked
    assert (await scene.told()).count(told) == 1
    assert not [text for _, text in await scene.rig.said() if "REPLAYED" in text]
    prompt = scene.sent("session/prompt")[-1]["params"]["prompt"]
    assert prompt[-1]["text"] == "which number?"
    assert ("42" in prompt[0]["text"]) == (told == phrases.ACP_RETOLD)
    # And once more, with what it is called now.
    session = await scene.rig.session()
    known = await scene.rig.read(lambda db: agent_sessions.find(db, session.public_id, "main"))
    assert known is not None
    assert known.name == scene.sent("session/prompt")[-1]["params"]["sessionId"]


@pytest.mark.req("P35")
async def test_a_load_that_hangs_is_given_up(scenes: Scenes) -> None:
    scene = await scenes({"start_timeout": 3.0}, capabilities=LOADS).start()
    await scene.say("remember the number 42")
    await scene.stop()
    scene._table["start_timeout"] = 1.0
    await scene.restart(**{"session/load": [["hang"]]})
    assert await scene.say("which number?") == "You said: which number?"
    assert phrases.ACP_RETOLD in await scene.told()
    assert [line["why"] for line in scene.rig.journal.of(Event.AGENT_NOT_RESUMED)] == ["no answer in time"]
    assert len(scene.processes) == 1


@pytest.mark.req("P35")
async def test_500_replayed_updates_are_not_shown(scenes: Scenes) -> None:
    replay = [["say", f"REPLAYED {number}"] for number in range(500)]
    scene = await scenes(capabilities=LOADS, **{"session/load": replay}).start()
    await scene.say("first")
    await again(scene)
    assert await scene.say("second") == "You said: second"
    assert not [text for _, text in await scene.rig.said() if "REPLAYED" in text]


@pytest.mark.req("P35")
@pytest.mark.parametrize("way", ["session/load", "session/resume"])
async def test_a_replay_after_the_answer_is_not_shown(scenes: Scenes, way: str) -> None:
    """Gemini CLI answers `session/load` first and replays then; others replay what they only resume."""
    late = [["answer", {}], ["sleep", 0.2], ["say", "REPLAYED one"], ["sleep", 0.4], ["say", "REPLAYED two"]]
    can = LOADS if way == "session/load" else RESUMES
    scene = await scenes(capabilities=can, **{way: late}).start()
    await scene.say("first")
    await again(scene)
    assert await scene.say("second") == "You said: second"
    assert not [text for _, text in await scene.rig.said() if "REPLAYED" in text]


@pytest.mark.req("S002-43", "P35")
async def test_after_a_crash_a_successor_goes_on(scenes: Scenes) -> None:
    scene = await scenes(capabilities=LOADS, prompts={"die": [["exit", 3]]}).start()
    await scene.say("remember the number 42")
    await scene.say("die")
    assert await scene.say("which number?") == "You said: which number?"
    first, second = await scene.rig.sessions()
    assert (first.status, first.reason, second.status) == (Status.ERROR, "crash", Status.ACTIVE)
    assert second.predecessor == first.id
    assert phrases.ACP_RESUMED in await scene.told(second)
    assert len(scene.sent("session/load")) == 1


@pytest.mark.req("P35")
async def test_after_a_crash_a_successor_is_told_what_was_said(scenes: Scenes) -> None:
    scene = await scenes(prompts={"die": [["exit", 3]]}).start()
    await scene.say("remember the number 42")
    await scene.say("die")
    await scene.say("which number?")
    _, second = await scene.rig.sessions()
    assert phrases.ACP_RETOLD in await scene.told(second)
    record = scene.sent("session/prompt")[-1]["params"]["prompt"][0]["text"]
    assert "User: remember the number 42" in record
    assert "You: You said: remember the number 42" in record


@pytest.mark.req("S002-42", "S002-45")
async def test_a_crash_while_nobody_asks_is_noticed(scenes: Scenes) -> None:
    scene = await scenes(capabilities=LOADS).start()
    await scene.say("hi")
    [pid] = scene.processes
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: scene.rig.journal.of(Event.AGENT_CRASHED), 2)
    await eventually(lambda: scene.pool.count == 0)
    await scene.rig.settled()
    session = await scene.rig.session()
    assert session.status is Status.ERROR
    assert scene.pool.children == {}
    assert "SIGKILL" in (await scene.told(session))[-1]
    assert await scene.say("again") == "You said: again"
    assert len(await scene.rig.sessions()) == 2


async def test_after_new_the_agent_starts_empty(scenes: Scenes) -> None:
    scene = await scenes(capabilities=BOTH).start()
    await scene.say("hi")
    await scene.say("/new")
    assert await scene.say("again") == "You said: again"
    assert len(scene.sent("session/new")) == 2
    assert scene.sent("session/load") == scene.sent("session/resume") == []
    prompt = scene.sent("session/prompt")[-1]["params"]["prompt"]
    assert [block["text"] for block in prompt] == ["again"]


async def test_gemini_is_not_loaded_in_the_minute_of_its_session() -> None:
    assert [preset for preset, launch in _LAUNCHES.items() if launch.loads_later] == ["gemini"]
