"""How many processes there may be, and that each of them goes when it has to."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from gateway import phrases
from gateway.agents.acp import kin, pool, process
from gateway.logs import Event
from routing.errors import AgentLimit
from store import agent_processes
from store.records import Status
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.agent import GRANDCHILD
from tests.fakes.acp.scene import Scene, eventually
from tests.fakes.clock import FakeClock

#: A child that ignores SIGTERM, with a grandchild that has left the group and ignores it, too.
CLINGING = [["stubborn"], ["grandchild"]]


def _waits(scene: Scene, count: int) -> bool:
    return len(scene.rig.journal.of(Event.AGENT_LIMIT)) == count


@pytest.mark.req("S000-65", "S000-68", "S000-70", "S002-05")
async def test_the_sixth_waits_and_is_told_its_place(scenes: Scenes) -> None:
    prompts = {"work": [["until cancelled"]]}
    scene = await scenes({"gateway": {"max_agent_processes": 2}}, prompts=prompts).start()
    for sender in ("1", "2"):
        await scene.rig.say("work", sender=sender)
    await eventually(lambda: len(scene.sent("session/prompt")) == 2)
    for waiting, sender in enumerate(("3", "4"), 1):
        await scene.rig.say("hello", sender=sender)
        await eventually(partial(_waits, scene, waiting))
    await scene.rig.settled()
    told = [[text for _, text in await scene.rig.said(one)] for one in await scene.rig.sessions()]
    queued = [phrases.ACP_QUEUED.format(limit=2, position=place) for place in (1, 2)]
    assert [[text for text in texts if text in queued] for texts in told] == [[], [], [queued[0]], [queued[1]]]
    assert len(scene.processes) == 2
    with pytest.raises(AgentLimit) as refused:
        scene.pool.ask(wait=False)
    assert refused.value.retry_after == 60
    await scene.say("/stop", sender="1")
    await eventually(lambda: scene.answers("3") and scene.answers("4"))
    assert (scene.answers("3"), scene.answers("4")) == (["You said: hello"], ["You said: hello"])
    counts = [(line["old"], line["new"]) for line in scene.rig.journal.of(Event.AGENT_COUNT)]
    assert max(new for _, new in counts) == 2


async def test_who_is_stopped_while_waiting_leaves_the_queue(scenes: Scenes) -> None:
    prompts = {"work": [["until cancelled"]]}
    scene = await scenes({"gateway": {"max_agent_processes": 1}}, prompts=prompts).start()
    await scene.rig.say("work", sender="1")
    await eventually(lambda: scene.sent("session/prompt"))
    await scene.rig.say("hello", sender="2")
    await eventually(lambda: scene.rig.journal.of(Event.AGENT_LIMIT))
    assert await scene.say("/stop", sender="2") == phrases.STOPPED
    await scene.say("/stop", sender="1")
    assert await scene.say("hi", sender="3") == "You said: hi"
    assert scene.pool.count == 1


async def test_who_rests_makes_room(scenes: Scenes) -> None:
    scene = await scenes({"gateway": {"max_agent_processes": 1}}, capabilities={"loadSession": True}).start()
    for sender in ("1", "2", "1"):
        assert await scene.say("hi", sender=sender) == "You said: hi"
        assert len(scene.processes) == 1
    assert {one.status for one in await scene.rig.sessions()} == {Status.ACTIVE}
    assert len(scene.sent("session/load")) == 1


@pytest.mark.req("S000-71", "S000-72", "S000-77", "S002-57", "S002-58", "P31")
async def test_an_idle_process_ends_and_the_next_message_wakes_the_conversation(scenes: Scenes) -> None:
    clock = FakeClock()
    table = {"clock": clock, "gateway": {"idle_minutes": 1.0}}
    scene = await scenes(table, capabilities={"loadSession": True}, start=CLINGING).start()
    await scene.say("hi")
    await eventually(lambda: len(scene.processes) == 2)
    await clock.advance(55)
    assert len(scene.processes) == 2
    await clock.advance(70)
    await scene.gone()
    assert len(scene.sent("session/cancel")) == 1
    session = await scene.rig.session()
    assert (session.status, session.reason) == (Status.IDLE, "idle_timeout")
    assert await scene.say("still there?") == "You said: still there?"
    assert (await scene.rig.session()).status is Status.ACTIVE
    assert phrases.ACP_RESUMED in await scene.told()
    await scene.rig.cut()


@pytest.mark.req("P31")
async def test_after_new_the_old_process_goes(scenes: Scenes) -> None:
    clock = FakeClock()
    scene = await scenes({"clock": clock}, start=CLINGING).start()
    await scene.say("hi")
    await eventually(lambda: len(scene.processes) == 2)
    await scene.say("/new")
    await clock.advance(6)
    await scene.gone()


@pytest.mark.req("P31", "S002-47", "S002-49")
async def test_a_stop_ends_everything_within_ten_seconds(scenes: Scenes) -> None:
    scene = await scenes(start=CLINGING, prompts={"work": [["hang"]]}).start()
    for sender in ("1", "2", "3"):
        await scene.say("hi", sender=sender)
    await scene.rig.say("work", sender="3")
    await eventually(lambda: len(scene.sent("session/prompt")) == 4)
    assert len(scene.processes) == 6
    began = time.monotonic()
    await scene.agent.close()
    assert time.monotonic() - began < 10
    assert scene.processes == []
    assert len(scene.sent("session/cancel")) >= 3
    assert await scene.rig.read(agent_processes.every) == []


@pytest.mark.req("S002-53")
async def test_the_heartbeat_finds_a_process_that_vanished_unseen(scenes: Scenes) -> None:
    clock = FakeClock()
    scene = await scenes({"clock": clock}).start()
    await scene.say("hi")
    [child] = scene.pool.children.values()
    # As if the kernel had not told us.
    asyncio.get_running_loop().remove_reader(child.process._pidfd)
    asyncio.get_running_loop().remove_reader(child.process._process.stdout.fileno())  # type: ignore[union-attr]
    os.kill(child.process.pid, signal.SIGKILL)
    await eventually(lambda: kin.started(child.process.pid) is None)
    await clock.advance(29)
    assert not child.lost.done()
    await clock.advance(2)
    assert child.lost.result() == "the process is gone"
    asyncio.get_running_loop().add_reader(child.process._pidfd, child.process._on_exit)
    await scene.gone()
    await eventually(lambda: scene.pool.count == 0)


@pytest.mark.req("P31", "P30")
async def test_what_a_killed_daemon_left_is_ended_at_the_next_start(scenes: Scenes, tmp_path: Path) -> None:
    scene = scenes()
    await scene.start()
    await scene.stop()
    env = {"SCENE": scene.token}
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {GRANDCHILD!r}]); time.sleep(1000)"
    left = process.Process([sys.executable, "-c", code], tmp_path, env, "a-mark")
    await scene.rig.before(lambda db: agent_processes.take(db, "a-mark", "a-session", "main", 1))
    started = left.started
    await scene.rig.before(lambda db: agent_processes.name(db, "a-mark", left.pid, started))
    await eventually(lambda: len(scene.processes) == 2)
    await scene.restart()
    await scene.gone()
    assert await scene.rig.read(agent_processes.every) == []
    [line] = scene.rig.journal.of(Event.AGENT_REAPED)
    assert line["session"] == "a-session"
    await left.stop()


async def test_a_stranger_with_the_same_number_is_left_alone(scenes: Scenes, tmp_path: Path) -> None:
    scene = scenes()
    await scene.start()
    await scene.stop()
    stranger = process.Process(["/bin/sleep", "1000"], tmp_path, {}, "another-mark")
    try:
        await scene.rig.before(lambda db: agent_processes.take(db, "a-mark", "a-session", "main", 1))
        await scene.rig.before(lambda db: agent_processes.name(db, "a-mark", stranger.pid, 1))
        await scene.restart()
        assert kin.started(stranger.pid) == stranger.started
    finally:
        await stranger.stop()


@pytest.mark.req("P31", "P33")
@pytest.mark.timeout(180)
async def test_50_sessions_over_a_limit_of_5_with_random_kills(scenes: Scenes) -> None:
    """Never more processes than the limit at any sample, none left, and everybody gets an answer."""
    chance = random.Random(6)
    scene = await scenes(
        {"gateway": {"max_agent_processes": 5}, "max_turns": 1000},
        capabilities={"loadSession": True},
        prompt=[["sleep", 0.05], ["say", "done"]],
    ).start()
    most = 0
    done = asyncio.Event()

    async def watch() -> None:
        nonlocal most
        while not done.is_set():
            alive = [child.process.pid for child in scene.pool.children.values() if child.process.running]
            most = max(most, len(scene.processes))
            if alive and chance.random() < 0.3:
                os.kill(chance.choice(alive), signal.SIGKILL)
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    people = [str(number) for number in range(1, 51)]
    for sender in people:
        for _ in range(2):
            await scene.rig.say("work", sender=sender)
    await eventually(lambda: all(len(scene.answers(sender)) >= 2 for sender in people), 150)
    done.set()
    await watching
    assert 0 < most <= 5
    answered = [text for sender in people for text in scene.answers(sender)]
    killed = [line for line in scene.rig.journal.of(Event.AGENT_CRASHED) if line["ending"] == "SIGKILL"]
    assert len(killed) == len(scene.rig.journal.of(Event.AGENT_CRASHED))
    assert answered.count("done") >= len(answered) - len(scene.rig.journal.of(Event.TURN_FAILED))
    assert killed
    assert answered.count("done") > 50
    await scene.stop()
    await scene.gone()
    assert scene.pool.count == 0


def test_all_is_over_in_ten_seconds() -> None:
    assert pool._CLOSING + 1 <= 10
