"""A store in trouble: everything waits, nothing is lost, and health is red."""

import asyncio

import pytest

from gateway.agents.protocol import Done, TextDelta
from gateway.logs import Event as Logged
from routing.errors import DiskLow, StoreUnavailable
from store import outbox
from store.database import Database
from store.records import OutboxState, TurnStatus
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.harness import Rig, Rigs, notice

#: Too much for the pages that a full database has left.
BIG = "big " * 50_000
SMALL = "x"


def fill(db: Database) -> None:
    """The file may not grow any more: SQLite says what it says on a full disk."""
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")


def free(db: Database) -> None:
    db.execute("PRAGMA max_page_count = 1000000")


def state(rig: Rig) -> bool:
    health = rig.running.api.health
    return health.ok and health.components["store"].ok


async def test_a_message_waits_until_there_is_room(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(says("ok"))).start()
    await rig.write(fill)
    saying = asyncio.create_task(rig.say(BIG))
    await rig.advance(30)
    assert not saying.done()
    assert not state(rig)
    assert len(rig.journal.of(Logged.STORE_UNAVAILABLE)) == 1, "said once"
    assert agent.seen == []
    await rig.write(free)
    await rig.advance(10)
    await saying
    assert (rig.chat.texts(), len(agent.seen)) == (["ok"], 1)
    assert state(rig)
    assert len(rig.journal.of(Logged.STORE_RECOVERED)) == 1


async def test_the_api_says_so_at_once(rigs: Rigs) -> None:
    rig = await rigs().start()
    session = await rig.running.api.create_session(None, "owner")
    await rig.write(fill)
    with pytest.raises(StoreUnavailable):
        await rig.running.api.prompt(session.public_id, BIG, "1")
    await rig.write(free)
    assert not (await rig.running.api.prompt(session.public_id, BIG, "1")).duplicate


async def test_an_answer_waits_until_there_is_room_and_is_not_lost(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says(BIG)), main={"turn_timeout": 5.0}).start()
    await rig.write(fill)
    await rig.ask(SMALL)
    await rig.advance(40)
    assert not state(rig)
    assert (rig.chat.texts(), (await rig.turns())[0].status) == ([], TurnStatus.PENDING)
    await rig.write(free)
    await rig.advance(10)
    assert rig.chat.texts() == [BIG]
    assert (await rig.turns())[0].status is TurnStatus.COMPLETED
    assert await rig.said() == [("user", SMALL), ("agent", BIG)]
    assert state(rig)


async def test_a_refresh_that_cannot_be_stored_is_left_out(rigs: Rigs) -> None:
    done = asyncio.Event()
    rig = await rigs(ScriptedAgent([TextDelta(BIG), done, TextDelta("end"), Done()])).start()
    await rig.write(fill)
    await rig.ask(SMALL)
    await rig.advance(30)
    assert await rig.said() == [("user", SMALL)]
    await rig.write(free)
    done.set()
    await rig.advance(10)
    assert await rig.said() == [("user", SMALL), ("agent", f"{BIG}end")]
    assert rig.chat.texts() == [f"{BIG}end"]


async def test_a_stop_while_the_store_is_in_trouble_loses_nothing(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says(BIG), says("second try")), gateway={"drain_seconds": 3.0}).start()
    await rig.write(fill)
    await rig.ask(SMALL)
    await rig.stop()
    await rig.start()
    assert rig.chat.texts() == ["second try"]
    assert (await rig.turns())[0].status is TurnStatus.COMPLETED


async def test_with_little_disk_nothing_is_taken_but_what_was_goes_out(rigs: Rigs) -> None:
    rig = rigs(agent := ScriptedAgent(), gateway={"disk_reserve_mb": 1_000_000_000})
    await rig.before(lambda db: outbox.put(db, notice("still here"), OutboxState.READY, 0))
    await rig.start()
    assert rig.chat.texts() == ["still here"]
    saying = asyncio.create_task(rig.say("hello"))
    await rig.advance(60)
    assert not saying.done()
    assert agent.seen == []
    with pytest.raises(DiskLow):
        await rig.running.api.create_session(None, "owner")
    with pytest.raises(DiskLow):
        await rig.running.intake.take(rig.message("hello"))
    health = rig.running.api.health
    assert (health.ok, health.components["disk"].ok) == (False, False)
    assert "MiB" in health.components["disk"].detail
    assert len(rig.journal.of(Logged.DISK_LOW)) == 1
    saying.cancel()
    await rig.stop()
    await rig.start(gateway={"disk_reserve_mb": 0})
    await rig.ask("hello")
    assert rig.chat.texts() == ["still here", "re: hello"]
    assert rig.running.api.health.ok
