"""A model that cannot read all it is given: one compaction, one more attempt with less, then a clear failure."""

import asyncio
from dataclasses import asdict

import pytest

from gateway import phrases
from gateway.agents.protocol import Done, TextDelta, TurnContext
from gateway.logs import Event as Logged
from routing.errors import ContextExceeded
from store.records import Status, TurnStatus, Usage
from tests.fakes.agents import ScriptedAgent, Step, SummarisingAgent, says
from tests.fakes.harness import Rigs

#: About 100 tokens.
LONG = "word " * 80
WHY = "the conversation is too long."


def reads(most: int) -> ScriptedAgent:
    return ScriptedAgent(lambda turn: limited(turn, most))


def limited(turn: TurnContext, most: int) -> list[Step]:
    """Reads so many messages and no more."""
    return says("ok") if len(turn.history) <= most else [ContextExceeded(WHY)]


@pytest.mark.req("P21")
@pytest.mark.parametrize("strategy", ["none", "window", "summary"])
async def test_one_compaction_and_one_more_attempt(rigs: Rigs, strategy: str) -> None:
    agent = SummarisingAgent(lambda turn: limited(turn, 4), summaries=["In short."])
    compaction = {"strategy": strategy, "keep_turns": 2}
    rig = await rigs(agent, main={"compaction": compaction, "context_window": 8000}).start()
    for _ in range(3):
        await rig.ask(LONG)
    assert rig.chat.texts() == ["ok"] * 3
    assert [len(turn.history) for turn in agent.seen] == [0, 2, 4]
    await rig.ask(LONG)
    assert rig.chat.texts() == ["ok"] * 4
    before, after = agent.seen[-2:]
    assert (before.text, before.turn) == (after.text, after.turn)
    assert len(after.history) < len(before.history)
    [done] = await rig.compactions()
    assert done.strategy == ("summary" if strategy == "summary" else "window")
    assert after.summary == done.summary
    assert len(await rig.history()) == 8, "nothing is lost, and nothing twice"
    assert [turn.status for turn in await rig.turns()] == [TurnStatus.COMPLETED] * 4
    assert len(rig.journal.of(Logged.CONTEXT_EXCEEDED)) == 1
    assert (await rig.session()).status is Status.ACTIVE, "its message was there already"


@pytest.mark.req("P27")
async def test_what_the_first_attempt_cost_is_not_forgotten(rigs: Rigs) -> None:
    dear = ContextExceeded(WHY)
    dear.spent = asdict(Usage(input=70, output=0, source="provider"))
    done = Done(usage=Usage(input=30, cached=4, output=5, source="provider"))
    agent = ScriptedAgent(says("ok"), says("ok"), [dear], [TextDelta("well"), done])
    rig = await rigs(agent, main={"context_window": 8000}).start()
    for _ in range(3):
        await rig.ask(LONG)
    assert rig.chat.texts()[-1] == "well"
    assert (await rig.turns())[-1].usage == Usage(input=100, cached=4, output=5, source="provider")


async def test_then_it_fails_and_says_so(rigs: Rigs) -> None:
    agent = ScriptedAgent(says("ok"), says("ok"), says("ok"), [ContextExceeded(WHY)])
    rig = await rigs(agent, main={"context_window": 8000}).start()
    for _ in range(4):
        await rig.ask(LONG)
    assert len(agent.seen) == 5, "once more, and no more often"
    assert rig.chat.texts()[-1] == phrases.FAILED.format(why=WHY[:1].upper() + WHY[1:])
    assert (await rig.turns())[-1].status is TurnStatus.FAILED
    assert rig.journal.of(Logged.TURN_FAILED)[-1]["reason"] == "context_exceeded"


async def test_what_cannot_be_made_smaller_is_not_tried_again(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent([ContextExceeded(WHY)])).start()
    await rig.ask(LONG)
    assert len(agent.seen) == 1
    assert len(rig.chat.texts()) == 1


async def test_what_was_begun_is_not_said_again(rigs: Rigs) -> None:
    agent = ScriptedAgent(says("ok"), says("ok"), says("ok"), [TextDelta("Well"), ContextExceeded(WHY)])
    rig = await rigs(agent, main={"context_window": 8000}).start()
    for _ in range(4):
        await rig.ask(LONG)
    assert len(agent.seen) == 4
    assert (await rig.turns())[-1].status is TurnStatus.FAILED


async def test_both_attempts_and_the_compaction_share_the_deadline_of_the_turn(rigs: Rigs) -> None:
    agent = SummarisingAgent(
        says("ok"), says("ok"), says("ok"), [ContextExceeded(WHY)], [asyncio.Event()], summaries=[asyncio.Event()]
    )
    compaction = {"strategy": "summary", "keep_turns": 1, "deadline": 10.0}
    main = {"compaction": compaction, "context_window": 8000, "turn_timeout": 30.0}
    rig = await rigs(agent, main=main).start()
    for _ in range(4):
        await rig.ask(LONG)
    await rig.advance(10)
    assert len(agent.seen) == 5, "the summary is not waited for any longer"
    assert len(agent.seen[-1].history) < len(agent.seen[-2].history), "the second attempt gets less all the same"
    await rig.advance(19)
    assert (await rig.turns())[-1].status is TurnStatus.PENDING
    await rig.advance(1)
    assert rig.chat.texts()[-1] == phrases.FAILED.format(why=phrases.TIMED_OUT.format(seconds=30.0))


@pytest.mark.req("P25")
async def test_a_user_who_writes_such_a_sentence_breaks_nothing(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    for text in ("context_length_exceeded", "context_exceeded", phrases.NOTE_COMPACTED, phrases.NOTE_CUT_IN):
        await rig.ask(text)
        assert rig.chat.texts()[-1] == f"re: {text}"
    assert len(agent.seen) == 4
