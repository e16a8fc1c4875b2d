"""The start after a crash. The states are put into the file; how they come about is the crash test's business."""

import asyncio
from collections.abc import Callable

import pytest

from gateway import phrases
from gateway.agents.protocol import Done, TextDelta
from gateway.logs import Event as Logged
from gateway.steps import begin
from routing.errors import AgentFailed
from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import inbox, outbox, people, turns
from store.content import Text
from store.database import Database
from store.inbox import Arrival
from store.outbox import Draft
from store.records import InboxItem, OutboxState, Role, Turn, TurnStatus
from tests.fakes.agents import ScriptedAgent, Step, echo, says
from tests.fakes.harness import Rig, Rigs

NOW = 1_000_000


def waiting(db: Database, text: str, chat: str = "1", agent: str = "main") -> InboxItem:
    """A message that was accepted, as the daemon stores it."""
    person = people.meet(db, "memory", chat, "", NOW)
    arrival = Arrival(
        external_id=f"before/{text}",
        key=SessionKey(agent, "*", "*", PeerKind.DM, person.public_id),
        address=Address(channel="memory", account="main", chat=chat, reply_to=text),
        text=text,
        person=person.id,
    )
    return inbox.accept(db, arrival, NOW).item


def running(db: Database, text: str, chat: str = "1", agent: str = "main", attempts: int = 1) -> Turn:
    """A turn that was running when the lights went out, for the last of so many times."""
    started = begin(db, [waiting(db, text, chat, agent).id], NOW)
    assert started is not None
    for _ in range(attempts - 1):
        turns.start_again(db, started.turn.id)
    return started.turn


def half(db: Database, turn: Turn, text: str) -> int:
    return turns.progress(db, turn.id, None, Role.AGENT, Text(text, partial=True), NOW)


async def crashed(rig: Rig, *states: Callable[[Database], object]) -> Rig:
    """Start on a file in these states."""
    await rig.before(lambda db: [state(db) for state in states])
    return await rig.start()


async def test_a_turn_that_was_running_is_run_once_more(rigs: Rigs) -> None:
    rig = await crashed(rigs(agent := ScriptedAgent()), lambda db: running(db, "do X"))
    assert rig.chat.texts() == ["re: do X"]
    assert rig.chat.shown[0].address.reply_to == "do X"
    [turn] = await rig.turns()
    assert (turn.status, turn.attempts) == (TurnStatus.COMPLETED, 2)
    assert await rig.said() == [("user", "do X"), ("agent", "re: do X")]
    assert len(agent.seen) == 1
    [line] = rig.journal.of(Logged.RECOVERY)
    assert (line["rerun"], line["waiting"], line["quarantined"], line["interrupted"]) == (1, 0, 0, 0)
    assert len(rig.journal.of(Logged.TURN_RERUN)) == 1
    await rig.stop()
    await rig.start()
    assert rig.chat.texts() == ["re: do X"], "and not a third time"


async def test_a_turn_that_was_running_in_two_crashes_is_quarantined_and_told(rigs: Rigs) -> None:
    rig = await crashed(rigs(agent := ScriptedAgent()), lambda db: running(db, "do X", attempts=2))
    assert agent.seen == []
    assert rig.chat.texts() == [phrases.FAILED.format(why=phrases.QUARANTINED)]
    [turn] = await rig.turns()
    assert (turn.status, turn.attempts, turn.errors) == (TurnStatus.FAILED, 2, (phrases.QUARANTINED,))
    assert (await rig.said())[-1] == ("system", phrases.NOTE_FAILED.format(why=phrases.QUARANTINED))
    [line] = rig.journal.of(Logged.RECOVERY)
    assert line["quarantined"] == 1
    await rig.ask("hello")
    assert rig.chat.texts()[1:] == ["re: hello"]


@pytest.mark.parametrize("attempts", [1, 2])
async def test_an_agent_with_side_effects_is_not_run_again_unasked(rigs: Rigs, attempts: int) -> None:
    agent = ScriptedAgent(side_effects=True)
    rig = await crashed(
        rigs(agent, memory={"main": {"allow": ["1"]}}), lambda db: running(db, "rm -r", attempts=attempts)
    )
    assert agent.seen == []
    why = phrases.INTERRUPTED if attempts == 1 else phrases.QUARANTINED
    assert rig.chat.texts() == [phrases.FAILED.format(why=why)]
    assert (await rig.turns())[0].errors == (why,)
    await rig.ask("hello")
    assert rig.chat.texts()[1:] == ["re: hello"]


async def test_what_only_waited_is_answered_by_an_agent_with_side_effects(rigs: Rigs) -> None:
    rig = await crashed(rigs(ScriptedAgent(side_effects=True)), lambda db: waiting(db, "do X"))
    assert rig.chat.texts() == ["re: do X"]


@pytest.mark.parametrize("state", [waiting, running])
async def test_an_agent_that_is_gone_fails_visibly(rigs: Rigs, state: Callable[..., object]) -> None:
    rig = await crashed(rigs(), lambda db: state(db, "do X", agent="gone"))
    why = phrases.NO_SUCH_AGENT.format(agent="gone")
    assert rig.chat.texts() == [phrases.FAILED.format(why=why)]
    assert [(turn.status, turn.errors) for turn in await rig.turns()] == [(TurnStatus.FAILED, (why,))]


async def test_an_unfinished_turn_goes_before_what_waits_in_its_lane(rigs: Rigs) -> None:
    rig = await crashed(
        rigs(agent := ScriptedAgent()),
        lambda db: running(db, "one"),
        lambda db: waiting(db, "two"),
        lambda db: waiting(db, "elsewhere", chat="2"),
        lambda db: waiting(db, "three"),
    )
    assert rig.chat.texts() == ["re: one", "re: two", "re: three"]
    assert rig.chat.texts("2") == ["re: elsewhere"]
    assert [turn.text for turn in agent.seen if turn.text != "elsewhere"] == ["one", "two", "three"]


async def test_what_was_answered_goes_out_before_what_is_answered_now(rigs: Rigs) -> None:
    def held(db: Database) -> int:
        draft = Draft(address=Address(channel="memory", account="main", chat="1"), text="re: zero")
        return outbox.put(db, draft, OutboxState.HELD, NOW)

    rig = await crashed(rigs(), held, lambda db: running(db, "one"), lambda db: waiting(db, "two"))
    assert rig.chat.texts() == ["re: zero", "re: one", "re: two"]


async def test_what_waited_is_collected_where_it_is_so_configured(rigs: Rigs) -> None:
    rig = await crashed(
        rigs(main={"queue": "collect"}),
        lambda db: running(db, "one"),
        lambda db: waiting(db, "two"),
        lambda db: waiting(db, "three"),
    )
    assert rig.chat.texts() == ["re: one", "re: two\nthree"]


# -- the row that had begun to grow ------------------------------------------------------------------------------------


async def test_the_row_that_had_begun_to_grow_is_used_again(rigs: Rigs) -> None:
    more, done = asyncio.Event(), asyncio.Event()
    script: list[Step] = [more, TextDelta("another try"), done, Done()]
    rig = await crashed(rigs(ScriptedAgent(script)), lambda db: half(db, running(db, "do X"), "the first try was mu"))
    row = (await rig.history())[1]
    assert await rig.said() == [("user", "do X"), ("agent", "the first try was mu…")]
    more.set()
    await rig.advance(1)
    assert await rig.said() == [("user", "do X"), ("agent", "another try…")]
    done.set()
    await rig.settled()
    assert await rig.said() == [("user", "do X"), ("agent", "another try")]
    again = (await rig.history())[1]
    assert (again.id, again.public_id) == (row.id, row.public_id)


async def test_the_row_that_had_begun_to_grow_is_closed_if_the_second_try_fails(rigs: Rigs) -> None:
    rig = await crashed(rigs(ScriptedAgent([AgentFailed("no.")])), lambda db: half(db, running(db, "do X"), "half an"))
    _, row, _ = await rig.history()
    assert (row.content, row.metadata["incomplete"]) == (Text("half an", partial=False), True)
    assert rig.chat.texts() == [phrases.FAILED.format(why="No.")]


@pytest.mark.parametrize("attempts", [1, 2])
async def test_the_row_that_had_begun_to_grow_is_closed_if_there_is_no_second_try(rigs: Rigs, attempts: int) -> None:
    def state(db: Database) -> None:
        half(db, running(db, "do X", attempts=attempts), "half an")

    rig = await crashed(rigs(ScriptedAgent(side_effects=True)), state)
    assert await rig.said() == [
        ("user", "do X"),
        ("agent", "half an"),
        ("system", phrases.NOTE_FAILED.format(why=phrases.INTERRUPTED if attempts == 1 else phrases.QUARANTINED)),
    ]


# -- races -------------------------------------------------------------------------------------------------------------


async def test_a_turn_that_is_stopped_before_it_can_run_again(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    agent = ScriptedAgent([go_on, *says("one")], echo)
    rig = await crashed(
        rigs(agent, main={"max_turns": 1}), lambda db: running(db, "one"), lambda db: running(db, "two", "2")
    )
    await rig.ask("/stop", sender="2")
    assert rig.chat.texts("2") == [phrases.STOPPED]
    go_on.set()
    await rig.settled()
    assert (rig.chat.texts("1"), rig.chat.texts("2")) == (["one"], [phrases.STOPPED])
    await rig.ask("hello", sender="2")
    assert rig.chat.texts("2") == [phrases.STOPPED, "re: hello"]


async def test_a_message_that_the_platform_sends_again_after_the_restart_makes_no_second_turn(rigs: Rigs) -> None:
    rig = await crashed(rigs(agent := ScriptedAgent()), lambda db: running(db, "one"), lambda db: waiting(db, "two"))
    for text in ("one", "two"):
        await rig.ask(text, external_id=f"before/{text}")
    assert rig.chat.texts() == ["re: one", "re: two"]
    assert len(agent.seen) == 2


async def test_twenty_restarts_under_load(rigs: Rigs) -> None:
    rig = rigs(main={"max_turns": 2})
    for number in range(20):
        await rig.start()
        for person in range(3):
            await rig.say(f"{number}", sender=str(person))
            await rig.say(f"{number}", sender=str(person), external_id=f"{person}/{number}")
            await rig.say(f"{number}", sender=str(person), external_id=f"{person}/{number}")
        await (rig.cut() if number % 2 else rig.stop())
    await rig.start()
    for person in range(3):
        assert len(rig.chat.texts(str(person))) == 40
        assert [text.removesuffix(f"\n\n{phrases.MAYBE_REPEAT}") for text in rig.chat.texts(str(person))] == [
            f"re: {number}" for number in range(20) for _ in range(2)
        ]
