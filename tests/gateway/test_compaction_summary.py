"""Summaries: what is summarised and by whom, and that no summariser can harm a conversation or hold up a reply."""

import asyncio
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import compactor, context, phrases, summaries
from gateway.agents.protocol import Done, TextDelta, ToolUpdate
from gateway.logs import Event as Logged
from routing.errors import AgentFailed, ContextExceeded
from store import messages
from store.database import Database
from store.records import Compaction, Message, Status
from tests.fakes.agents import ScriptedAgent, SummarisingAgent, says
from tests.fakes.harness import Rig, Rigs

#: About 100 tokens.
LONG = "word " * 80
FACT = "The cat is called Blueberry."
#: People may write as fast as tests do.
FREE = {"main": {"flood": 0}}


def table(strategy: str = "summary", *, keep: int = 2, window: int = 1000, **more: Any) -> dict[str, Any]:
    return {"compaction": {"strategy": strategy, "keep_turns": keep, **more}, "context_window": window}


async def until_asked(rig: Rig, agent: SummarisingAgent, times: int = 1) -> int:
    """Talk until the summariser was asked; how many turns it took."""
    count = 0
    while len(agent.asked) < times:
        await rig.ask(LONG if agent.seen else FACT + " " + LONG)
        count += 1
        assert count < 50, "never compacted"
    return count


def measure(db: Database, session: int, window: int) -> int:
    last = messages.every(db, session)[-1].seq
    return context.measure(db, session, last, context.cut_of(db, session), window)


@pytest.mark.req("P21", "P22", "S001-46", "S001-50", "S001-70")
async def test_a_summary_stands_for_the_old_part_and_the_last_turns_stay(rigs: Rigs) -> None:
    rig = await rigs(
        agent := SummarisingAgent(says(LONG), summaries=["They spoke of a cat."]), memory=FREE, main=table()
    ).start()
    count = await until_asked(rig, agent)
    [asked] = agent.asked
    assert FACT in asked.text, "what was said first is in what is summarised"
    assert asked.text.count("Agent: ") == count - 2, "and the last turns are not"
    assert (asked.focus, asked.model) == (None, None)
    [done] = await rig.compactions()
    assert (done.strategy, done.summary, done.through_seq) == ("summary", "They spoke of a cat.", 2 * (count - 2))
    assert (await rig.session()).status is Status.COMPACTED
    session = await rig.session()
    assert await rig.read(lambda db: measure(db, session.id, 1000)) == done.tokens_after < done.tokens_before
    history = await rig.history()
    assert len(history) == 2 * count
    await rig.stop()
    await rig.start()
    await rig.ask("next")
    given = agent.seen[-1]
    assert given.summary == "They spoke of a cat."
    assert given.history == tuple(history[done.through_seq :]), "verbatim, after a restart too"


@pytest.mark.req("P21")
async def test_the_next_summary_goes_on_from_the_last(rigs: Rigs) -> None:
    agent = SummarisingAgent(says(LONG), summaries=["First: the cat is Blueberry.", "Second."])
    rig = await rigs(agent, memory=FREE, main=table()).start()
    await until_asked(rig, agent, 2)
    first, second = await rig.compactions()
    assert "First: the cat is Blueberry." in agent.asked[1].text
    assert agent.asked[1].text.count("User: ") == (second.through_seq - first.through_seq) / 2, "only what is new"
    await rig.ask("/uncompact")
    await rig.ask("next")
    assert agent.seen[-1].summary == "First: the cat is Blueberry."


@pytest.mark.req("P21")
async def test_a_compaction_model_is_passed_on(rigs: Rigs) -> None:
    rig = await rigs(agent := SummarisingAgent(says(LONG)), memory=FREE, main=table(model="small-1")).start()
    await until_asked(rig, agent)
    assert agent.asked[0].model == "small-1"


async def test_an_old_part_that_is_too_large_is_read_in_pieces(rigs: Rigs) -> None:
    """Nothing is left out, however long the conversation was before anybody thought of summaries."""
    rig = await rigs(agent := SummarisingAgent(), memory=FREE, main=table("none", window=800)).start()
    for number in range(40):
        await rig.ask(f"fact {number}: {LONG}")
    await rig.ask("x" * 8000)
    await rig.stop()
    agent.summaries = [lambda text: f"Up to {text.count('User:')}."]
    await rig.start(agents={"main": table("summary", window=800)})
    await rig.ask("go")
    assert len(agent.asked) > 10
    for number in range(40):
        assert sum(f"User: fact {number}:" in asked.text for asked in agent.asked) == 1
    assert sum(asked.text.count("x") for asked in agent.asked) >= 8000
    for asked in agent.asked:
        assert len(asked.text) / 4 + asked.limit < 800, "it fits into the compactor's own window"
    for before, asked in zip(agent.asked[:-1], agent.asked[1:], strict=True):
        assert f"Up to {before.text.count('User:')}." in asked.text
    [done] = await rig.compactions()
    assert done.strategy == "summary"


async def test_a_compactor_that_reads_less_than_we_think_gets_smaller_pieces(rigs: Rigs) -> None:
    def picky(text: str) -> str:
        if len(text) > 1200:
            raise ContextExceeded("too long")
        return "In short."

    rig = await rigs(agent := SummarisingAgent(says(LONG), summaries=[picky]), memory=FREE, main=table()).start()
    await until_asked(rig, agent)
    assert [row.strategy for row in await rig.compactions()] == ["summary"]
    assert FACT in "".join(asked.text for asked in agent.asked if len(asked.text) <= 1200)


# -- summarisers that do not work --------------------------------------------------------------------------------------

BAD = {
    "failing": AgentFailed("no"),
    "broken": RuntimeError("bug"),
    "timing out": TimeoutError(),
    "empty": "  \n",
    "refusing": "I’m sorry, but I can't help with that.",
    "growing": lambda text: text + text,
    "copying": lambda text: text,
}


@pytest.mark.req("P19", "P21", "CARD-23")
@pytest.mark.parametrize("kind", BAD)
async def test_a_bad_summariser_changes_nothing_and_the_reply_goes_out(rigs: Rigs, kind: str) -> None:
    agent = SummarisingAgent(says(LONG), summaries=[BAD[kind]])  # type: ignore[list-item]
    rig = await rigs(agent, memory=FREE, main=table()).start()
    before: list[Message] = []
    while not agent.asked:
        before = await rig.history() if agent.seen else []
        await rig.ask(LONG)
    count = len(agent.seen)
    assert len(agent.asked) == 1, "at most one attempt per run"
    assert (await rig.history())[:-2] == before, "byte for byte"
    assert rig.chat.texts() == [LONG] * count
    assert await rig.compactions() == []
    assert (await rig.session()).status is Status.ACTIVE
    [line] = rig.journal.of(Logged.COMPACTION_FAILED)
    assert line["pause"] == compactor.FIRST_PAUSE
    assert rig.chat.log[-1].at == 0.0, "nobody waited"


@pytest.mark.req("P19", "P20")
async def test_failures_back_off_and_the_window_steps_in_when_the_context_is_full(rigs: Rigs) -> None:
    agent = SummarisingAgent(says(LONG), summaries=[AgentFailed("no")])
    rig = await rigs(agent, memory=FREE, main=table()).start()
    await until_asked(rig, agent)
    while not await rig.compactions():
        await rig.ask(LONG)
        assert len(agent.asked) == 1, "left alone"
    [done] = await rig.compactions()
    assert (done.strategy, done.summary) == ("window", phrases.NOTE_COMPACTED)
    await rig.advance(compactor.FIRST_PAUSE)
    await until_asked(rig, agent, 2)
    assert FACT in agent.asked[1].text, "what the window left out is still to be summarised"
    pauses = [line["pause"] for line in rig.journal.of(Logged.COMPACTION_FAILED)]
    assert pauses == [compactor.FIRST_PAUSE, 2 * compactor.FIRST_PAUSE]
    agent.summaries = ["At last."]
    await rig.advance(2 * compactor.FIRST_PAUSE)
    while (await rig.compactions())[-1].summary != "At last.":
        await rig.ask(LONG)
    agent.summaries = [AgentFailed("no")]
    await until_asked(rig, agent, len(agent.asked) + 1)
    assert rig.journal.of(Logged.COMPACTION_FAILED)[-1]["pause"] == compactor.FIRST_PAUSE, "forgiven by a success"


@pytest.mark.req("P20", "CARD-23")
async def test_a_slow_summary_holds_the_reply_no_longer_than_its_deadline_and_converges(rigs: Rigs) -> None:
    slow = asyncio.Event()
    agent = SummarisingAgent(says(LONG), summaries=[slow])
    rig = await rigs(agent, memory=FREE, main=table(deadline=20.0)).start()
    count = await until_asked(rig, agent)
    assert len(rig.chat.texts()) == count - 1, "the reply waits"
    await rig.ask("elsewhere", sender="2")
    assert len(rig.chat.texts("2")) == 1, "nobody else does"
    await rig.advance(20)
    assert len(rig.chat.texts()) == count
    assert rig.chat.log[-1].at == 20.0
    assert len(rig.journal.of(Logged.COMPACTION_SLOW)) == 1
    for _ in range(3):
        await rig.ask(LONG)
    assert len(rig.chat.texts()) == count + 3, "later replies do not wait for it at all"
    assert len(agent.asked) == 1, "one job per session"
    session = (await rig.sessions())[0]
    assert session.status is Status.ACTIVE
    slow.set()
    await rig.settled()
    [done] = await rig.compactions(session)
    assert (done.summary, done.through_seq) == ("In short, at last.", 2 * (count - 2)), "its range was fixed"
    assert len(await rig.history(session)) == 2 * (count + 3)
    await rig.ask("next")
    assert agent.seen[-1].summary == "In short, at last."


@pytest.mark.req("P20")
@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_summariser_that_hangs_for_ever_is_given_up(rigs: Rigs, stubborn: bool) -> None:
    agent = SummarisingAgent(says(LONG), summaries=[asyncio.Event()])
    rig = await rigs(agent, memory=FREE, main=table(deadline=5.0)).start()
    await until_asked(rig, agent)
    agent.stubborn = stubborn
    await rig.advance(5)
    assert rig.chat.texts() == [LONG] * len(agent.seen)
    await rig.advance(compactor.CALL)
    assert len(rig.journal.of(Logged.COMPACTION_FAILED)) == 1
    assert await rig.compactions() == []
    await rig.ask("next")
    assert rig.chat.texts() == [LONG] * len(agent.seen)
    agent.summaries[0].set()  # type: ignore[union-attr]
    await rig.stop()


@pytest.mark.req("P20")
async def test_a_stop_ends_a_job_and_after_the_start_it_begins_anew(rigs: Rigs) -> None:
    agent = SummarisingAgent(says(LONG), summaries=[asyncio.Event(), "Done."])
    rig = await rigs(agent, memory=FREE, main=table(deadline=5.0)).start()
    count = await until_asked(rig, agent)
    await rig.advance(5)
    before = await rig.history()
    await rig.stop()
    assert agent.cancelled == 1
    await rig.start()
    assert (await rig.history(), await rig.compactions()) == (before, [])
    assert len(rig.chat.texts()) == count
    await rig.ask(LONG)
    [done] = await rig.compactions()
    assert done.summary == "Done."


@pytest.mark.req("P20")
async def test_a_crash_in_the_middle_loses_neither_the_reply_nor_the_history(rigs: Rigs) -> None:
    agent = SummarisingAgent(says(LONG), summaries=[asyncio.Event(), "Done."])
    rig = await rigs(agent, memory=FREE, main=table()).start()
    count = await until_asked(rig, agent)
    await rig.cut()
    await rig.start()
    assert rig.chat.texts() == [LONG] * count
    assert len(await rig.history()) == 2 * count
    await rig.ask(LONG)
    assert [row.summary for row in await rig.compactions()] == ["Done."]


async def test_what_was_changed_meanwhile_is_not_summarised(rigs: Rigs) -> None:
    """A forgotten message must not come back by a summary that was begun before."""
    slow = asyncio.Event()
    agent = SummarisingAgent(says(LONG), summaries=[slow])
    rig = await rigs(agent, memory=FREE, main=table(deadline=5.0)).start()
    await until_asked(rig, agent)
    await rig.advance(5)
    await rig.ask("/pin Blueberry")
    slow.set()
    await rig.settled()
    assert await rig.compactions() == []
    assert "changed" in rig.journal.of(Logged.COMPACTION_FAILED)[-1]["why"]


async def test_what_was_taken_back_meanwhile_does_not_return_in_the_next_summary(rigs: Rigs) -> None:
    slow = asyncio.Event()
    agent = SummarisingAgent(says(LONG), summaries=["First.", slow])
    rig = await rigs(agent, memory=FREE, main=table(deadline=5.0)).start()
    await until_asked(rig, agent, 2)
    await rig.advance(5)
    await rig.ask("/uncompact")
    slow.set()
    await rig.settled()
    rows = await rig.compactions()
    assert (rows[0].summary, rows[0].undone_at is None) == ("First.", False)
    assert "In short, at last." not in {row.summary for row in rows}


async def test_an_agent_that_cannot_summarise_leaves_out_and_the_log_says_so(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says(LONG)), memory=FREE, main=table()).start()
    assert [line["agent"] for line in rig.journal.of(Logged.COMPACTION_FALLBACK)] == ["main"]
    for _ in range(8):
        await rig.ask(LONG)
    assert {row.strategy for row in await rig.compactions()} == {"window"}


# -- auto --------------------------------------------------------------------------------------------------------------


async def test_auto_trims_tools_first_and_summarises_when_that_is_not_enough(rigs: Rigs) -> None:
    tool = ToolUpdate("1", "read", {"path": "x"}, {"text": "y" * 400})
    agent = SummarisingAgent([tool, TextDelta("done"), Done()], says(LONG), summaries=["In short."])
    agent._scripts = (*[agent._scripts[0]] * 8, agent._scripts[1])
    rig = await rigs(agent, memory=FREE, main=table("auto")).start()
    for _ in range(20):
        await rig.ask("go" if len(agent.seen) < 8 else LONG)
    strategies = [row.strategy for row in await rig.compactions()]
    assert (strategies[0], set(strategies)) == ("trim_tools", {"trim_tools", "summary"})
    assert len(agent.asked) >= strategies.count("summary")


# -- by command --------------------------------------------------------------------------------------------------------


@pytest.mark.req("P22")
async def test_a_summary_by_command_keeps_what_was_asked_for(rigs: Rigs) -> None:
    agent = SummarisingAgent(says(LONG), summaries=["Blueberry."])
    rig = await rigs(agent, memory=FREE, main=table(keep=1, window=8000)).start()
    for text in (FACT, LONG, LONG):
        await rig.ask(text)
    await rig.ask("/compact the name of the cat")
    [done] = await rig.compactions()
    assert agent.asked[0].focus == "the name of the cat"
    receipt = phrases.COMPACTED.format(before=done.tokens_before, after=done.tokens_after)
    assert rig.chat.texts()[-2:] == [phrases.COMPACTING, receipt]
    session = await rig.session()
    assert await rig.read(lambda db: measure(db, session.id, 8000)) == done.tokens_after
    await rig.ask("next")
    assert (agent.seen[-1].summary, len(agent.seen[-1].history)) == ("Blueberry.", 2)


@pytest.mark.req("P22")
async def test_a_command_that_comes_to_nothing_says_so(rigs: Rigs) -> None:
    agent = SummarisingAgent(says(LONG), summaries=[""])
    rig = await rigs(agent, memory=FREE, main=table(keep=1, window=8000)).start()
    for _ in range(3):
        await rig.ask(LONG)
    await rig.ask("/compact")
    assert rig.chat.texts()[-1] == phrases.NOT_COMPACTED
    assert await rig.compactions() == []


async def test_a_command_over_http_waits_for_its_receipt(rigs: Rigs) -> None:
    slow = asyncio.Event()
    agent = SummarisingAgent(says(LONG), summaries=["In short.", slow])
    rig = await rigs(agent, memory=FREE, main=table(keep=1, window=8000, deadline=5.0)).start()
    for _ in range(3):
        await rig.ask(LONG)
    session = (await rig.session()).public_id
    told = await rig.running.api.command(session, "/compact")
    [done] = await rig.compactions()
    assert told.text == phrases.COMPACTED.format(before=done.tokens_before, after=done.tokens_after)
    await rig.ask(LONG)
    asking = asyncio.create_task(rig.running.api.command(session, "/compact"))
    await rig.advance(5)
    assert (await asking).text == phrases.COMPACTING
    slow.set()
    await rig.settled()
    assert len(await rig.compactions()) == 2


@pytest.mark.req("S001-48", "S001-50")
async def test_the_history_of_compactions_can_be_read(rigs: Rigs) -> None:
    rig = await rigs(SummarisingAgent(says(LONG)), main=table(keep=1, window=8000)).start()
    for _ in range(3):
        await rig.ask(LONG)
    await rig.ask("/compact")
    await rig.ask("/uncompact")
    session = (await rig.session()).public_id
    where = f"{rig.running.url}/api/sessions/{session}/compactions"
    who = {"Authorization": f"Bearer {rig.running.token}"}
    async with aiohttp.ClientSession(headers=who) as http, http.get(where) as answer:
        [shown] = await answer.json()
    [done] = await rig.compactions()
    assert (shown["strategy"], shown["summary"], shown["throughSeq"]) == ("summary", "In short.", 4)
    assert (shown["tokensBefore"], shown["tokensAfter"]) == (done.tokens_before, done.tokens_after)
    assert shown["undoneAt"] is not None


# -- properties --------------------------------------------------------------------------------------------------------

SIZES = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 400)), min_size=3, max_size=10)


@pytest.mark.req("P19", "P21", "P22")
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=SIZES,
    keep=st.integers(1, 3),
    window=st.integers(100, 900),
    length=st.integers(1, 600),
    strategy=st.sampled_from(["summary", "auto"]),
)
async def test_whatever_the_summariser_says(
    rigs: Rigs, sizes: list[tuple[int, int]], keep: int, window: int, length: int, strategy: str
) -> None:
    answers = [says("a" * answer) for _, answer in sizes]
    agent = SummarisingAgent(*answers, summaries=["s" * length])
    rig = await rigs(agent, memory=FREE, main=table(strategy, keep=keep, window=window)).start()
    before: list[Message] = []
    rows: list[Compaction] = []
    for question, _ in sizes:
        await rig.ask("q" * question)
        history = await rig.history()
        assert history[: len(before)] == before, "what was said stays as it was"
        before = history
        found = await rig.compactions()
        assert len(found) <= len(rows) + 1, "once per run"
        if len(found) > len(rows):
            done, session = found[-1], await rig.session()
            assert done.tokens_after < done.tokens_before
            assert await rig.read(lambda db: measure(db, session.id, window)) == done.tokens_after  # noqa: B023
        rows = found
        turns = await rig.turns()
        first = {turn.first_message for turn in turns}
        assert all(row.through_seq + 1 in first for row in rows), "turns stay or go whole"
    assert len(agent.seen) == len(sizes) == len(rig.chat.texts())
    await rig.cut()


def test_a_refusal_is_short() -> None:
    assert summaries._checked("I'm sorry " + "was the title of the book. " * 30)
