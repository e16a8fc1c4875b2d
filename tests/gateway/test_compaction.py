"""Compaction: after the run, before the reply, by the agent's strategy; and it never harms anything."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import context, phrases
from gateway.agents.protocol import Done, TextDelta, ToolUpdate
from gateway.logs import Event as Logged
from store import messages
from store.content import Text, Tool
from store.database import Database
from store.records import Compaction, Message, Status, TurnStatus
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.clock import FakeClock
from tests.fakes.harness import Rig, Rigs

#: About 100 tokens.
LONG = "word " * 109
WINDOW = {"strategy": "window", "keep_turns": 2}


def table(compaction: dict[str, object], window: int = 700) -> dict[str, object]:
    return {"compaction": compaction, "context_window": window}


def measure(db: Database, session: int, window: int) -> int:
    """What the next turn would start from."""
    last = messages.every(db, session)[-1].seq
    return context.measure(db, session, last, context.cut_of(db, session), window)


async def talk(rig: Rig, count: int) -> None:
    for _ in range(count):
        await rig.ask(LONG)


@pytest.mark.req("S001-58")
async def test_under_the_threshold_there_is_none(rigs: Rigs) -> None:
    rig = await rigs(main=table(WINDOW)).start()
    for number in range(10):
        await rig.ask(str(number))
    session = await rig.session()
    assert (session.status, session.compaction_count, await rig.compactions()) == (Status.ACTIVE, 0, [])
    assert rig.journal.of(Logged.COMPACTION_DONE) == []


@pytest.mark.req("S001-24", "S001-46", "S001-48", "S001-58")
async def test_over_the_threshold_old_turns_are_left_out(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(says(LONG)), main=table(WINDOW)).start()
    while not await rig.sessions() or not await rig.compactions():
        await rig.ask(LONG)
    count = len(agent.seen)
    assert count > 2
    [done] = await rig.compactions()
    session = await rig.session()
    assert (session.status, session.compaction_count) == (Status.COMPACTED, 1)
    assert session.last_compaction_at == done.created_at
    assert (done.strategy, done.through_seq, done.summary) == ("window", 2 * (count - 2), phrases.NOTE_COMPACTED)
    assert done.tokens_after < done.tokens_before
    assert len(rig.chat.texts()) == count
    [line] = rig.journal.of(Logged.COMPACTION_DONE)
    assert (line["tokens_before"], line["tokens_after"]) == (done.tokens_before, done.tokens_after)
    assert [text for _, text in await rig.said()] == [LONG] * 2 * count, "the originals are all there"
    assert agent.seen[-1].summary is None
    await rig.say("next")
    assert (await rig.session()).status is Status.ACTIVE
    await rig.settled()
    given = agent.seen[-1]
    assert (given.summary, len(given.history)) == (phrases.NOTE_COMPACTED, 4)
    assert [row.seq for row in given.history] == list(range(done.through_seq + 1, 2 * count + 1))


@pytest.mark.req("S001-48")
async def test_each_compaction_is_counted_and_goes_further_than_the_last(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says(LONG)), main=table(WINDOW)).start()
    for _ in range(12):
        await rig.ask(LONG)
    rows = await rig.compactions()
    assert len(rows) == (await rig.session()).compaction_count > 1
    through = [row.through_seq for row in rows]
    assert through == sorted(set(through))
    assert len(await rig.history()) == 24


SIZES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=8)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, keep=st.integers(1, 3), window=st.integers(50, 600))
async def test_a_compaction_makes_the_context_smaller_or_is_none(
    rigs: Rigs, sizes: list[tuple[int, int]], keep: int, window: int
) -> None:
    answers = [says("a" * answer) for _, answer in sizes]
    compaction = {"strategy": "window", "keep_turns": keep}
    rig = await rigs(agent := ScriptedAgent(*answers), main=table(compaction, window)).start()
    before: list[Message] = []
    rows: list[Compaction] = []
    for question, _ in sizes:
        await rig.ask("q" * question)
        history = await rig.history()
        assert history[: len(before)] == before, "what was said stays as it was"
        before = history
        found = await rig.compactions()
        assert len(found) <= len(rows) + 1
        if len(found) > len(rows):
            session = await rig.session()
            assert found[-1].tokens_before > window * 0.8
            assert found[-1].tokens_after < found[-1].tokens_before
            assert await rig.read(lambda db: measure(db, session.id, window)) == found[-1].tokens_after  # noqa: B023
        rows = found
    assert len(agent.seen) == len(sizes) == len(rig.chat.texts())
    assert rig.journal.of(Logged.COMPACTION_FAILED) == []
    await rig.cut()


@pytest.mark.req("CARD-23")
async def test_a_compaction_that_fails_holds_up_nothing(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says(LONG)), main=table(WINDOW)).start()
    never = "CREATE TRIGGER never BEFORE INSERT ON compactions BEGIN SELECT RAISE(ABORT, 'never'); END"
    await rig.write(lambda db: db.execute(never))
    await talk(rig, 5)
    assert rig.chat.texts() == [LONG] * 5
    assert len(rig.journal.of(Logged.COMPACTION_FAILED)) == 3
    assert {turn.status for turn in await rig.turns()} == {TurnStatus.COMPLETED}
    assert set(await rig.states()) == {"sent"}
    assert ((await rig.session()).status, await rig.compactions()) == (Status.ACTIVE, [])


@pytest.mark.req("S001-47")
async def test_each_agent_has_its_own_strategy(rigs: Rigs) -> None:
    """The same history under each strategy."""
    tool = ToolUpdate("1", "read", {"path": "x" * 200}, {"text": "y" * 600})
    strategies = ("none", "window", "trim_tools", "clear")
    agents = {name: ScriptedAgent([TextDelta("Look: "), tool, TextDelta("done"), Done()]) for name in strategies}
    rig = await rigs(
        agents=agents,
        gateway={"default_agent": "none"},
        agent_tables={name: table({"strategy": name, "keep_turns": 2}, 1500) for name in strategies},
        bindings=[{"agent": name, "sender": name} for name in strategies],
    ).start()
    for name in strategies:
        for _ in range(7):
            await rig.ask("go", sender=name)
    by_agent = {session.key.agent_id: session for session in await rig.sessions()}
    done = {name: await rig.compactions(session) for name, session in by_agent.items()}
    assert done["none"] == []
    for name in strategies[1:]:
        assert {row.strategy for row in done[name]} == {name}
    assert agents["window"].seen[-1].summary == phrases.NOTE_COMPACTED
    assert agents["clear"].seen[-1].summary is None
    assert len(agents["clear"].seen[-1].history) < len(agents["none"].seen[-1].history)
    assert tools(agents["none"]) == {600}
    assert tools(agents["trim_tools"]) == {0, 600}
    for name, session in by_agent.items():
        history = await rig.history(session)
        assert len(history) == 7 * 4, name
        assert all(len(row.content.result["text"]) == 600 for row in history if isinstance(row.content, Tool))


def tools(agent: ScriptedAgent) -> set[int]:
    """How long the results of tool calls are, in what the agent was given last."""
    rows = [row.content for row in agent.seen[-1].history if isinstance(row.content, Tool)]
    return {len(content.result.get("text", "")) for content in rows}


@pytest.mark.req("P23")
async def test_a_long_rest_resets_nothing(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), gateway={"idle_minutes": 1.0}).start()
    await rig.ask("A")
    await rig.ask("B")
    assert isinstance(rig.clock, FakeClock)
    rig.clock.leap(3 * 86_400)
    await rig.advance(60)
    assert (await rig.session()).status is Status.IDLE
    await rig.ask("C")
    assert rig.chat.texts() == ["re: A", "re: B", "re: C"]
    assert [row.content.text for row in agent.seen[-1].history if isinstance(row.content, Text)] == [
        "A",
        "re: A",
        "B",
        "re: B",
    ]


# -- by command --------------------------------------------------------------------------------------------------------


async def test_compacting_by_command_and_taking_it_back(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(says(LONG)), main={"compaction": {"keep_turns": 1}}).start()
    await talk(rig, 3)
    await rig.ask("/compact")
    [done] = await rig.compactions()
    receipt = phrases.COMPACTED.format(before=done.tokens_before, after=done.tokens_after)
    assert rig.chat.texts()[-1] == receipt
    assert (await rig.session()).status is Status.COMPACTED
    await rig.ask("next")
    assert len(agent.seen[-1].history) == 2
    await rig.ask("/uncompact")
    assert rig.chat.texts()[-1] == phrases.UNCOMPACTED.format(strategy="window")
    await rig.ask("next")
    assert (agent.seen[-1].summary, len(agent.seen[-1].history)) == (None, 8)
    assert [row.content for row in await rig.history() if row.content == Text("/compact")] == []


async def test_there_may_be_nothing_to_compact_or_to_take_back(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/compact")
    await rig.ask("/uncompact")
    await rig.ask("one")
    await rig.ask("/compact")
    await rig.ask("/uncompact")
    texts = rig.chat.texts()
    assert (texts[0], texts[3]) == (phrases.NOTHING_TO_COMPACT, phrases.NOTHING_TO_COMPACT)
    assert texts[1] == texts[4]
    assert await rig.compactions() == []
