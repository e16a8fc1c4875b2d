"""What runs beside the turns: channels that fall and rise, the sweeper, the watch over the writer."""

import asyncio

import pytest

from channels.base import Host
from channels.memory import MemoryChannel
from gateway.commands import MENU
from gateway.hosting import ChannelHost
from gateway.logs import Event as Logged
from routing.access import Reason
from routing.errors import ChannelSilent, StoreClosed
from store import inbox, outbox
from store.database import Database
from store.inbox import Arrival
from store.records import InboxState, OutboxState
from tests.fakes.agents import ScriptedAgent
from tests.fakes.clock import FakeClock
from tests.fakes.harness import Chat, Rig, Rigs, notice
from tests.store.helpers import held

DAY = 86_400


class Fragile(Chat):
    """Falls each time it is told to."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig.clock, "second")
        self.fall = asyncio.Event()
        self.error: Exception | None = ConnectionError("token=hunter2")
        self.runs: list[float] = []

    async def run(self, host: Host) -> None:
        self.runs.append(self._clock.monotonic())
        running = asyncio.ensure_future(super().run(host))
        try:
            await self.fall.wait()
        finally:
            running.cancel()
            await asyncio.wait({running})
        if self.error is not None:
            raise self.error


async def fragile(rigs: Rigs) -> tuple[Rig, Fragile]:
    rig = rigs(memory={"second": {"dm": "open", "streaming": False}})
    channel = Fragile(rig)
    rig.channels = (rig.chat, channel)
    return await rig.start(), channel


def health(rig: Rig, name: str) -> tuple[bool, str]:
    component = rig.running.api.health.components[name]
    return component.ok, component.detail


def everything_ok(rig: Rig) -> bool:
    return rig.running.api.health.ok


async def test_a_channel_that_falls_is_started_again_and_nobody_else_is_concerned(rigs: Rigs) -> None:
    rig, channel = await fragile(rigs)
    assert everything_ok(rig)
    channel.fall.set()
    await rig.settled()
    ok, why = health(rig, "channel memory.second")
    assert (ok, "ConnectionError" in why, "hunter2" in why) == (False, True, False)
    assert everything_ok(rig) is False
    assert len(rig.journal.of(Logged.CHANNEL_FAILED)) == 1
    await rig.ask("hello")
    assert rig.chat.texts() == ["re: hello"]
    channel.fall.clear()
    await rig.advance(1)
    assert health(rig, "channel memory.second") == (True, "")
    assert everything_ok(rig)
    await rig.ask("hello", channel=channel, sender="2")
    assert channel.texts("2") == ["re: hello"]


async def test_a_channel_that_goes_on_falling_is_started_ever_more_seldom(rigs: Rigs) -> None:
    rig, channel = await fragile(rigs)
    channel.fall.set()
    await rig.advance(400)
    pauses = [later - earlier for earlier, later in zip(channel.runs, channel.runs[1:], strict=False)]
    assert pauses[:8] == pytest.approx([1, 2, 4, 8, 16, 32, 60, 60], abs=0.01)
    channel.fall.clear()
    await rig.advance(120)
    begun = len(channel.runs)
    channel.fall.set()
    await rig.advance(1)
    assert len(channel.runs) == begun + 1, "after a good while it starts anew"


async def test_a_channel_that_ends_by_itself_is_started_again(rigs: Rigs) -> None:
    rig, channel = await fragile(rigs)
    channel.error = None
    channel.fall.set()
    await rig.settled()
    assert health(rig, "channel memory.second") == (False, "it ended by itself")
    channel.fall.clear()
    await rig.advance(1)
    assert health(rig, "channel memory.second") == (True, "")


async def test_an_answer_goes_out_while_its_channel_is_down(rigs: Rigs) -> None:
    """Receiving and sending are two things: what can be sent is sent."""
    rig, channel = await fragile(rigs)
    await rig.say("hello", channel=channel, sender="2")
    channel.fall.set()
    await rig.settled()
    assert channel.texts("2") == ["re: hello"]


# -- the writer --------------------------------------------------------------------------------------------------------


async def test_a_writer_that_does_not_answer_is_noticed(rigs: Rigs) -> None:
    rig = await rigs().start()
    assert isinstance(rig.clock, FakeClock)
    assert health(rig, "writer") == (True, "")
    rig.clock.settle = breathe_long
    async with held(rig.running.store):
        await rig.clock.advance(14)
        assert health(rig, "writer") == (True, "")
        await rig.clock.advance(2)
        assert health(rig, "writer") == (False, "no answer for 10 s")
        assert everything_ok(rig) is False
    rig.clock.settle = rig.settled
    await rig.advance(10)
    assert health(rig, "writer") == (True, "")


async def breathe_long() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_the_daemon_ends_when_its_writer_dies(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()])).start()
    await rig.ask("one")
    intake = rig.running.intake

    def die(db: Database) -> None:
        raise SystemExit

    with pytest.raises(StoreClosed):
        await rig.write(die)
    accepting = asyncio.create_task(intake.accept(rig.message("two")))
    ended = await rig.ended()
    assert isinstance(ended, BaseExceptionGroup)
    assert ended.subgroup(StoreClosed) is not None
    assert not accepting.done(), "nobody is told that a message is safe"
    accepting.cancel()
    await rig.start()
    assert len(await rig.turns()) == 1


# -- the sweeper -------------------------------------------------------------------------------------------------------


async def external_ids(rig: Rig) -> list[str]:
    rows = await rig.read(lambda db: db.execute("SELECT external_id FROM inbox ORDER BY id").fetchall())
    return [name for (name,) in rows]


async def test_what_no_longer_matters_is_forgotten(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("hello", external_id="e1")
    rig.chat.down = True
    await rig.ask("hello", external_id="e2")
    await rig.stop()
    leap(rig, 8 * DAY)
    await rig.start()
    assert await rig.states() == ["ready"], "what was delivered a week ago is gone, what was not stays"
    assert await external_ids(rig) == ["e1", "e2"]
    await rig.ask("hello", external_id="e1")
    assert len(await rig.turns()) == 2
    await rig.stop()
    leap(rig, 23 * DAY)
    rig.chat.down = False
    await rig.start()
    assert await external_ids(rig) == []
    assert rig.chat.texts() == ["re: hello"] * 2
    assert len(await rig.history()) == 4, "the history keeps everything"


def leap(rig: Rig, seconds: float) -> None:
    """Time passes while no daemon runs."""
    assert isinstance(rig.clock, FakeClock)
    rig.clock.leap(seconds)


async def test_what_still_waits_is_never_forgotten(rigs: Rigs) -> None:
    rig = rigs(ScriptedAgent([asyncio.Event()]), main={"turn_timeout": 86_400.0})
    await rig.start()
    await rig.ask("runs", external_id="e1")
    await rig.ask("waits", external_id="e2")

    def park(db: Database) -> None:
        outbox.park(db, outbox.put(db, notice("parked"), OutboxState.READY, 0), "why", 0)
        outbox.put(db, notice("sent"), OutboxState.SENT, 0)
        arrival = Arrival(external_id="old", key=item.key, address=item.address, text="")
        inbox.insert(db, arrival, InboxState.DONE, 0)

    item = (await rig.read(inbox.all_waiting))[0]
    await rig.write(park)
    await rig.advance(61)
    assert await rig.states() == ["parked"]
    assert await external_ids(rig) == ["e1", "e2"]


async def test_every_account_has_a_channel(rigs: Rigs) -> None:
    rig = await rigs(memory={"second": {"dm": "open"}}, web={"page": {}}).start()
    names = {name for name in rig.running.api.health.components if name.startswith("channel")}
    assert names == {"channel api.http", "channel memory.main", "channel memory.second", "channel web.page"}
    assert isinstance(rig.running.channels["memory", "second"], MemoryChannel)


# -- signs of life -----------------------------------------------------------------------------------------------------


class Connected(Chat):
    """A channel with a connection: alive when the test says so."""

    def __init__(self, rig: Rig, account: str = "second") -> None:
        super().__init__(rig.clock, account)
        self.silent_after = 60.0
        self.runs: list[float] = []
        self.host: Host | None = None
        #: How it behaves when it is told to end.
        self.stubborn = False
        self.let_go = asyncio.Event()

    async def run(self, host: Host) -> None:
        self.runs.append(self._clock.monotonic())
        self.host = host
        try:
            await super().run(host)
        finally:
            while self.stubborn and not self.let_go.is_set():
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    continue


async def connected(rigs: Rigs) -> tuple[Rig, Connected]:
    rig = rigs(memory={"second": {"dm": "open", "streaming": False}})
    channel = Connected(rig)
    rig.channels = (rig.chat, channel)
    return await rig.start(), channel


async def test_a_silent_channel_is_noticed_within_a_minute_and_started_again(rigs: Rigs) -> None:
    rig, channel = await connected(rigs)
    for _ in range(5):
        await rig.advance(50)
        assert channel.host is not None
        channel.host.alive()
    assert channel.runs == [0], "as long as it gives signs of life it is left alone"
    quiet = rig.clock.monotonic()
    await rig.advance(59.9)
    assert everything_ok(rig)
    await rig.advance(0.2)
    assert health(rig, "channel memory.second") == (False, str(ChannelSilent(seconds=60)))
    [failed] = rig.journal.of(Logged.CHANNEL_FAILED)
    assert failed["account"] == "second"
    await rig.ask("hello")
    assert rig.chat.texts() == ["re: hello"], "nobody else is concerned"
    await rig.advance(1)
    assert channel.runs[1:] == pytest.approx([quiet + 61])
    assert health(rig, "channel memory.second") == (True, "")
    await rig.ask("hello", channel=channel, sender="2")
    assert channel.texts("2") == ["re: hello"]


async def test_a_channel_without_a_connection_is_never_silent(rigs: Rigs) -> None:
    rig, channel = await connected(rigs)
    await rig.advance(600)
    assert everything_ok(rig) is (health(rig, "channel memory.second")[0])
    assert health(rig, "channel memory.main") == (True, "")


async def test_trouble_is_told_and_ends_with_the_next_sign_of_life(rigs: Rigs) -> None:
    rig, channel = await connected(rigs)
    assert channel.host is not None
    before = len(rig.journal.of(Logged.CHANNEL_CONNECTED))
    assert before == 3, "each account says once that it is connected: both chats and the API"
    channel.host.trouble("somebody else polls with this token")
    assert health(rig, "channel memory.second") == (False, "somebody else polls with this token")
    channel.host.trouble("somebody else polls with this token")
    channel.host.trouble("the server says no")
    assert health(rig, "channel memory.second") == (False, "the server says no")
    assert len(rig.journal.of(Logged.CHANNEL_TROUBLE)) == 1, "said when it begins, not with every poll"
    assert channel.runs == [0], "it heals by itself"
    for _ in range(3):
        channel.host.alive()
    assert health(rig, "channel memory.second") == (True, "")
    assert len(rig.journal.of(Logged.CHANNEL_CONNECTED)) == before + 1


async def test_trouble_is_no_sign_of_life(rigs: Rigs) -> None:
    rig, channel = await connected(rigs)
    assert channel.host is not None
    for _ in range(3):
        await rig.advance(25)
        channel.host.trouble("not now")
    assert len(channel.runs) == 2, "a channel that only complains is started again"


async def test_all_channels_fall_and_the_daemon_stands(rigs: Rigs) -> None:
    class Broken(Chat):
        async def run(self, host: Host) -> None:
            raise RuntimeError("cannot even start")

    rig = rigs(memory={"second": {"dm": "open"}, "third": {"dm": "open"}})
    broken = [Broken(rig.clock, account) for account in ("second", "third")]
    await rig.start()
    await rig.stop()
    for one in broken:
        one.started.set()  # or the rig would wait for it
    rig.channels = (rig.chat, *broken)
    await rig.start()
    await rig.advance(300)
    assert [health(rig, f"channel memory.{one.account}")[0] for one in broken] == [False, False]
    await rig.ask("hello")
    assert rig.chat.texts() == ["re: hello"]


async def test_a_channel_that_does_not_end_holds_up_neither_its_restart_nor_the_daemon(rigs: Rigs) -> None:
    rig, channel = await connected(rigs)
    channel.stubborn = True
    try:
        await rig.advance(64)
        assert len(channel.runs) == 1, "it has a moment to close what it opened"
        await rig.advance(3)
        assert len(channel.runs) == 2
        await rig.ask("hello", channel=channel, sender="2")
        assert channel.texts("2") == ["re: hello"]
        began = rig.clock.monotonic()
        await rig.stop()
        assert rig.clock.monotonic() - began <= 10
    finally:
        channel.let_go.set()


# -- what a channel may ask of its host --------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True])
async def test_what_an_account_remembers_survives_a_restart_and_is_its_own(rigs: Rigs, hard: bool) -> None:
    rig, channel = await connected(rigs)
    assert channel.host is not None
    assert await channel.host.recall("menu") is None
    await channel.host.remember("menu", "v1")
    await channel.host.remember("menu", "v2")
    await (rig.cut() if hard else rig.stop())
    await rig.start()
    assert await channel.host.recall("menu") == "v2"
    other = ChannelHost(rig.chat, rig.running.intake, rig.running.api.health, lambda: None)
    assert await other.recall("menu") is None


@pytest.mark.req("P05", "P06")
@pytest.mark.parametrize("hard", [False, True])
async def test_how_far_a_room_was_read_is_known_after_a_restart(rigs: Rigs, hard: bool) -> None:
    rig, channel = await connected(rigs)
    assert channel.host is not None
    await rig.ask("hello", channel=channel, sender="2", seen=("r1", "105"))
    await rig.ask("late", channel=channel, sender="2", seen=("r1", "103"))
    await rig.ask("chatter", channel=channel, sender="2", group=True, chat="-9", seen=("r2", "7"))
    await rig.ask("hello", channel=channel, sender="2", external_id="x1", seen=("r1", "104"))
    await (rig.cut() if hard else rig.stop())
    await rig.start()
    assert await channel.host.seen() == {"r1": "105", "r2": "7"}, "also what was refused does not come again"


@pytest.mark.req("P05", "P06")
async def test_what_was_turned_away_was_read_too(rigs: Rigs) -> None:
    rig = rigs(ScriptedAgent([asyncio.Event()]), main={"max_waiting": 1}, memory={"main": {"flood": 4}})
    await rig.start()
    for number in range(6):
        await rig.ask(str(number), seen=("room", str(number)))
    reasons = [one.reason for one in await rig.refusals()]
    assert set(reasons) == {Reason.LANE_FULL, Reason.FLOOD}
    host = ChannelHost(rig.chat, rig.running.intake, rig.running.api.health, lambda: None)
    assert await host.seen() == {"room": "5"}


def test_the_menu_is_offered_to_every_channel() -> None:
    assert ChannelHost.__dataclass_fields__["menu"].default == MENU
