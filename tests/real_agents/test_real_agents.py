"""Third-party agents through the whole gateway: people in a chat, a real agent, a model that does as it is asked."""

from __future__ import annotations

import asyncio
import re
import signal
import time

import pytest

from gateway import phrases
from tests.fakes.coding import brain
from tests.real_agents.agents import memory_mb
from tests.real_agents.conftest import Record, Scene

# An agent may take a quarter of a minute to start, and one test waits for the next minute.
pytestmark = pytest.mark.timeout(400)


@pytest.mark.req("S002-02", "S002-11")
async def test_hello(scene: Scene, record: Record) -> None:
    first = await scene.ask(brain.HELLO, brain.GREETING)
    second = await scene.ask(brain.HELLO, brain.GREETING)
    assert [text for text in scene.texts if brain.GREETING in text] == [brain.GREETING] * 2
    record.note(scene.agent, "first answer, with the start of the agent", f"{first:.1f} s")
    record.note(scene.agent, "second answer", f"{second:.1f} s")
    record.note(scene.agent, "memory", f"{memory_mb(scene.alive)} MB")


async def test_a_tool_that_is_allowed_and_one_that_is_not(scene: Scene, record: Record) -> None:
    scene.dm.say(f"{brain.TOOL} walrus to allowed.txt")
    question = await scene.question()
    assert "echo walrus > allowed.txt" in question.text
    assert not (scene.repo / "allowed.txt").exists()
    scene.press(question, "✅")
    await scene.until(lambda: any(brain.DONE in text for text in scene.texts))
    assert (scene.repo / "allowed.txt").read_text() == "walrus\n"
    await scene.until(lambda: not question.data.get("reply_markup"))

    shown = len(scene.texts)
    scene.dm.say(f"{brain.TOOL} walrus to refused.txt")
    question = await scene.question()
    scene.press(question, "❌")
    await scene.until(lambda: not question.data.get("reply_markup") and len(scene.texts) > shown + 1)
    await scene.ask(brain.HELLO, brain.GREETING)
    assert not (scene.repo / "refused.txt").exists()
    assert all(text.strip() for text in scene.texts)
    record.note(scene.agent, "a shell command, allowed by a button", "has run")
    record.note(scene.agent, "a shell command, rejected by a button", "has not run; the next message is answered")


@pytest.mark.req("P36")
async def test_stop(scene: Scene, record: Record) -> None:
    await scene.ask(brain.HELLO, brain.GREETING)
    scene.dm.say(brain.SLOW)
    async with asyncio.timeout(60):
        await scene.model.waiting.wait()
    began = time.monotonic()
    scene.dm.say("/stop")
    await scene.until(lambda: any(phrases.STOPPED in text for text in scene.texts))
    told = time.monotonic() - began
    async with asyncio.timeout(15):
        await scene.model.left.wait()
    let_go = time.monotonic() - began
    shown = len(scene.texts)
    await scene.ask(brain.HELLO, brain.GREETING)
    assert not any(brain.BEGUN in text for text in scene.texts[shown:])
    record.note(scene.agent, "/stop is answered", f"{told:.1f} s")
    record.note(scene.agent, "the agent has let go of the model", f"{let_go:.1f} s")


async def _next_minute(scene: Scene) -> None:
    """Gemini spoils a session that is loaded in the minute in which it was made. The wall clock has no event."""
    if scene.agent.loads_later:
        await asyncio.sleep(60 - time.time() % 60 + 0.5)


@pytest.mark.req("P35", "P31")
async def test_restart_and_go_on(scene: Scene, record: Record) -> None:
    await scene.ask(f"{brain.WORD} walrus", "I will remember walrus.")
    for number in (1, 2):
        assert scene.alive
        began = time.monotonic()
        await scene.stop()
        await scene.nobody_left()
        record.note(
            scene.agent, "nothing of it is left after SIGTERM to the daemon", f"{time.monotonic() - began:.1f} s"
        )
        await _next_minute(scene)
        await scene.start()
        shown = len(scene.texts)
        took = await scene.ask(brain.ASK, "It was walrus.")
        # Nothing of the past is shown again.
        assert not any("I will remember" in text for text in scene.texts[shown:])
        record.note(scene.agent, f"restart {number}: what the history says", await scene.notes() or "(nothing)")
        record.note(scene.agent, f"restart {number}: first answer", f"{took:.1f} s")
    ways = re.findall(r"agent_not_resumed .*", scene.place.log.read_text())
    record.note(scene.agent, "ways to take up a session that failed", str(len(ways)))


@pytest.mark.req("P31")
async def test_a_killed_daemon_leaves_nothing(scene: Scene, record: Record) -> None:
    await scene.ask(brain.HELLO, brain.GREETING)
    [daemon] = scene.place.daemons
    scene.place.daemons.clear()
    daemon.send_signal(signal.SIGKILL)
    await asyncio.to_thread(daemon.communicate)
    await scene.start()
    took = await scene.nobody_left()
    record.note(scene.agent, "nothing of it is left after a killed daemon was started again", f"{took:.1f} s")
    await scene.ask(brain.HELLO, brain.GREETING)
