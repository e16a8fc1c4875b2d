"""The built-in agent as the first command of the README shows it, with the shipped parts only."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway import phrases
from gateway.clock import SystemClock
from store.records import TurnStatus, Usage
from tests.fakes.harness import Rig, Rigs
from tests.store.helpers import PATIENCE


async def until(rig: Rig, condition: Callable[[], Awaitable[bool]]) -> None:
    """Look again whenever the conversation changes."""
    session = await rig.session()
    with rig.running.api.feed.watch(session.id) as changed:
        async with asyncio.timeout(PATIENCE):
            while not await condition():
                await changed.wait()
                changed.clear()


async def test_it_answers_by_fixed_rules(rigs: Rigs) -> None:
    rig = await rigs(builtin=True).start()
    for text in ("hello  there", "history", "help", "?", " HELP ", "count", "wait long", "count 1 2"):
        await rig.ask(text)
    texts = rig.chat.texts()
    assert texts[0] == "You said: hello  there"
    assert texts[1] == "This is turn 2; I was given 2 earlier messages."
    assert texts[2] == texts[3] == texts[4]
    assert "not a language model" in texts[2]
    assert texts[5:] == ["You said: count", "You said: wait long", "You said: count 1 2"]


async def test_its_counts_are_marked_as_estimates(rigs: Rigs) -> None:
    rig = await rigs(builtin=True).start()
    await rig.ask("one two three")
    [turn] = await rig.turns()
    assert turn.usage == Usage(input=3, output=5, source="estimated")
    assert turn.model == "builtin"


async def test_it_can_be_asked_to_fail(rigs: Rigs) -> None:
    rig = await rigs(builtin=True).start()
    await rig.ask("fail")
    assert rig.chat.texts() == [phrases.FAILED.format(why="You asked me to fail, so I did.")]
    await rig.ask("and now?")
    assert rig.chat.texts()[1:] == ["You said: and now?"]


async def test_several_at_once_know_nothing_of_each_other(rigs: Rigs) -> None:
    rig = await rigs(
        builtin=True,
        agent_tables={"one": {"kind": "builtin"}, "two": {"kind": "builtin"}},
        gateway={"default_agent": "one"},
        bindings=[{"agent": "two", "peer_kind": "group"}],
    ).start()
    await rig.ask("hello")
    await rig.ask("history", group=True)
    await rig.ask("history")
    assert rig.chat.texts("-100") == ["This is turn 1; I was given 0 earlier messages."]
    assert rig.chat.texts("1")[1:] == ["This is turn 2; I was given 2 earlier messages."]


@pytest.mark.req("S001-55")
async def test_counting_streams_before_the_readers_eyes(rigs: Rigs) -> None:
    rig = await rigs(builtin=True, clock=SystemClock(), memory={"main": {"streaming": True}}).start()
    await rig.ask("count 6")
    grown: list[str] = []

    async def done() -> bool:
        grown.append((await rig.said())[-1][1])
        return (await rig.turns())[0].status is TurnStatus.COMPLETED

    await until(rig, done)
    whole = "1 2 3 4 5 6 done."
    assert grown[-1] == whole
    partial = [text.rstrip("…") for text in grown if text.endswith("…")]
    assert partial
    assert all(whole.startswith(text) for text in partial)
    await rig.settled()
    assert rig.chat.texts() == [whole]
    assert rig.chat.shown[0].edits >= 1


async def test_waiting_can_be_stopped(rigs: Rigs) -> None:
    rig = await rigs(builtin=True, clock=SystemClock()).start()
    await rig.ask("wait 30")
    await rig.ask("/stop")
    assert rig.chat.texts() == [phrases.STOPPED]
    await rig.ask("wait 0.01")

    async def done() -> bool:
        return len(await rig.turns()) == 2 and (await rig.turns())[1].status is TurnStatus.COMPLETED

    await until(rig, done)
    await rig.settled()
    assert rig.chat.texts() == [phrases.STOPPED, "I waited 0.01 seconds."]
