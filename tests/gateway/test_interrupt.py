"""Queue mode `interrupt`: the next message ends the running turn and starts over."""

import asyncio

import pytest

from gateway import phrases
from gateway.agents.protocol import TextDelta
from store.records import TurnStatus
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.harness import Platform, Rigs

INTERRUPT = {"queue": "interrupt"}


@pytest.mark.parametrize("side_effects", [False, True])
async def test_the_next_message_ends_the_running_turn_and_starts_over(rigs: Rigs, side_effects: bool) -> None:
    agent = ScriptedAgent([TextDelta("Let me"), asyncio.Event()], says("done"), side_effects=side_effects)
    access = {"memory": {"main": {"allow": ["1"]}}}
    rig = await rigs(agent, main=INTERRUPT, **access).start()
    await rig.ask("first")
    await rig.advance(1)
    await rig.ask("second")
    assert agent.cancelled == 1
    assert [turn.text for turn in agent.seen] == ["first", "second"]
    first, second = await rig.turns()
    assert (first.status, first.errors) == (TurnStatus.FAILED, ("interrupted",))
    assert second.status is TurnStatus.COMPLETED
    assert rig.chat.texts() == ["done"]
    assert await rig.said() == [
        ("user", "first"),
        ("agent", "Let me"),
        ("system", phrases.NOTE_CUT_IN),
        ("user", "second"),
        ("agent", "done"),
    ]
    assert not any(row.content.partial for row in await rig.history() if hasattr(row.content, "partial"))


async def test_what_was_shown_is_closed(rigs: Rigs) -> None:
    rig = rigs(ScriptedAgent([TextDelta("Let me see"), asyncio.Event()], says("done")), main=INTERRUPT)
    rig = await rig.on(Platform(rig.clock)).start(memory={"main": {"streaming": True}})
    await rig.ask("first")
    await rig.advance(3)
    assert rig.chat.texts() == ["Let me see"]
    await rig.ask("second")
    await rig.advance(3)
    assert rig.chat.texts() == [f"Let me see\n\n{phrases.CUT_IN}", "done"]


async def test_commands_and_other_conversations_interrupt_nothing(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("first")], says("other")), main=INTERRUPT).start()
    await rig.ask("first")
    await rig.ask("/status")
    await rig.ask("elsewhere", sender="2")
    go_on.set()
    await rig.settled()
    assert agent.cancelled == 0
    assert rig.chat.texts()[-1] == "first"


async def test_the_same_message_twice_interrupts_once(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("first")]), main=INTERRUPT).start()
    await rig.ask("first", external_id="1")
    await rig.ask("first", external_id="1")
    go_on.set()
    await rig.settled()
    assert (agent.cancelled, rig.chat.texts()) == (0, ["first"])


async def test_a_prompt_over_http_interrupts_too(rigs: Rigs) -> None:
    agent = ScriptedAgent([asyncio.Event()], says("done"))
    rig = await rigs(agent, main=INTERRUPT).start()
    session = (await rig.running.api.create_session(None, "owner")).public_id
    await rig.running.api.prompt(session, "first", "1")
    await rig.settled()
    await rig.running.api.prompt(session, "first", "1")
    await rig.settled()
    assert agent.cancelled == 0, "a repeat is no new message"
    await rig.running.api.prompt(session, "second", "2")
    await rig.settled()
    assert [turn.status for turn in await rig.turns()] == [TurnStatus.FAILED, TurnStatus.COMPLETED]


async def test_a_restart_between_the_two_answers_the_second_only(rigs: Rigs) -> None:
    agent = ScriptedAgent([asyncio.Event()], [asyncio.Event()], says("done"))
    rig = await rigs(agent, main=INTERRUPT).start()
    await rig.ask("first")
    await rig.ask("second")
    await rig.cut()
    await rig.start()
    assert [turn.text for turn in agent.seen] == ["first", "second", "second"]
    assert rig.chat.texts() == ["done"]
