"""Previews: an answer that grows in one message, whatever the platform does meanwhile."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from channels.base import Outgoing
from channels.memory import Fault
from channels.web import WebChannel
from gateway import phrases
from gateway.agents.protocol import Done, TextDelta, ToolUpdate, TurnContext
from routing.errors import AgentFailed
from store import outbox
from store.records import OutboxKind, OutboxState, TurnStatus
from tests.fakes.agents import ScriptedAgent, Step, says
from tests.fakes.chance import MARK, PLACES, chance, parked
from tests.fakes.clock import FakeClock, breathe
from tests.fakes.harness import Chat, Rig, Rigs
from tests.store.helpers import held

STREAMING = {"main": {"streaming": True}}


def growing(*pieces: str) -> tuple[list[Step], list[asyncio.Event]]:
    """An answer that waits after each piece."""
    events = [asyncio.Event() for _ in pieces]
    steps: list[Step] = []
    for piece, event in zip(pieces, events, strict=True):
        steps += [TextDelta(piece), event]
    return [*steps, Done()], events


async def kinds(rig: Rig) -> list[tuple[OutboxKind, OutboxState]]:
    return [(row.kind, row.state) for row in await rig.outbox()]


# -- how it looks ------------------------------------------------------------------------------------------------------


@pytest.mark.req("S001-55")
async def test_the_answer_grows_in_one_message(rigs: Rigs) -> None:
    script, (first, second, third) = growing("one ", "two ", "three")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    assert rig.chat.texts() == ["one"]
    assert await kinds(rig) == [(OutboxKind.PREVIEW, OutboxState.SENT)]
    first.set()
    await rig.advance(2)
    assert rig.chat.texts() == ["one two"]
    second.set()
    await rig.advance(2)
    third.set()
    await rig.settled()
    assert rig.chat.texts() == ["one two three"]
    assert [call.verb for call in rig.chat.log] == ["send", "edit", "edit", "edit"]
    assert await kinds(rig) == [(OutboxKind.FINAL, OutboxState.SENT)]


async def test_changes_are_spaced_but_the_final_one_is_not_delayed(rigs: Rigs) -> None:
    rig: Rig

    async def tick() -> None:
        await rig.clock.sleep(0.1)

    steps: list[Step] = []
    for number in range(100):
        steps += [TextDelta(f"{number} "), tick]
    rig = await rigs(ScriptedAgent([*steps, Done()]), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(11)
    assert rig.chat.texts() == ["".join(f"{number} " for number in range(100))]
    times = [call.at for call in rig.chat.log]
    assert 5 < len(times) < 9
    assert all(later - earlier >= 1.5 for earlier, later in zip(times[:-1], times[1:-1], strict=False))
    assert times[-1] == pytest.approx(10)


async def test_a_quick_answer_needs_no_preview(rigs: Rigs) -> None:
    rig = await rigs(memory=STREAMING).start()
    await rig.ask("go")
    assert [call.verb for call in rig.chat.log] == ["send"]


async def test_no_preview_where_it_is_switched_off(rigs: Rigs) -> None:
    script, (event,) = growing("answer")
    rig = await rigs(ScriptedAgent(script)).start()
    await rig.ask("go")
    await rig.advance(5)
    assert (rig.chat.log, await rig.outbox()) == ([], [])
    event.set()
    await rig.settled()
    assert rig.chat.texts() == ["answer"]


async def test_no_preview_where_messages_cannot_be_changed(rigs: Rigs) -> None:
    script, (event,) = growing("answer")
    rig = rigs(ScriptedAgent(script), memory={"fixed": {"streaming": True, "dm": "open"}})
    fixed = WebChannel("memory", "fixed")
    rig.channels = (rig.chat, fixed)
    await rig.start()
    message = rig.message("go", channel=Chat(rig.clock, "fixed"))
    await rig.running.api.receive(message)
    await rig.advance(5)
    assert await rig.outbox() == []
    event.set()
    await rig.settled()
    assert len(await rig.outbox()) <= 1


async def test_the_parts_around_a_tool_call_are_shown_together(rigs: Rigs) -> None:
    event = asyncio.Event()
    script: list[Step] = [
        TextDelta("Let me look."),
        ToolUpdate("1", "read"),
        TextDelta("Found"),
        event,
        TextDelta(" it."),
        Done(),
    ]
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    assert rig.chat.texts() == ["Let me look.\n\nFound"]
    event.set()
    await rig.settled()
    assert rig.chat.texts() == ["Let me look.\n\nFound it."]


async def test_a_failure_takes_the_place_of_the_preview(rigs: Rigs) -> None:
    event = asyncio.Event()
    rig = await rigs(ScriptedAgent([TextDelta("half an"), event, AgentFailed("No.")]), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    event.set()
    await rig.settled()
    assert rig.chat.texts() == [phrases.FAILED.format(why="No.")]


# -- the row comes first -----------------------------------------------------------------------------------------------


async def test_the_row_exists_before_the_message(rigs: Rigs) -> None:
    script, (event,) = growing("answer")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("go")
    await rig.advance(1)
    assert (rig.chat.shown, await kinds(rig)) == ([], [(OutboxKind.PREVIEW, OutboxState.SENDING)])
    rig.chat.go_on.set()
    await rig.settled()
    [row] = await rig.outbox()
    assert (row.state, row.sent_id) == (OutboxState.SENT, rig.chat.shown[0].id)


async def test_a_preview_that_hangs_holds_up_neither_the_turn_nor_its_history(rigs: Rigs) -> None:
    script, (first, second) = growing("one ", "two")
    rig = await rigs(ScriptedAgent(script), main={"turn_timeout": 60.0}, memory=STREAMING).start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("go")
    await rig.advance(1)
    first.set()
    await rig.advance(2)
    assert await rig.said() == [("user", "go"), ("agent", "one two…")]
    second.set()
    await rig.settled()
    assert (await rig.turns())[0].status is TurnStatus.COMPLETED
    await rig.advance(120)
    rig.chat.go_on.set()
    await rig.settled()
    assert rig.chat.texts() == ["one two"]
    assert await kinds(rig) == [(OutboxKind.FINAL, OutboxState.SENT)]


# -- trouble with the platform -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (Fault.CUT_BEFORE, ["one two"]),
        (Fault.REFUSE, ["one two"]),
        (Fault.RATE_LIMIT, ["one two"]),
        (Fault.CUT_AFTER, ["one", f"one two{MARK}"]),
    ],
)
async def test_a_preview_that_cannot_be_made(rigs: Rigs, fault: Fault, shown: list[str]) -> None:
    script, (first, second) = growing("one ", "two")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    rig.chat.faults.append(fault)
    await rig.ask("go")
    await rig.advance(2)
    first.set()
    await rig.advance(2)
    assert len(rig.chat.log) == 1, "no more previews in this turn"
    second.set()
    await rig.advance(60)
    assert rig.chat.texts() == shown
    assert {row.state for row in await rig.outbox()} <= {OutboxState.SENT, OutboxState.DROPPED}


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.RATE_LIMIT, Fault.REFUSE])
async def test_a_preview_that_cannot_be_changed(rigs: Rigs, fault: Fault) -> None:
    script, (first, second) = growing("one ", "two")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    rig.chat.faults.append(fault)
    first.set()
    await rig.advance(2)
    second.set()
    await rig.advance(60)
    assert rig.chat.texts() == ["one two"]


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.RATE_LIMIT])
async def test_the_final_change_is_safe_to_repeat(rigs: Rigs, fault: Fault) -> None:
    script, (first, second) = growing("one ", "two")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    first.set()
    rig.chat.faults.append(fault)
    second.set()
    await rig.advance(60)
    assert rig.chat.texts() == ["one two"]
    assert [call.verb for call in rig.chat.log] == ["send", "edit", "edit"]


async def test_a_message_that_was_deleted_is_sent_anew(rigs: Rigs) -> None:
    script, (event,) = growing("answer")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    rig.chat.shown.clear()
    event.set()
    await rig.settled()
    assert rig.chat.texts() == ["answer"]
    assert [call.verb for call in rig.chat.log] == ["send", "edit", "send"]


@pytest.mark.parametrize("made", [False, True])
async def test_a_rate_limit_on_a_preview_binds_everything_for_that_place(rigs: Rigs, made: bool) -> None:
    script, (first, second) = growing("one ", "two")
    rig = await rigs(ScriptedAgent(script, says("next")), memory=STREAMING).start()
    await rig.ask("go")
    if made:
        await rig.advance(2)
        first.set()
    rig.chat.faults.append(Fault.RATE_LIMIT)
    await rig.advance(2)
    limited = rig.chat.log[-1].at
    assert len(rig.chat.log) == 1 + made
    await rig.ask("/help")
    await rig.ask("more")
    assert len(rig.chat.log) == 1 + made, "not while the turn runs"
    first.set()
    second.set()
    await rig.settled()
    assert len(rig.chat.log) == 1 + made, "and not when it has ended"
    await rig.advance(60)
    above = [phrases.ANSWERED_BELOW] if made else []
    assert rig.chat.texts() == [*above, phrases.HELP, "one two", "next"]
    assert rig.chat.log[1 + made].at == pytest.approx(limited + 30)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_rate_limit_on_a_preview_survives_a_restart(rigs: Rigs, ended: bool) -> None:
    script, (event,) = growing("answer")
    rig = await rigs(ScriptedAgent(script, says("answer")), memory=STREAMING).start()
    rig.chat.faults.append(Fault.RATE_LIMIT)
    await rig.ask("go")
    await rig.advance(1)
    limited = rig.chat.log[0].at
    if ended:
        event.set()
        await rig.settled()
    await rig.cut()
    await rig.start()
    await rig.ask("/help")
    await rig.advance(28)
    assert len(rig.chat.log) == 1
    await rig.advance(10)
    assert rig.chat.texts() == ["answer", phrases.HELP]
    assert rig.chat.log[1].at == pytest.approx(limited + 30)


async def test_previews_yield_to_messages_that_wait(rigs: Rigs) -> None:
    script, (first, second) = growing("one ", "two")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    rig.chat.faults.append(Fault.RATE_LIMIT)
    await rig.ask("/help")
    await rig.ask("go")
    await rig.advance(10)
    first.set()
    await rig.advance(10)
    assert len(rig.chat.log) == 1
    second.set()
    await rig.advance(20)
    assert rig.chat.texts() == [phrases.HELP, "one two"]


class Rude(Chat):
    """A channel that breaks its promise to raise nothing but DeliveryFailed, after the platform has it."""

    rude = 1

    async def send(self, item: Outgoing) -> str:
        sent_id = await super().send(item)
        if self.rude:
            self.rude -= 1
            raise ZeroDivisionError
        return sent_id


async def test_whatever_a_channel_raises_the_answer_is_not_lost(rigs: Rigs) -> None:
    script, (first, second) = growing("one ", "two")
    rig = rigs(ScriptedAgent(script), memory=STREAMING)
    rude = Rude(rig.clock)
    rig.channels = (rude,)
    await rig.start()
    await rig.ask("go", channel=rude)
    await rig.advance(2)
    first.set()
    await rig.advance(2)
    assert await rig.said() == [("user", "go"), ("agent", "one two…")]
    second.set()
    await rig.settled()
    assert rude.texts() == ["one", f"one two{MARK}"]


# -- a stop in between -------------------------------------------------------------------------------------------------


async def test_a_stop_closes_what_was_shown(rigs: Rigs) -> None:
    script, _ = growing("half an")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    await rig.ask("/stop")
    assert rig.chat.texts() == [f"half an\n\n{phrases.STOPPED}", phrases.STOPPED]


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        (None, [f"half an\n\n{phrases.STOPPED}", phrases.STOPPED]),
        (Fault.CUT_AFTER, [f"half an\n\n{phrases.STOPPED}", phrases.STOPPED]),
        (Fault.REFUSE, ["half an", f"half an\n\n{phrases.STOPPED}", phrases.STOPPED]),
    ],
)
async def test_a_stop_while_the_preview_is_being_made(rigs: Rigs, fault: Fault | None, shown: list[str]) -> None:
    """The message becomes the one that says so, if it can be changed; nothing is marked, for the platform answered."""
    script, _ = growing("half an")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    rig.chat.faults.append(Fault.DELAY)
    if fault is not None:
        rig.chat.faults.append(fault)
    await rig.ask("go")
    await rig.advance(1)
    await rig.ask("/stop")
    rig.chat.go_on.set()
    await rig.advance(5)
    assert rig.chat.texts() == shown
    assert {row.state for row in await rig.outbox()} == {OutboxState.SENT}


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
async def test_a_stop_while_the_making_of_a_preview_fails(rigs: Rigs, fault: Fault) -> None:
    script, _ = growing("half an")
    rig = rigs(ScriptedAgent(script), memory=STREAMING)
    slow = Slow(rig.clock)
    rig.channels = (slow,)
    slow.faults.append(fault)
    await rig.start()
    await rig.ask("go", channel=slow)
    await rig.advance(1)
    await rig.ask("/stop", channel=slow)
    slow.go_on.set()
    await rig.advance(10)
    closed = f"half an\n\n{phrases.STOPPED}"
    expected = [closed] if fault is Fault.CUT_BEFORE else ["half an", f"{closed}{MARK}"]
    assert slow.texts() == [*expected, phrases.STOPPED]


class Slow(Chat):
    """Every call waits until `go_on` is set, and then plays its fault."""

    async def send(self, item: Outgoing) -> str:
        await self.go_on.wait()
        return await super().send(item)


async def test_a_stop_between_the_row_and_its_preview(rigs: Rigs) -> None:
    """The text was stored, then the turn was stopped: no preview is made any more."""
    script, _ = growing("half an")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("go")
    assert isinstance(rig.clock, FakeClock)
    async with held(rig.running.store):
        rig.clock.settle = breathe
        await rig.clock.advance(0.3)
        stopping = asyncio.create_task(rig.say("/stop"))
        await breathe()
    rig.clock.settle = rig.settled
    await stopping
    await rig.advance(10)
    assert rig.chat.texts() == [phrases.STOPPED]
    assert (await rig.said())[1] == ("agent", "half an")


async def test_signs_of_life_after_a_stop_show_nothing(rigs: Rigs) -> None:
    """An agent that does not listen sends empty pieces on; what was stored but not yet shown stays so."""
    more, alive, late = (asyncio.Event() for _ in range(3))
    script: list[Step] = [TextDelta("half "), more, TextDelta("an"), alive, TextDelta(""), late]
    rig = await rigs(ScriptedAgent(script, stubborn=True), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(0.5)
    more.set()
    await rig.advance(0.5)
    await rig.ask("/stop")
    stopped = rig.chat.texts()
    assert stopped == [f"half an\n\n{phrases.STOPPED}", phrases.STOPPED]
    await rig.advance(5)
    alive.set()
    await rig.advance(10)
    assert rig.chat.texts() == stopped
    late.set()
    await rig.settled()
    assert rig.chat.texts() == stopped


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True])
async def test_after_a_restart_the_preview_is_finished(rigs: Rigs, hard: bool) -> None:
    script, _ = growing("half an")
    rig = await rigs(ScriptedAgent(script, says("whole")), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    assert rig.chat.texts() == ["half an"]
    await (rig.cut() if hard else rig.stop())
    await rig.start()
    assert rig.chat.texts() == ["whole"]
    assert await rig.said() == [("user", "go"), ("agent", "whole")]


async def test_a_preview_that_was_being_made_in_a_crash_may_exist(rigs: Rigs) -> None:
    script, _ = growing("half an")
    rig = await rigs(ScriptedAgent(script, says("whole")), memory=STREAMING).start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("go")
    await rig.advance(1)
    await rig.cut()
    await rig.before(lambda db: None)
    await rig.start()
    assert rig.chat.texts() == [f"whole{MARK}"]


async def test_a_stop_and_a_crash_while_a_preview_is_being_made(rigs: Rigs) -> None:
    script, _ = growing("half an")
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("go")
    await rig.advance(1)
    await rig.ask("/stop")
    await rig.cut()
    await rig.start()
    assert rig.chat.texts() == [f"half an\n\n{phrases.STOPPED}{MARK}", phrases.STOPPED]


async def test_a_restart_grows_on_in_the_same_message(rigs: Rigs) -> None:
    first, _ = growing("half an")
    second, (event,) = growing("another try")
    rig = await rigs(ScriptedAgent(first, second), memory=STREAMING).start()
    await rig.ask("go")
    await rig.advance(2)
    await rig.cut()
    await rig.start()
    await rig.advance(2)
    assert rig.chat.texts() == ["another try"]
    event.set()
    await rig.settled()
    assert rig.chat.texts() == ["another try"]
    rows = await rig.read(lambda db: outbox.parked(db))
    assert (rows, len(await rig.outbox())) == ([], 1)


# -- chance ------------------------------------------------------------------------------------------------------------


def check(rig: Rig, place: str, answers: Sequence[str], parked: set[str]) -> None:
    """What is stored is what is shown, once. A torso is left only where nobody can know that it is there."""
    texts = rig.chat.texts(place)
    marked = {text.removesuffix(MARK) for text in texts if text.endswith(MARK)}
    plain = Counter(text for text in texts if not text.endswith(MARK))
    for answer in answers:
        assert plain[answer] <= 1, (place, texts)
        assert plain[answer] or answer in marked | parked, (place, texts, parked)
    assert texts[-1:] != [phrases.ANSWERED_BELOW], (place, texts)
    for text in plain.keys() - set(answers) - {phrases.ANSWERED_BELOW}:
        assert any(answer.startswith(text) and answer in marked | parked for answer in answers), (place, texts, parked)
    sights = [text for text in dict.fromkeys(text.removesuffix(MARK) for text in texts) if text in answers]
    assert sights == [answer for answer in answers if answer in sights], (place, texts)


@pytest.mark.parametrize("block", range(10))
async def test_random_faults_leave_no_torso_and_no_second_copy(rigs: Rigs, block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        rig: Rig

        async def tick() -> None:
            await rig.clock.sleep(0.7)  # noqa: B023 (the rig of this round)

        def slowly(turn: TurnContext) -> Sequence[Step]:
            return [
                TextDelta(f"{turn.text} "),
                tick,
                tick,
                TextDelta("is "),
                tick,
                tick,
                tick,
                TextDelta("it."),
                Done(),
            ]

        rig = rigs(ScriptedAgent(slowly), memory=STREAMING)
        said = await chance(rig, seed)
        for place in PLACES:
            answers = [f"{number} is it." for number in range(1, said[place] + 1)]
            check(rig, place, answers, await parked(rig, place))
        await rig.cut()
