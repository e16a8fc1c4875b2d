"""Agents that do not end when they should: nothing of them is shown, nobody waits for them for long."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gateway import phrases
from gateway.agents.protocol import Done, Event, TextDelta, ToolUpdate, TurnContext
from gateway.logs import Event as Logged
from gateway.runs import GRACE
from store.records import TurnStatus
from tests.fakes.agents import ScriptedAgent
from tests.fakes.clock import breathe
from tests.fakes.harness import Rig, Rigs
from tests.store.helpers import held

STREAMING = {"main": {"streaming": True}}

#: A process whose agent would never end.
STUCK = """
import asyncio
from gateway import runs
from gateway.clock import SystemClock
from tests.fakes.agents import ScriptedAgent
from tests.fakes.model.turns import turn_of

runs.GRACE = 0.01

async def main():
    agent = ScriptedAgent([asyncio.Event()], stubborn=True)
    async with runs.Run(agent, turn_of("go"), SystemClock()):
        await asyncio.sleep(0)
    print("left", flush=True)
    runs.leave_abandoned()

asyncio.run(main())
"""


class Deaf(ScriptedAgent):
    """Its first run swallows every cancellation, and streams on; the others are well-behaved."""

    def __init__(self) -> None:
        super().__init__()
        self.swallowed = 0
        self.more = asyncio.Event()
        self.end = asyncio.Event()

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        self.seen.append(turn)
        if len(self.seen) > 1:
            yield TextDelta("clean")
            yield Done()
            return
        yield TextDelta("old words")
        for event in (self.more, self.end):
            while not event.is_set():
                try:
                    await event.wait()
                except asyncio.CancelledError:
                    self.swallowed += 1
            yield TextDelta(" LATE")
        yield Done()


class Untidy(ScriptedAgent):
    """Answers, and then cleans up for ever, or raises there."""

    def __init__(self, error: BaseException | None = None, *, listens: bool = True) -> None:
        super().__init__()
        self.error = error
        self.listens = listens
        self.end = asyncio.Event()

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        self.seen.append(turn)
        try:
            yield TextDelta(f"answer {len(self.seen)}")
            yield Done()
        finally:
            if self.error is not None:
                raise self.error
            while not self.end.is_set():
                try:
                    await self.end.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    if self.listens:
                        raise


async def over(rig: Rig, agent: Deaf | Untidy) -> None:
    """Let what was abandoned come to its end, which changes nothing any more."""
    before = (rig.chat.texts(), await rig.said())
    if isinstance(agent, Deaf):
        agent.more.set()
        await rig.advance(5)
    agent.end.set()
    await rig.advance(60)
    assert (rig.chat.texts(), await rig.said()) == before


@pytest.mark.req("P36")
@pytest.mark.parametrize("streaming", [False, True])
async def test_a_stop_is_answered_at_once_whatever_the_agent_does(rigs: Rigs, streaming: bool) -> None:
    rig = rigs(agent := Deaf(), memory={"main": {"streaming": streaming}})
    await rig.start()
    await rig.ask("go")
    await rig.advance(2)
    asked = rig.clock.monotonic()
    await rig.ask("/stop")
    assert rig.clock.monotonic() == asked
    closed = [f"old words\n\n{phrases.STOPPED}"] if streaming else []
    assert rig.chat.texts() == [*closed, phrases.STOPPED]
    [turn] = await rig.turns()
    assert (turn.status, turn.errors) == (TurnStatus.FAILED, ("stopped",))
    agent.more.set()
    await rig.advance(1)
    await rig.ask("/stop")
    assert rig.chat.texts() == [*closed, phrases.STOPPED, phrases.NOTHING_RUNNING]
    await rig.ask("next")
    await rig.advance(GRACE)
    assert rig.chat.texts()[-1] == "clean", "the next turn is not held up for longer than the grace"
    assert agent.swallowed >= 1
    assert len(rig.journal.of(Logged.AGENT_STUCK)) == 1
    assert [text for _, text in await rig.said()] == ["go", "old words", phrases.NOTE_STOPPED, "next", "clean"]
    await over(rig, agent)


@pytest.mark.req("P36")
async def test_a_stop_holds_up_nobody_else(rigs: Rigs) -> None:
    rig = await rigs(agent := Deaf()).start()
    await rig.ask("go", sender="1")
    await rig.ask("/stop", sender="1")
    await rig.ask("hello", sender="2")
    assert rig.chat.texts("2") == ["clean"]
    agent.more.set()
    agent.end.set()
    await rig.advance(GRACE)


@pytest.mark.req("P36")
async def test_a_deadline_holds_although_the_agent_does_not_listen(rigs: Rigs) -> None:
    rig = await rigs(agent := Deaf(), main={"turn_timeout": 10.0}).start()
    await rig.ask("go")
    await rig.advance(10 + GRACE)
    assert rig.chat.texts() == [phrases.FAILED.format(why=phrases.TIMED_OUT.format(seconds=10))]
    await rig.ask("next")
    assert rig.chat.texts()[1:] == ["clean"]
    await over(rig, agent)


@pytest.mark.req("P36")
async def test_the_daemon_stops_although_an_agent_does_not(rigs: Rigs) -> None:
    rig = await rigs(agent := Deaf(), gateway={"drain_seconds": 3.0}).start()
    await rig.ask("go")
    began = rig.clock.monotonic()
    await rig.stop()
    assert rig.clock.monotonic() - began <= 3 + GRACE + 1
    agent.more.set()
    agent.end.set()
    await rig.start()
    assert rig.chat.texts() == ["clean"], "the turn runs again"
    [turn] = await rig.turns()
    assert turn.attempts == 1, "which was no crash"


@pytest.mark.req("P36")
async def test_a_stop_of_the_daemon_during_the_grace_of_a_stop(rigs: Rigs) -> None:
    rig = await rigs(agent := Deaf(), gateway={"drain_seconds": 1.0}).start()
    await rig.ask("go")
    await rig.ask("/stop")
    began = rig.clock.monotonic()
    await rig.stop()
    assert rig.clock.monotonic() - began <= 1 + GRACE + 1
    agent.more.set()
    agent.end.set()
    await rig.start()
    assert rig.chat.texts() == [phrases.STOPPED]
    assert (await rig.turns())[0].errors == ("stopped",)


# -- cleaning up -------------------------------------------------------------------------------------------------------


@pytest.mark.req("P01")
@pytest.mark.parametrize("listens", [True, False])
async def test_an_agent_that_cleans_up_for_ever_does_not_lose_its_answer(rigs: Rigs, listens: bool) -> None:
    rig = await rigs(agent := Untidy(listens=listens), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(GRACE)
    assert rig.chat.texts() == ["answer 1"]
    assert (await rig.turns())[0].status is TurnStatus.COMPLETED
    assert len(rig.journal.of(Logged.AGENT_STUCK)) == 1
    await rig.ask("next")
    await rig.advance(GRACE)
    assert rig.chat.texts() == ["answer 1", "answer 2"]
    await over(rig, agent)


@pytest.mark.req("P01")
async def test_an_agent_that_cleans_up_beyond_its_deadline_does_not_lose_its_answer(rigs: Rigs) -> None:
    rig = await rigs(agent := Untidy(), main={"turn_timeout": 2.0}).start()
    await rig.ask("go")
    await rig.advance(GRACE)
    assert rig.chat.texts() == ["answer 1"]
    await over(rig, agent)


@pytest.mark.req("P01")
@pytest.mark.parametrize("error", [ZeroDivisionError("x"), TimeoutError(), asyncio.CancelledError()], ids=repr)
async def test_whatever_goes_wrong_after_the_end_the_answer_is_there(rigs: Rigs, error: BaseException) -> None:
    rig = await rigs(Untidy(error)).start()
    await rig.ask("go")
    assert rig.chat.texts() == ["answer 1"]


@pytest.mark.req("P36")
async def test_a_stop_while_an_agent_cleans_up_is_decided_once(rigs: Rigs) -> None:
    """The answer is not stored yet: the stop wins, and nothing of it is shown."""
    rig = await rigs(agent := Untidy()).start()
    await rig.ask("go")
    await rig.ask("/stop")
    await rig.advance(60)
    assert rig.chat.texts() == [phrases.STOPPED]
    [turn] = await rig.turns()
    assert turn.status is TurnStatus.FAILED
    assert "answer 1" not in [text for _, text in await rig.said()]
    agent.end.set()
    await rig.ask("next")
    assert rig.chat.texts()[-1] == "answer 2"


async def test_a_run_may_not_run_far_ahead_of_what_is_stored(rigs: Rigs) -> None:
    go, produced = asyncio.Event(), 0

    class Fast(ScriptedAgent):
        async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
            nonlocal produced
            await go.wait()
            yield ToolUpdate("1", "ls")
            for number in range(5000):
                produced = number
                yield TextDelta("x")
            yield Done()

    rig = await rigs(Fast()).start()
    await rig.ask("go")
    async with held(rig.running.store):
        go.set()
        for _ in range(20):
            await breathe()
        assert 0 < produced < 100, "the store does not take the tool call, so that the agent waits"
    async with asyncio.timeout(20):
        await rig.chat.called.wait()
    await rig.settled()
    assert rig.chat.texts() == ["x" * 5000]


def test_a_stuck_agent_does_not_keep_the_process(checkout: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], cwd=checkout, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "left\n"
