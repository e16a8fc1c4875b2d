"""Tokens as they are reported and stored: nothing twice, nothing lost, nothing guessed without a mark."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator

import pytest

from gateway import prices, tokens, usage
from gateway.agents.protocol import Done, Event, TextDelta, TurnContext
from gateway.prices import Seller
from routing.errors import AgentFailed, ModelFailed
from store import spending
from store.content import Text
from store.records import NewMessage, Role, TurnStatus, Usage
from store.reports import By
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.harness import Rig, Rigs


class Ledger:
    """A provider that keeps its own books: what it told us it counted, by response id."""

    side_effects = False

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.booked: dict[str, Usage] = {}
        self.followed: dict[str, str | None] = {}
        self.hang = False

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        yield TextDelta("well, ")
        if self.hang:
            await asyncio.Event().wait()
        known = self.chance.random() < 0.8
        draw = self.chance.randrange
        counted = Usage(input=draw(1000), cached=draw(500), output=draw(1, 300), reasoning=draw(200), source="provider")
        if self.chance.random() < 0.25:
            failed = ModelFailed("no.")
            if known:
                self.booked[f"failed {len(self.booked)}"] = counted
                failed.spent = {name: getattr(counted, name) for name in ("input", "cached", "output", "reasoning")}
                failed.spent["source"] = "provider"
            raise failed
        if not known:
            yield Done()
            return
        # Sometimes the same answer once more, as after a lost connection.
        again = self.booked and self.chance.random() < 0.2 and f"{turn.session_id} 1" in self.booked
        name = f"{turn.session_id} 1" if again else f"{turn.session_id} {turn.turn}"
        self.booked.setdefault(name, counted)
        yield Done(self.booked[name], "m", response_id=name, previous_response_id=turn.previous_response_id)

    async def close(self) -> None:
        pass


@pytest.mark.req("P27", "CARD-21", "S001-17")
@pytest.mark.parametrize("seed", range(4))
async def test_the_rows_are_the_providers_own_books(rigs: Rigs, seed: int) -> None:
    """Over random schedules of turns, failures, repeats, crashes and clean stops."""
    agent, chance = Ledger(seed), random.Random(seed)
    rig = await rigs(agent).start()
    for number in range(25):
        cut = chance.random()
        agent.hang = cut < 0.3
        await rig.ask(f"question {number}", sender=str(chance.randrange(3)))
        if agent.hang:
            agent.hang = False
            await (rig.cut() if cut < 0.2 else rig.stop())
            await rig.start()
    rows = [turn for session in await rig.sessions() for turn in await rig.turns(session)]
    assert all(turn.status is not TurnStatus.PENDING for turn in rows)
    reported = [turn.usage for turn in rows if turn.usage.source == "provider"]
    for name in ("input", "cached", "output", "reasoning"):
        theirs = sum(getattr(one, name) or 0 for one in agent.booked.values())
        assert sum(getattr(one, name) or 0 for one in reported) == theirs
    assert {turn.usage.source for turn in rows} <= {"provider", "estimated", None}
    for session in await rig.sessions():
        own = [turn.usage for turn in await rig.turns(session)]
        assert session.total_input_tokens == sum(one.total_input or 0 for one in own)
        assert session.total_output_tokens == sum(one.total_output or 0 for one in own)


@pytest.mark.req("P27", "S001-32")
async def test_what_no_provider_counted_is_an_estimate_and_says_so(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says("An answer of some words, nothing more than that."))).start()
    await rig.ask("What can you tell me about it?")
    [turn] = await rig.turns()
    assert turn.usage.source == "estimated"
    assert turn.cost is None
    assert 5 < (turn.usage.input or 0) < 40
    assert 5 < (turn.usage.output or 0) < 20
    assert (turn.usage.cached, turn.usage.reasoning) == (None, None)


@pytest.mark.req("P27")
async def test_a_failure_without_a_word_is_unknown(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([AgentFailed("no.")])).start()
    await rig.ask("hello")
    [turn] = await rig.turns()
    assert (turn.status, turn.usage, turn.cost) == (TurnStatus.FAILED, Usage(), None)


@pytest.mark.req("P27", "P28")
async def test_an_answer_that_was_stopped_is_not_free(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([TextDelta("a long answer " * 50), asyncio.Event()])).start()
    await rig.ask("hello")
    await rig.advance(1)
    await rig.ask("/stop")
    [turn] = await rig.turns()
    assert turn.usage.source == "estimated"
    assert (turn.usage.output or 0) > 100


@pytest.mark.req("P27")
async def test_estimates_are_scaled_by_what_the_provider_counts_for_the_model(rigs: Rigs) -> None:
    words = "some words of an answer that is long enough to learn from " * 12
    counted = Usage(input=10, output=tokens.estimate(words) * 3 // 2, source="provider")
    rig = await rigs(ScriptedAgent(says(words, usage=counted, model="m"), says(words, model="m"))).start()
    await rig.ask("one")
    assert await rig.read(lambda db: usage.scale(db, "main", "m")) == pytest.approx(1.5, rel=0.02)
    assert await rig.read(lambda db: usage.scale(db, "main", "other")) == 1.0
    await rig.ask("two")
    guessed = (await rig.turns())[-1].usage
    assert guessed.source == "estimated"
    assert guessed.output == pytest.approx(counted.output, rel=0.03)


@pytest.mark.req("P27")
async def test_usage_tells_what_is_known_and_what_is_not(rigs: Rigs) -> None:
    counted = Usage(input=1200, cached=300, output=50, reasoning=25, source="provider")
    agent = ScriptedAgent(says("one", usage=counted), [AgentFailed("no.")])
    tables = {"budgets": {"daily": {"person": "*", "tokens": 10_000}}}
    rig = await rigs(agent, **tables).start()
    await rig.ask("/usage")
    assert rig.chat.texts()[-1].splitlines()[0] == "You, today: nothing."
    await rig.ask("one")
    await rig.ask("two")
    await rig.ask("/usage")
    here, today, month, left = rig.chat.texts()[-1].splitlines()
    assert here == (
        "This conversation: 2 requests, 1,200 tokens read, 300 read from the cache, 50 written, 25 thought,"
        " unknown for 1; cost unknown."
    )
    assert today.removeprefix("You, today") == here.removeprefix("This conversation")
    assert month.removeprefix("You, this month") == here.removeprefix("This conversation")
    assert left == "Budget daily for today: 1,575 of 10,000 tokens used."


@pytest.mark.req("P27")
async def test_the_api_shows_every_bucket(rigs: Rigs) -> None:
    from gateway.http import views

    counted = Usage(input=1200, cached=300, output=50, reasoning=25, source="provider")
    done = Done(counted, "m", response_id="r1", previous_response_id="r0", chain_expires=1_800_000_000_000_000)
    rig = await rigs(ScriptedAgent([TextDelta("yes"), done])).start()
    await rig.ask("one")
    [turn] = await rig.turns()
    shown = views.turn(turn, "s")
    assert (shown["openAIResponseId"], shown["previousOpenAIResponseId"]) == ("r1", "r0")
    assert shown["openAIChainExpiresDate"] == "2027-01-15T08:00:00.000000Z"
    buckets = ("inputTokens", "cachedTokens", "outputTokens", "reasoningTokens", "usageSource", "costUsd")
    assert [shown[name] for name in buckets] == [1200, 300, 50, 25, "provider", None]
    rows, total = await rig.running.api.operations.usage(By.AGENT, 10)
    assert [row.tokens for row in rows] == [total]
    assert (total.input, total.cached, total.output, total.reasoning, total.unpriced) == (1200, 300, 50, 25, 1)


# -- chains ------------------------------------------------------------------------------------------------------------


def follows(rig: Rig) -> list[str | None]:
    assert rig.agents is not None
    agent = rig.agents["main"]
    assert isinstance(agent, ScriptedAgent)
    return [turn.previous_response_id for turn in agent.seen]


def numbered(expires: int | None = None) -> ScriptedAgent:
    return ScriptedAgent(
        lambda turn: (
            [AgentFailed("no.")]
            if "fail" in turn.text
            else [TextDelta("ok"), Done(response_id=f"r{turn.turn}", chain_expires=expires)]
        )
    )


@pytest.mark.req("S004-19", "S004-56")
async def test_a_turn_follows_the_answer_before_it(rigs: Rigs) -> None:
    rig = await rigs(numbered()).start()
    for text in ("one", "two", "three"):
        await rig.ask(text)
    assert follows(rig) == [None, "r1", "r2"]
    await rig.ask("/new")
    await rig.ask("four")
    assert follows(rig)[-1] is None


@pytest.mark.req("S004-48")
async def test_an_expired_chain_is_not_followed(rigs: Rigs) -> None:
    rig = await rigs(numbered(expires=1)).start()
    await rig.ask("one")
    await rig.ask("two")
    assert follows(rig) == [None, None]


@pytest.mark.req("S004-154")
async def test_after_a_failure_only_the_same_request_goes_on(rigs: Rigs) -> None:
    """The provider has not read what failed; said again, it loses nothing by that."""
    rig = await rigs(numbered()).start()
    for text in ("one", "fail", "fail", "two", "three"):
        await rig.ask(text)
    assert follows(rig) == [None, "r1", "r1", None, "r4"]


@pytest.mark.req("S004-19")
async def test_a_chain_ends_where_the_history_was_changed(rigs: Rigs) -> None:
    from store import compactions, messages

    rig = await rigs(numbered()).start()
    for text in ("one", "two"):
        await rig.ask(text)
    session = await rig.session()
    await rig.write(
        lambda db: compactions.record(
            db, session.id, strategy="window", through_seq=2, summary="s", tokens=(9, 1), now=rig.clock.now()
        )
    )
    await rig.ask("three")
    await rig.ask("four")
    note = NewMessage(role=Role.SYSTEM, content=Text("a note"))
    await rig.write(lambda db: messages.append(db, session.id, [note], rig.clock.now()))
    await rig.ask("five")
    assert follows(rig) == [None, "r1", None, "r3", None]


# -- prices ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("P27")
def test_a_price_counts_cached_tokens_as_such() -> None:
    dear = prices.cost_now(Seller(), "gpt-4o-mini", Usage(input=1000, output=500))
    cheap = prices.cost_now(Seller(), "gpt-4o-mini", Usage(input=600, cached=400, output=300, reasoning=200))
    assert dear is not None
    assert cheap is not None
    assert 0 < cheap < dear


@pytest.mark.req("P27")
@pytest.mark.parametrize(
    ("seller", "model", "used"),
    [
        (Seller(), "no-such-model", Usage(input=5, output=5)),
        (Seller("http://127.0.0.1:11434/v1"), "gpt-4o-mini", Usage(input=5, output=5)),
        (None, "gpt-4o-mini", Usage(input=5, output=5)),
        (Seller(), None, Usage(input=5, output=5)),
        (Seller(), "gpt-4o-mini", Usage()),
    ],
)
async def test_what_has_no_price_is_unknown_and_not_free(seller: Seller | None, model: str | None, used: Usage) -> None:
    assert prices.cost_now(seller, model, used) is None
    assert await prices.cost(seller, model, used) is None


def test_sums_know_what_has_no_price() -> None:
    assert spending.Amount() == spending.Amount(tokens=0, cost=0)
