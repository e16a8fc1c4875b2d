"""Budgets in a whole daemon: held back, settled, warned of, refused, raised, and over at midnight."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import allowing, days
from gateway.agents.protocol import Done, TextDelta
from gateway.allowing import Allowance
from gateway.config import load
from gateway.days import Period
from routing.errors import BadAllowance, ConfigError, UnknownBudget
from store.ids import Micros, from_datetime, to_datetime
from store.records import TurnStatus, Usage
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.clock import FakeClock
from tests.fakes.harness import Rig, Rigs


def spends(tokens: int) -> list[Any]:
    return says("ok", usage=Usage(input=tokens - 1, output=1, source="provider"))


def budget(**table: Any) -> dict[str, Any]:
    return {"budgets": {"daily": table}, "gateway": {"timezone": "UTC"}}


async def statuses(rig: Rig) -> list[str]:
    return [turn.status for session in await rig.sessions() for turn in await rig.turns(session)]


@pytest.mark.req("P28")
async def test_a_spent_budget_refuses_in_a_clear_sentence(rigs: Rigs) -> None:
    agent = ScriptedAgent(spends(600))
    rig = await rigs(agent, **budget(person="*", tokens=1000)).start()
    for text in ("one", "two", "three"):
        await rig.ask(text)
    assert len(agent.seen) == 2
    assert rig.chat.texts()[-1].startswith(
        "That did not work. The budget daily for today is spent: 1,200 of 1,000 tokens."
    )
    last = (await rig.turns())[-1]
    assert (last.status, last.usage.total, last.cost) == (TurnStatus.FAILED, 0, 0)
    assert ("user", "three") in await rig.said()
    assert [one.reason for one in await rig.refusals()] == ["budget"]
    await rig.ask("/why")
    assert "budget" in rig.chat.texts()[-1]


@pytest.mark.req("P28")
async def test_people_are_warned_once_at_four_fifths(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(spends(450)), **budget(person="*", tokens=1000)).start()
    await rig.ask("one")
    assert not [text for text in rig.chat.texts() if "%" in text]
    await rig.ask("two")
    warned = [text for text in rig.chat.texts() if "%" in text]
    assert warned == ["90 % of the budget daily for today is used: 900 of 1,000 tokens."]
    assert (await rig.turns())[-1].warnings == tuple(warned)
    await rig.ask("three")
    assert [text for text in rig.chat.texts() if "%" in text] == warned


@pytest.mark.req("P28")
async def test_twenty_at_once_exceed_a_budget_by_one_reservation_at_most(rigs: Rigs) -> None:
    """They all run at the same time, nearly all is spent already, and the daemon is stopped and started in between."""
    go = asyncio.Event()
    agent = ScriptedAgent(spends(900), [TextDelta("ok"), go, Done(Usage(input=9, output=1, source="provider"))])
    rig = await rigs(
        agent, memory={"main": {"groups": ["-100"]}}, main={"group_scope": "member"}, **budget(tokens=1000)
    ).start()
    await rig.ask("nearly all", sender="99")
    await rig.stop()
    await rig.start()
    await asyncio.gather(*(rig.say("now", sender=str(number), group=True) for number in range(20)))
    await rig.settled()
    turns = [turn for session in await rig.sessions() for turn in await rig.turns(session)]
    held = [turn.reserved_tokens or 0 for turn in turns if turn.status is TurnStatus.PENDING]
    assert len(held) == 1
    assert 900 + sum(held) <= 1000 + max(held)
    assert sum("is spent" in text for text in rig.chat.texts("-100")) == 19
    go.set()
    await rig.settled()
    spent = await rig.read(lambda db: db.execute("SELECT sum(input_tokens + output_tokens) FROM turns").fetchone())
    assert spent == (910,)


@pytest.mark.req("P28")
async def test_what_was_held_back_for_a_lost_turn_is_not_lost(rigs: Rigs) -> None:
    """A crash leaves a pending turn: it counts until it ran again, and then with what it used."""
    agent = ScriptedAgent([asyncio.Event()], spends(50))
    rig = await rigs(agent, **budget(person="*", tokens=1000)).start()
    await rig.ask("one")
    await rig.cut()
    await rig.start()
    [turn] = await rig.turns()
    assert (turn.status, turn.usage.total, len(agent.seen)) == (TurnStatus.COMPLETED, 50, 2)
    [standing] = await rig.running.api.operations.budgets()
    assert standing.spent.tokens == 50


@pytest.mark.req("P28")
async def test_in_a_group_the_spender_is_the_sender(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(spends(1000)), **budget(person="*", tokens=1000)).start()
    await rig.ask("one", sender="1", group=True)
    await rig.ask("two", sender="1", group=True)
    await rig.ask("three", sender="2", group=True)
    assert await statuses(rig) == ["completed", "failed", "completed"]


@pytest.mark.req("P28")
@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"chat": "*"}, ["completed", "failed", "completed"]),
        ({"chat": "memory:-200"}, ["completed", "completed", "completed"]),
        ({"agent": "main"}, ["completed", "failed", "failed"]),
        ({}, ["completed", "failed", "failed"]),
    ],
)
async def test_a_budget_is_for_whom_it_names(rigs: Rigs, selector: dict[str, str], expected: list[str]) -> None:
    rig = await rigs(ScriptedAgent(spends(1000)), **budget(tokens=1000, **selector)).start()
    await rig.ask("one", group=True)
    await rig.ask("two", group=True)
    await rig.ask("three", group=True, chat="-200")
    assert await statuses(rig) == expected


@pytest.mark.req("P28")
async def test_who_is_named_has_their_own_budget(rigs: Rigs) -> None:
    tables = {"budgets": {"all": {"person": "*", "tokens": 10}, "ada": {"person": "ada", "tokens": 5000}}}
    people = {"ada": {"telegram": 7, "owner": True}}
    rig = await rigs(ScriptedAgent(spends(1000)), people=people, **tables).start()
    ada = (await rig.read(lambda db: db.execute("SELECT id FROM people WHERE config_name = 'ada'").fetchone()))[0]
    await rig.write(lambda db: db.execute("INSERT INTO identities VALUES ('memory', '7', ?)", (ada,)))
    for _ in range(3):
        await rig.ask("more", sender="7")
    assert await statuses(rig) == ["completed"] * 3
    rows = await rig.running.api.operations.budgets()
    assert [(row.budget.name, row.spent.tokens) for row in rows] == [("ada", 3000)]


@pytest.mark.req("P28")
async def test_an_admin_can_allow_more(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(spends(600)), **budget(person="*", tokens=500)).start()
    await rig.ask("one")
    await rig.ask("two")
    assert await statuses(rig) == ["completed", "failed"]
    operations = rig.running.api.operations
    for wrong in (Allowance(tokens=5), Allowance(person="memory:1"), Allowance(cost=5, person="memory:1")):
        with pytest.raises(BadAllowance):
            await operations.allow("daily", wrong)
    with pytest.raises(UnknownBudget):
        await operations.allow("weekly", Allowance(tokens=5))
    standing = await operations.allow("daily", Allowance(tokens=500, person="memory:1"))
    assert (standing.tokens, standing.spent.tokens) == (1000, 600)
    await rig.ask("three")
    assert await statuses(rig) == ["completed", "failed", "completed"]


class At(FakeClock):
    """Starts at a given moment."""

    def __init__(self, moment: datetime) -> None:
        super().__init__()
        self._start = from_datetime(moment)


@pytest.mark.req("P28")
async def test_a_day_begins_at_midnight_of_the_configured_zone(rigs: Rigs) -> None:
    # Half past eleven in the evening in Kiritimati, which is fourteen hours ahead.
    clock = At(datetime(2030, 5, 1, 9, 30, tzinfo=UTC))
    zone = {"gateway": {"timezone": "Pacific/Kiritimati"}}
    rig = await rigs(ScriptedAgent(spends(1000)), clock=clock, **{**budget(person="*", tokens=1000), **zone}).start()
    await rig.ask("one")
    await rig.ask("two")
    assert "begins anew 2030-05-02 00:00" in rig.chat.texts()[-1]
    clock.leap(31 * 60)
    await rig.ask("three")
    assert await statuses(rig) == ["completed", "failed", "completed"]


ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati", "America/Sao_Paulo"])
MOMENTS = st.integers(946_684_800, 2_840_140_800).map(lambda seconds: seconds * 1_000_000)


@given(MOMENTS, ZONES, st.sampled_from(list(Period)))
def test_periods_follow_each_other_without_gap(now: Micros, name: str, period: Period) -> None:
    zone = ZoneInfo(name)
    start, end = days.start(now, zone, period), days.end(now, zone, period)
    assert start <= now < end
    assert days.start(start, zone, period) == start
    assert days.start(end, zone, period) == end
    assert days.end(end - 1, zone, period) == end
    first = to_datetime(start).astimezone(zone)
    assert period is Period.DAY or first.day == 1
    assert to_datetime(end) - to_datetime(start) >= timedelta(hours=23)


async def test_without_budgets_nothing_is_held_back(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(spends(10))).start()
    await rig.ask("one")
    [turn] = await rig.turns()
    assert (turn.reserved_tokens, turn.reserved_cost) == (None, None)
    assert await rig.running.api.operations.budgets() == []
    assert allowing.budgets_of(rig.config()).budgets == ()


MODEL = {"kind": "openai", "model": "gpt-4o-mini", "api_key": "a-key", "max_output_tokens": 1000}


@pytest.mark.req("P28")
async def test_money_is_held_back_and_spent_by_the_price_of_the_model(rigs: Rigs) -> None:
    """A million tokens written by this model cost 60 cents, and a million read 15."""
    counted = Usage(input=1_000_000, output=500_000, source="provider")
    agent = ScriptedAgent(says("ok", usage=counted, model="gpt-4o-mini"))
    rig = await rigs(agent, main=MODEL, **budget(person="*", money=0.4)).start()
    await rig.ask("one")
    await rig.ask("two")
    first, second = await rig.turns()
    assert (first.status, first.cost) == (TurnStatus.COMPLETED, 450_000)
    assert 600 <= (first.reserved_cost or 0) < 700
    assert second.status is TurnStatus.FAILED
    assert "is spent: $0.45 of $0.40." in rig.chat.texts()[-1]
    await rig.ask("/usage")
    assert "cost $0.45." in rig.chat.texts()[-1]
    assert rig.chat.texts()[-1].endswith("Budget daily for today: $0.45 of $0.40 used.")


@pytest.mark.req("P28")
async def test_who_stops_an_answer_has_spent_a_part_of_what_was_held_back(rigs: Rigs) -> None:
    agent = ScriptedAgent([TextDelta("a long answer " * 50), asyncio.Event()])
    rig = await rigs(agent, main=MODEL, **budget(person="*", money=0.4)).start()
    await rig.ask("one")
    await rig.advance(1)
    await rig.ask("/stop")
    [turn] = await rig.turns()
    assert turn.usage.source == "estimated"
    assert 0 < (turn.cost or 0) < (turn.reserved_cost or 0)


@pytest.mark.req("P28")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[budgets.b]\nagent = 'main'", "[budgets.b]: it needs tokens or money"),
        ("[budgets.b]\ntokens = 5\nagent = 'mian'", "there is no [agents.mian]; did you mean main?"),
        ("[budgets.b]\ntokens = 5\nperson = 'ada'", "there is no [people.ada]; known are none."),
        ("[budgets.b]\ntokens = 5\nchat = '-100'", 'must be "*" or a group as "channel:id"'),
        ("[budgets.b]\ntokens = 0", "must be at least 1"),
        ("[budgets.b]\nmoney = 0", "must be greater than 0"),
        ("[budgets.b]\ntokens = 5\nper = 'week'", 'must be "day" or "month"'),
        ("[gateway]\ntimezone = 'Mars/Olympus'", "must be the name of a time zone"),
    ],
)
def test_a_wrong_budget_stops_the_start(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"{text}\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {"HOME": str(tmp_path)})
    assert why in str(caught.value)


@pytest.mark.parametrize(("given", "zone"), [({"TZ": "Asia/Tokyo"}, "Asia/Tokyo"), ({"TZ": ":UTC"}, "UTC")])
def test_the_zone_is_the_machines_unless_given(tmp_path: Path, given: dict[str, str], zone: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text("")
    assert load(file, {"HOME": str(tmp_path), **given}).gateway.timezone == zone
