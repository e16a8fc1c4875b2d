"""Operations on a daemon that works: sessions removed and moved under it, people forgotten, the file copied."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway import supervision
from gateway.agents.protocol import TextDelta, TurnContext
from gateway.logs import Event
from routing.errors import DiskLow, NoRoom, OwnerProtected, UnknownAgent, UnknownPerson, UnknownSession
from routing.keys import SessionKey
from store import backup, exchange, inbox, messages, outbox, people, search, sessions, turns
from store.database import NAME, Database
from store.exchange_reader import Reader
from store.lock import InstanceLock
from store.moving import Obstacle
from store.records import OutboxState, Session, Status, TurnStatus
from tests.fakes.agents import ScriptedAgent, Step, says
from tests.fakes.clock import FakeClock
from tests.fakes.harness import Rig, Rigs, notice
from tests.store.helpers import integrity

DAY = 86_400.0
CANARY = "zq7CanaryWord"
USER = "770077007"


def answer(turn: TurnContext) -> Sequence[Step]:
    """Repeats what was asked in private, and not in front of others."""
    return says(f"You said {turn.text}" if "private" in turn.text else "Noted.")


async def session_of(rig: Rig, key: str) -> Session:
    return await rig.live(SessionKey.parse(key))


def traces(rig: Rig, *words: str) -> dict[str, int]:
    """How often each word stands in the files, byte by byte; in any case, as the index folds it."""
    content = b"".join(
        path.read_bytes().lower() for path in (rig.data_dir / NAME, rig.data_dir / f"{NAME}-wal") if path.exists()
    )
    assert content
    return {word: content.count(word.lower().encode()) for word in words}


# Removing


@pytest.mark.req("S001-06", "S001-69")
async def test_a_session_is_removed_with_the_turn_that_runs_in_it(rigs: Rigs) -> None:
    wait = asyncio.Event()
    agent = ScriptedAgent([TextDelta("half"), wait], answer)
    rig = await rigs(agent).start()
    await rig.ask("first")
    session = await rig.session()
    await rig.say("second")
    removed = await rig.running.api.operations.remove(session.public_id)
    await rig.settled()
    assert removed.id == session.id
    assert agent.cancelled == 1
    with pytest.raises(UnknownSession):
        await rig.running.api.session(session.public_id)
    # What waited on the key was accepted, so it is answered, in a session of its own.
    assert await rig.said() == [("user", "second"), ("agent", "Noted.")]
    assert rig.chat.texts() == ["Noted."]
    assert rig.journal.of(Event.SESSION_REMOVED)[0]["session"] == session.public_id
    with pytest.raises(UnknownSession):
        await rig.running.api.operations.remove(session.public_id)


# Moving


@pytest.mark.req("S001-62")
async def test_a_session_is_moved_when_nothing_runs_in_it(rigs: Rigs) -> None:
    wait = asyncio.Event()
    old, new = ScriptedAgent(says("from old"), [wait]), ScriptedAgent(says("from new"))
    rig = await rigs(agents={"old": old, "new": new}, gateway={"default_agent": "old"}).start()
    await rig.ask("one")
    session = await rig.session()
    move = rig.running.api.operations.move
    [planned] = await move("new", "old", None, dry_run=True)
    assert (planned.obstacle, str(planned.new)) == (None, str(session.key).replace("old:", "new:"))
    assert (await rig.session()).key == session.key
    await rig.ask("two")
    [running] = await move("new", None, [session.public_id], dry_run=False)
    assert running.obstacle is Obstacle.RUNNING
    await rig.running.api.stop(session.public_id)
    await rig.settled()
    [moved] = await move("new", None, [session.public_id], dry_run=False)
    assert moved.obstacle is None
    assert (await rig.session()).key.agent_id == "new"


@pytest.mark.req("S001-62")
async def test_messages_that_wait_for_a_slot_follow_their_session(rigs: Rigs) -> None:
    """The old agent has one slot, and it is taken: what waits for it moves, and the new agent answers."""
    wait = asyncio.Event()
    old, new = ScriptedAgent(says("hello"), [wait]), ScriptedAgent(says("from new"))
    rig = await rigs(
        agents={"old": old, "new": new},
        gateway={"default_agent": "old"},
        agent_tables={"old": {"kind": "builtin", "max_turns": 1}, "new": {"kind": "builtin"}},
    ).start()
    await rig.ask("mine", sender="1")
    session = await rig.session()
    await rig.ask("busy", sender="2")
    await rig.ask("waits", sender="1")
    assert len(old.seen) == 2
    [move] = await rig.running.api.operations.move("new", None, [session.public_id], dry_run=False)
    assert move.obstacle is None
    waiting = await rig.read(inbox.all_waiting)
    assert [(item.text, item.key.agent_id) for item in waiting] == [("waits", "new")]
    wait.set()
    await rig.settled()
    assert [turn.text for turn in new.seen] == ["waits"]
    assert rig.chat.texts("1") == ["hello", "from new"]
    assert rig.journal.of(Event.SESSION_MOVED)[0]["session"] == session.public_id


async def test_an_agent_that_is_not_there_gets_nothing(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("hello")
    with pytest.raises(UnknownAgent):
        await rig.running.api.operations.move("nobody", "main", None, dry_run=True)


async def test_many_sessions_are_moved_in_batches(rigs: Rigs) -> None:
    rig = await rigs(agents={"main": ScriptedAgent(), "other": ScriptedAgent()}).start()

    def fill(db: Database) -> None:
        for number in range(250):
            sessions.create(db, SessionKey.parse(f"main:memory:main:group:{number}"), number + 1)

    await rig.write(fill)
    moves = await rig.running.api.operations.move("other", "main", None, dry_run=False)
    assert len(moves) == 250
    assert {one.key.agent_id for one in await rig.sessions()} == {"other"}


# Export and import


async def test_a_session_goes_to_another_daemon_and_lives_on_there(rigs: Rigs) -> None:
    here, there = await rigs(ScriptedAgent(answer)).start(), await rigs(ScriptedAgent(says("welcome back"))).start()
    await here.ask("hello", group=True)
    session = await here.session()
    lines = await here.running.api.operations.export(session.public_id)
    reader = Reader()
    for line in lines:
        reader.feed(line)
    package = reader.finish()
    taken = await there.running.api.operations.take_in(package, new_ids=False)
    assert await there.running.api.operations.export(session.public_id) == lines
    assert (taken.status, taken.key) == (Status.ACTIVE, session.key)
    await there.ask("again", group=True)
    assert await there.said() == [
        ("user", "hello"),
        ("agent", "Noted."),
        ("user", "again"),
        ("agent", "welcome back"),
    ]
    assert there.journal.of(Event.SESSION_IMPORTED)[0]["session"] == session.public_id


async def test_a_running_turn_can_be_exported_and_does_not_run_where_it_is_imported(rigs: Rigs) -> None:
    here, agent = await rigs(ScriptedAgent([TextDelta("half"), asyncio.Event()])).start(), ScriptedAgent()
    there = await rigs(agent).start()
    await here.ask("hello")
    session = await here.session()
    lines = await here.running.api.operations.export(session.public_id)
    assert json.loads(lines[3])["status"] == "pending"
    reader = Reader()
    for line in lines:
        reader.feed(line)
    await there.running.api.operations.take_in(reader.finish(), new_ids=False)
    await there.stop()
    await there.start()
    assert agent.seen == []
    [turn] = await there.turns()
    assert (turn.status, turn.errors) == (TurnStatus.FAILED, (exchange.INTERRUPTED,))


async def test_nothing_is_imported_onto_a_full_disk(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("hello")
    lines = await rig.running.api.operations.export((await rig.session()).public_id)
    reader = Reader()
    for line in lines:
        reader.feed(line)
    full = await rigs(gateway={"disk_reserve_mb": 1_000_000_000}).start()
    with pytest.raises(DiskLow):
        await full.running.api.operations.take_in(reader.finish(), new_ids=False)


# Forgetting


async def chat_about_everything(rig: Rig) -> None:
    """One person writes in all the ways there are, among others."""
    await rig.ask(f"{CANARY} private", sender=USER)
    await rig.ask(f"{CANARY} in the group", sender=USER, group=True)
    await rig.ask("somebody else", sender="2", group=True)
    await rig.ask("my own", sender="2")
    await rig.ask("/status", sender=USER)
    await rig.ask(f"{CANARY} refused", sender=USER, chat="-999", group=True)
    await rig.write(lambda db: outbox.park(db, outbox.put(db, notice("x", USER), OutboxState.READY, 1), CANARY, 1))


async def test_forgetting_leaves_no_trace_in_the_files(rigs: Rigs) -> None:
    """Byte by byte: not in rows, not in free pages, not in the index, not in the log."""
    rig = await rigs(ScriptedAgent(answer), memory={"main": {"streaming": True}}).start()
    await chat_about_everything(rig)
    assert all(traces(rig, CANARY, CANARY[4:], USER).values()), "or the test would see nothing"
    others = [("user", "somebody else"), ("agent", "Noted."), ("user", "my own")]
    result = await rig.running.api.operations.forget(f"memory:{USER}", really=False)
    assert traces(rig, CANARY, CANARY[4:], USER) == {CANARY: 0, CANARY[4:]: 0, USER: 0}
    assert (rig.data_dir / f"{NAME}-wal").stat().st_size == 0
    done = result.done
    assert (result.scrubbed, result.copies, result.configured) == (True, (), False)
    assert (done.sessions, done.messages, done.turns, done.refusals, done.identities) == (1, 3, 1, 1, 1)
    assert done.inbox == 3
    left = await rig.sessions()
    assert [said for one in left for said in await rig.said(one)][2:5] == others
    assert await rig.read(integrity) == "ok"
    found = await rig.read(lambda db: search.find(db, "somebody"))
    assert [hit.snippet for hit in found.hits] == ["somebody else"]
    await rig.ask("still here?", sender="2")
    assert rig.chat.texts("2")[-1] == "Noted."
    assert rig.journal.of(Event.PERSON_FORGOTTEN) == [{"person": done.person, "sessions": 1, "messages": 3}]


async def test_a_turn_of_who_is_forgotten_is_stopped_and_nothing_more_comes_of_it(rigs: Rigs) -> None:
    wait = asyncio.Event()
    agent = ScriptedAgent([TextDelta(f"{CANARY} half"), wait], [TextDelta("half"), wait], says("for the other"))
    rig = await rigs(agent, memory={"main": {"streaming": True}}).start()
    await rig.ask(f"{CANARY} private", sender=USER)
    await rig.ask(f"{CANARY} group", sender=USER, group=True)
    await rig.say(f"{CANARY} waits", sender=USER)
    await rig.advance(3)
    await rig.say("other", sender="2", group=True)
    assert len(agent.seen) == 2
    await rig.running.api.operations.forget(f"memory:{USER}", really=False)
    await rig.settled()
    assert agent.cancelled == 2
    assert len(agent.seen) == 3, "the other one's turn came next"
    wait.set()
    await rig.advance(10)
    session = await rig.session()
    texts = [text for _, text in await rig.said(session)]
    assert texts[0] == "[removed]"
    assert texts[-2:] == ["other", "for the other"]
    assert [row.text for row in await rig.outbox()] == ["for the other"]
    await rig.stop()
    assert traces(rig, CANARY, USER) == {CANARY: 0, USER: 0}


async def test_the_owner_is_forgotten_only_when_it_is_really_meant(rigs: Rigs) -> None:
    owner = {"ada": {"telegram": 5, "owner": True}}
    rig = await rigs(people=owner).start()
    operations = rig.running.api.operations
    await rig.running.api.create_session(None, "owner")
    for name in ("ada", "web:owner", "telegram:5"):
        with pytest.raises(OwnerProtected):
            await operations.forget(name, really=False)
    result = await operations.forget("ada", really=True)
    assert (result.done.sessions, result.configured) == (1, True)
    # There is an owner again, as the configuration says, without a past.
    again = await rig.read(people.owner)
    assert again is not None
    assert (again.config_name, again.public_id == result.done.person) == ("ada", False)
    with pytest.raises(UnknownPerson):
        await operations.forget("nobody", really=True)


async def test_copies_beside_the_database_are_named(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("hello", sender=USER)
    (rig.data_dir / f"{NAME}.before-m002_search").write_text("old")
    result = await rig.running.api.operations.forget(f"memory:{USER}", really=False)
    assert result.copies == (f"{NAME}.before-m002_search",)


async def test_forgetting_again_by_id_writes_the_file_anew(rigs: Rigs) -> None:
    """For when the first time the file could not be written."""
    rig = await rigs().start()
    await rig.ask(f"{CANARY} private", sender=USER)
    person = await rig.read(lambda db: people.find(db, "memory", USER))
    assert person is not None
    await rig.running.api.operations.forget(person.public_id, really=False)
    result = await rig.running.api.operations.forget(person.public_id, really=False)
    assert result.scrubbed
    assert traces(rig, CANARY) == {CANARY: 0}


# Backup and restore


async def test_a_restore_drill(rigs: Rigs, tmp_path: Path) -> None:
    """Backup while people write; restored elsewhere the daemon has the same history and sends nothing by itself."""
    rig = await rigs(ScriptedAgent(answer)).start()
    await rig.ask("before")
    rig.chat.down = True
    await rig.ask("not delivered yet", sender="2")
    copy = tmp_path / "copy.db"
    writing = asyncio.create_task(_write(rig))
    size = await rig.running.api.operations.backup(copy)
    await writing
    await rig.settled()
    assert size == copy.stat().st_size
    await rig.stop()

    elsewhere = rigs(ScriptedAgent(answer))
    elsewhere.data_dir.mkdir(parents=True)
    with InstanceLock(elsewhere.data_dir):
        restored = backup.restore(elsewhere.data_dir, copy)
    assert restored.parked >= 1
    had, sound = await elsewhere.before(lambda db: (histories(db), integrity(db)))
    assert sound == "ok"
    await rig.start()
    whole = await rig.read(histories)
    assert had.keys() <= whole.keys()
    assert all(whole[session][: len(said)] == said for session, said in had.items())
    assert any(said for said in had.values())
    await elsewhere.start()
    assert elsewhere.chat.texts("2") == []
    parked = await elsewhere.running.api.parked()
    assert {row.error for row in parked} == {backup.FROM_BACKUP}
    [delivery] = [row for row in parked if row.address.chat == "2"]
    await elsewhere.running.api.resend(delivery.id)
    await elsewhere.settled()
    assert [text.partition("\n")[0] for text in elsewhere.chat.texts("2")] == ["Noted."]


def histories(db: Database) -> dict[str, list[tuple[str, str, int]]]:
    """What was said in every session, with ids and times."""
    rows = db.execute("SELECT id, public_id FROM sessions").fetchall()
    return {
        public_id: [(row.public_id, row.raw_content, row.timestamp) for row in messages.every(db, number)]
        for number, public_id in rows
    }


async def _write(rig: Rig) -> None:
    for number in range(20):
        await rig.say(f"during {number}", sender="3")


async def test_a_backup_leaves_the_reserve_alone(rigs: Rigs, tmp_path: Path) -> None:
    rig = await rigs(gateway={"disk_reserve_mb": 1_000_000_000}).start()
    with pytest.raises(NoRoom):
        await rig.running.api.operations.backup(tmp_path / "copy.db")


# By themselves


async def tidy(rig: Rig, days: float) -> None:
    """The sweep as it will be after so many days."""
    later = rig.clock.now() + int(days * DAY * 1_000_000)
    await supervision.tidy(rig.running.intake.persist, later, 60, rig.config().retention)


async def test_retention_removes_what_has_had_its_time(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(answer), retention={"messages_days": 10, "sessions_days": 20}).start()
    await rig.ask("old talk", sender="1")
    await rig.ask("lives on", sender="2")
    old, _ = await rig.sessions()
    await rig.ask("/new", sender="1")
    await tidy(rig, 9)
    assert len(await rig.said(old)) == 2
    await tidy(rig, 11)
    assert await rig.said(old) == []
    kept = await rig.running.api.session(old.public_id)
    assert (kept.message_count, kept.turn_count, kept.status) == (0, 0, Status.COMPLETED)
    await tidy(rig, 21)
    [alive] = await rig.sessions()
    assert [text for _, text in await rig.said(alive)] == ["lives on", "Noted."]
    gone = rig.journal.of(Event.RETENTION)
    assert [(one["sessions"], one["messages"]) for one in gone] == [(0, 2), (1, 0)]


async def test_without_retention_everything_stays(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(answer)).start()
    await rig.ask("old talk")
    await rig.ask("/new")
    await tidy(rig, 4000)
    assert await rig.said() == [("user", "old talk"), ("agent", "Noted.")]


async def test_one_sweep_removes_so_much_and_the_next_goes_on(rigs: Rigs) -> None:
    rig = await rigs(retention={"sessions_days": 1}).start()

    def fill(db: Database) -> None:
        for number in range(60):
            session = sessions.create(db, SessionKey.parse(f"main:memory:main:group:{number}"), 1)
            sessions.end(db, session, Status.COMPLETED, "x", 2)

    await rig.write(fill)
    await tidy(rig, 2)
    assert len(await rig.sessions()) == 10
    await tidy(rig, 2)
    assert await rig.sessions() == []


async def test_boxes_are_kept_as_long_as_configured(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(answer), retention={"inbox_days": 2, "outbox_days": 0}).start()
    await rig.ask("hello")

    def rows(db: Database) -> list[int]:
        return [db.execute(f"SELECT count(*) FROM {box}").fetchone()[0] for box in ("inbox", "outbox")]

    await tidy(rig, 1)
    assert await rig.read(rows) == [1, 1]
    await tidy(rig, 100)
    assert await rig.read(rows) == [0, 1]


async def test_the_index_is_made_anew_beside_the_work(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(answer), search={"enabled": False}).start()
    await rig.ask("apple")
    assert rig.journal.of(Event.SEARCH_OFF)
    await rig.stop()
    await rig.start(search={"enabled": True})
    found = await rig.running.api.operations.search("apple", None, None, 10)
    assert ([hit.snippet for hit in found.hits], found.complete) == (["apple"], True)
    assert (len(rig.journal.of(Event.SEARCH_INDEXING)), len(rig.journal.of(Event.SEARCH_INDEXED))) == (1, 1)
    await rig.stop()
    await rig.start()
    assert len(rig.journal.of(Event.SEARCH_INDEXING)) == 1, "only when it has to be"


async def test_status_knows_how_long(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()])).start()
    assert isinstance(rig.clock, FakeClock)
    await rig.ask("hello")
    await rig.say("waits")
    await rig.advance(42)
    status = await rig.running.api.operations.status()
    assert status.uptime == 42
    assert (status.counts.running, status.counts.waiting) == (1, 1)
    assert (status.url, status.data_dir) == (rig.running.url, rig.data_dir)
    assert status.components["writer"].ok
    assert await rig.read(turns.pending)
