"""An agent that can change things: known people only, and a run is never repeated unasked."""

from __future__ import annotations

import asyncio

import pytest

from gateway import phrases
from routing.access import Reason
from store.records import TurnStatus
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.scene import eventually

STRANGER = "666"


@pytest.mark.parametrize("group", [False, True], ids=["directly", "in a group"])
async def test_a_stranger_never_reaches_it(scenes: Scenes, group: bool) -> None:
    """The account is open to everybody, and the group is listed: that is not enough."""
    scene = await scenes().start()
    await scene.rig.ask("rm -rf /", sender=STRANGER, group=group)
    [refusal] = await scene.rig.refusals()
    assert refusal.reason == Reason.STRANGER
    assert scene.born == []
    assert await scene.say("hello", group=group) == "You said: hello" or group


async def test_in_a_group_a_known_person_is_named_to_it(scenes: Scenes) -> None:
    scene = await scenes().start()
    await scene.say("hello", group=True, sender="1", name="Ada")
    [prompt] = scene.sent("session/prompt")
    assert prompt["params"]["prompt"][0]["text"] == '[from "Ada" (memory:1)]\nhello'


@pytest.mark.req("P30")
async def test_a_turn_that_a_restart_cut_is_told_and_not_repeated(scenes: Scenes) -> None:
    table = {"gateway": {"drain_seconds": 0}}
    scene = await scenes(table, prompts={"work": [["say", "begun"], ["until cancelled"]]}).start()
    await scene.rig.say("work")
    await eventually(lambda: any(child.said for child in scene.pool.children.values()))
    await scene.stop()
    await scene.gone()
    await scene.restart()
    await eventually(lambda: scene.rig.chat.texts())
    assert phrases.INTERRUPTED in scene.rig.chat.texts()[-1]
    [turn] = await scene.rig.turns()
    assert turn.status is TurnStatus.FAILED
    assert len(scene.sent("session/prompt")) == 1
    assert await scene.say("/retry") in {phrases.RETRYING, "begun"}
    await eventually(lambda: len(scene.sent("session/prompt")) == 2)
    await scene.say("/stop")


@pytest.mark.req("P33")
async def test_one_that_hangs_holds_up_nobody_else(scenes: Scenes) -> None:
    table = {"gateway": {"max_agent_processes": 30}}
    scene = await scenes(table, prompts={"hang": [["hang"]]}).start()
    await scene.rig.say("hang", sender="1")
    others = [str(number) for number in range(2, 12)]
    answers = await asyncio.gather(*(scene.say("hello", sender=sender) for sender in others))
    assert set(answers) == {"You said: hello"}
