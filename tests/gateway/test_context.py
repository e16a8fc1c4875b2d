"""What an agent is given: what stands for the old part, the newest part, and what was asked; within its budget."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import context, tokens
from gateway.agents.protocol import ToolUpdate
from store import messages, turns
from store.content import Text
from store.database import Database
from store.records import Message, NewMessage, Role, Turn
from store.turns import Instruction
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.harness import Rig, Rigs


def texts(rows: tuple[Message, ...]) -> list[str]:
    return [row.content.text for row in rows if isinstance(row.content, Text)]


@pytest.mark.req("S001-54", "S001-60")
async def test_the_agent_sees_the_history_followed_by_the_new_message(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    for text in ("one", "two", "three"):
        await rig.ask(text)
    given = agent.seen[-1]
    assert texts(given.history) == ["one", "re: one", "two", "re: two"]
    assert texts(given.instruction) == ["three"]
    session = await rig.session()
    assert (given.agent, given.session_id, given.turn, given.text) == ("main", session.public_id, 3, "three")


async def test_what_waits_is_not_yet_part_of_the_conversation(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("ok")])).start()
    for text in ("one", "two", "three"):
        await rig.ask(text)
    go_on.set()
    await rig.settled()
    assert [texts(turn.history) for turn in agent.seen] == [[], ["one", "ok"], ["one", "ok", "two", "ok"]]


async def test_tool_calls_and_notes_are_part_of_it(rigs: Rigs) -> None:
    tool = ToolUpdate("1", "read", {"path": "a"}, {"lines": 3})
    rig = await rigs(agent := ScriptedAgent([tool, *says("ok")], [*says("half")[:1]], says("ok"))).start()
    for text in ("one", "two", "three"):
        await rig.ask(text)
    assert [row.role for row in agent.seen[2].history] == [Role.USER, Role.SYSTEM, Role.AGENT, Role.USER, Role.SYSTEM]


@pytest.mark.req("S001-53", "CARD-20")
async def test_only_the_pages_that_are_needed_are_read(rigs: Rigs) -> None:
    """10,000 messages, a small budget: a few hundred rows at most are looked at."""
    rig = await rigs(agent := ScriptedAgent(), main={"context_window": 500}).start()
    await rig.ask("first")
    session = await rig.session()

    def fill(db: Database) -> None:
        for start in range(0, 10_000, 500):
            rows = [NewMessage(role=Role.USER, content=Text(f"old {start + at}")) for at in range(500)]
            messages.append(db, session.id, rows, rig.clock.now())

    await rig.write(fill)
    await rig.ask("last")
    history = agent.seen[-1].history
    assert texts(history)[-1] == "old 9999"
    assert 10 < len(history) < 100
    [_, turn] = await rig.turns()
    steps = [await rig.read(lambda db: work(db, turn, 500)), await rig.read(lambda db: work(db, turn, 10**9))]
    assert steps[0] * 20 < steps[1]


def work(db: Database, turn: Turn, budget: int) -> int:
    """How much the database has to do for a context, in thousands of its own steps."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    db.set_progress_handler(step, 100)
    try:
        context.load(db, turn, budget)
    finally:
        db.set_progress_handler(None, 0)
    return count


SIZES = st.lists(st.integers(0, 400), max_size=120)


async def tell(rig: Rig, sizes: list[int]) -> tuple[int, Turn]:
    session = await rig.session()

    def operation(db: Database) -> Turn:
        rows = [NewMessage(role=Role.AGENT, content=Text("x" * size)) for size in sizes]
        messages.append(db, session.id, rows, rig.clock.now())
        instruction = Instruction(messages=(NewMessage(role=Role.USER, content=Text("go")),), summary="go")
        return turns.add(db, session.id, instruction, rig.clock.now())

    return session.id, await rig.write(operation)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=SIZES, budget=st.integers(1, 5000))
async def test_the_context_is_the_longest_tail_that_fits(rigs: Rigs, sizes: list[int], budget: int) -> None:
    rig = await rigs().start()
    await rig.ask("first")
    number, turn = await tell(rig, sizes)
    loaded = await rig.read(lambda db: context.load(db, turn, budget))
    rows = await rig.read(lambda db: messages.every(db, number))
    before = [row for row in rows if row.seq < turn.first_message]
    assert loaded.instruction == tuple(rows[len(before) :])
    tail = list(loaded.history)
    assert tail == before[len(before) - len(tail) :]
    used = sum(map(tokens.of_message, loaded.instruction))
    assert loaded.tokens == used + sum(map(tokens.of_message, tail))
    assert loaded.tokens <= max(budget, used)
    if len(tail) < len(before):
        assert loaded.tokens + tokens.of_message(before[-len(tail) - 1]) > budget
    await rig.cut()
