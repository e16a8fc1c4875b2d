"""Stopping: what runs may end, what waits is kept, and nothing is counted as a crash."""

import asyncio

import pytest

from channels.base import Outgoing
from channels.memory import Fault
from gateway.agents.protocol import Done, TextDelta
from gateway.logs import Event as Logged
from routing.errors import DeliveryFailed, Stopping
from store.records import TurnStatus
from tests.fakes.agents import ScriptedAgent, Step, echo, says
from tests.fakes.clock import FakeClock
from tests.fakes.harness import Chat, Rig, Rigs
from tests.store.helpers import PATIENCE


def elapsed(rig: Rig) -> float:
    assert isinstance(rig.clock, FakeClock)
    return rig.clock.monotonic()


async def test_an_idle_daemon_stops_at_once(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("hello")
    await rig.stop()
    assert elapsed(rig) == 0
    assert agent.closed
    assert not rig.chat.started.is_set()
    assert [name for name, _ in rig.journal.lines[-2:]] == [Logged.DAEMON_STOPPING, Logged.DAEMON_STOPPED]


async def test_a_running_turn_ends_and_is_delivered(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([TextDelta("half "), go_on, TextDelta("whole"), Done()], echo)).start()
    await rig.ask("one")
    await rig.ask("two")
    await rig.begin_stop()
    assert rig.chat.texts() == []
    await rig.advance(10)
    go_on.set()
    await rig.stopped()
    assert rig.chat.texts() == ["half whole"]
    assert (len(agent.seen), agent.cancelled) == (1, 0), "no further turn is started"
    await rig.start()
    assert rig.chat.texts() == ["half whole", "re: two"]
    assert [turn.attempts for turn in await rig.turns()] == [1, 1]


class Closing(Chat):
    """Like a real client: when `run` ends, its connections are closed."""

    async def send(self, item: Outgoing) -> str:
        if not self.started.is_set():
            raise DeliveryFailed("the client is closed", retryable=True)
        return await super().send(item)


async def test_the_last_answers_go_out_through_a_channel_that_still_runs(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = rigs(ScriptedAgent([go_on, *says("one")]))
    closing = Closing(rig.clock)
    rig.channels = (closing,)
    await rig.start()
    await rig.ask("one", channel=closing)
    await rig.begin_stop()
    go_on.set()
    await rig.stopped()
    assert closing.texts() == ["one"]


async def test_beyond_the_deadline_a_turn_is_cut_and_runs_again_at_the_next_start(rigs: Rigs) -> None:
    agent = ScriptedAgent([TextDelta("half"), asyncio.Event()], echo)
    rig = await rigs(agent, gateway={"drain_seconds": 7.0}).start()
    await rig.ask("one")
    await rig.advance(1)
    await rig.stop()
    assert elapsed(rig) == pytest.approx(8)
    assert (agent.cancelled, rig.chat.texts()) == (1, [])
    rows = await rig.before(lambda db: db.execute("SELECT status, attempts FROM turns").fetchall())
    assert rows == [(TurnStatus.PENDING, 0)]
    await rig.start()
    assert rig.chat.texts() == ["re: one"]
    assert [(turn.status, turn.attempts) for turn in await rig.turns()] == [(TurnStatus.COMPLETED, 1)]
    assert await rig.said() == [("user", "one"), ("agent", "re: one")]


async def test_any_number_of_stops_is_not_a_crash(rigs: Rigs) -> None:
    agent = ScriptedAgent(*[[asyncio.Event()]] * 5, echo)
    rig = rigs(agent, gateway={"drain_seconds": 0})
    await rig.start()
    await rig.ask("one")
    for number in range(5):
        await (rig.stop() if number % 2 else rig.cut())
        await rig.start()
    assert rig.chat.texts() == ["re: one"]
    assert len(agent.seen) == 6


async def test_a_side_effect_is_not_repeated_because_of_a_stop(rigs: Rigs) -> None:
    agent = ScriptedAgent([asyncio.Event()], side_effects=True)
    rig = rigs(agent, gateway={"drain_seconds": 1.0}, memory={"main": {"allow": ["1"]}})
    await rig.start()
    await rig.ask("rm -r")
    await rig.stop()
    await rig.start()
    assert len(agent.seen) == 1
    assert [turn.status for turn in await rig.turns()] == [TurnStatus.FAILED]
    assert len(rig.chat.texts()) == 1


async def test_nothing_new_is_taken_while_it_stops(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("one")], echo)).start()
    api, intake = rig.running.api, rig.running.intake
    session = await api.create_session(None, "owner")
    await rig.ask("one")
    await rig.begin_stop()
    for _ in range(2):
        with pytest.raises(Stopping):
            await api.prompt(session.public_id, "two", "1")
    with pytest.raises(Stopping):
        await api.create_session(None, "owner")
    with pytest.raises(Stopping):
        await intake.take(rig.message("two"))
    waiting = asyncio.create_task(rig.say("two"))
    await rig.advance(5)
    assert not waiting.done(), "a channel is not told that we have it"
    waiting.cancel()
    go_on.set()
    await rig.stopped()
    await rig.start()
    assert [turn.instruction_summary for one in await rig.sessions() for turn in await rig.turns(one)] == ["one"]


async def test_a_stop_command_is_not_needed_to_stop_twice(rigs: Rigs) -> None:
    """Turns of several conversations share one deadline."""
    rig = await rigs(ScriptedAgent([asyncio.Event()]), gateway={"drain_seconds": 5.0}).start()
    for person in range(4):
        await rig.ask("x", sender=str(person))
    await rig.stop()
    assert elapsed(rig) == pytest.approx(5)


async def test_what_waits_for_a_slot_is_kept(rigs: Rigs) -> None:
    rig = rigs(ScriptedAgent([asyncio.Event()], echo), main={"max_turns": 1}, gateway={"drain_seconds": 0})
    await rig.start()
    for person in range(4):
        await rig.ask("x", sender=str(person))
    await rig.stop()
    await rig.start()
    assert [rig.chat.texts(str(person)) for person in range(4)] == [["re: x"]] * 4


async def test_deliveries_that_wait_for_their_time_do_not_hold_up_the_stop(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.RATE_LIMIT)
    await rig.ask("one")
    await rig.stop()
    assert elapsed(rig) == 0
    await rig.start()
    await rig.advance(30)
    assert rig.chat.texts() == ["re: one"]


async def test_a_platform_that_is_down_does_not_hold_up_the_stop(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("one")])).start()
    await rig.ask("one")
    rig.chat.down = True
    await rig.begin_stop()
    go_on.set()
    await rig.stopped()
    assert elapsed(rig) < 1
    rig.chat.down = False
    await rig.start()
    await rig.advance(10)
    assert rig.chat.texts() == ["one"]


async def test_a_delivery_that_hangs_is_cut(rigs: Rigs) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("one")
    await rig.stop()
    assert 0 < elapsed(rig) <= 30


async def test_a_preview_that_hangs_is_cut(rigs: Rigs) -> None:
    script: list[Step] = [TextDelta("half"), asyncio.Event()]
    rig = rigs(
        ScriptedAgent(script, says("whole")), memory={"main": {"streaming": True}}, gateway={"drain_seconds": 1.0}
    )
    await rig.start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("one")
    await rig.advance(1)
    await rig.stop()
    assert elapsed(rig) <= 30
    await rig.start()
    assert len(rig.chat.texts()) == 1


async def test_a_lane_that_is_closed_before_it_could_begin(rigs: Rigs) -> None:
    """A message that arrives with the signal: its lane never ran, and nobody waits for it."""
    rig = await rigs().start()
    lanes, intake = rig.running.lanes, rig.running.intake
    await intake.take(rig.message("one"))
    lanes.close()
    async with asyncio.timeout(PATIENCE):
        await lanes.drain()
    await rig.stop()
    await rig.start()
    assert rig.chat.texts() == ["re: one"]


async def test_a_daemon_that_is_stopped_before_it_is_ready(rigs: Rigs) -> None:
    rig = rigs()
    daemon = rig.daemon()
    daemon.stop()
    async with asyncio.timeout(PATIENCE):
        await daemon.run(lambda running: None)
    await rig.start()
    await rig.ask("hello")
    assert rig.chat.texts() == ["re: hello"]
