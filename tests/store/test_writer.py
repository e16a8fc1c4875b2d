"""The writer: one commit per batch, one caller's error is nobody else's, and no outcome is ever unknown."""

import asyncio
import gc
import json
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from routing.errors import StoreClosed, StoreUnavailable
from routing.keys import PeerKind, SessionKey
from store import messages, sessions, turns, writer
from store.content import Text
from store.database import NAME, Store, connect, prepare
from store.ids import now
from store.records import NewMessage, Role
from store.turns import Ending, Instruction
from store.writer import Operation, Writer
from tests.store.disk import BIG, Tmpfs, fill_and_free, may_mount, mounted
from tests.store.helpers import (
    PATIENCE,
    add,
    blocking,
    commits,
    held,
    integrity,
    names,
    one_batch,
    raising,
    run,
    submit,
)

KEY = SessionKey("main", "memory", "test", PeerKind.GROUP, "g")

#: Ways for an operation to end the transaction that belongs to the writer.
ENDINGS = {
    "commit": run("COMMIT"),
    "rollback": run("ROLLBACK"),
    "commit, begin and fail": raising(ValueError("no"), run("COMMIT", "BEGIN")),
    "release": run("RELEASE operation"),
}


async def append_one(store: Store) -> None:
    def operation(db: sqlite3.Connection) -> None:
        session = sessions.get_or_create(db, KEY.agent_id, KEY, now())
        messages.append(db, session.id, [NewMessage(role=Role.USER, content=Text("hello"))], now())

    await store.write(operation)


def are(kind: type[Exception], results: list[Any]) -> bool:
    return all(type(result) is kind for result in results)


# Batches


@pytest.mark.req("S001-07")
async def test_what_waits_is_stored_by_one_commit(store: Store) -> None:
    await store.write(add("first"))
    before = commits(store.path)
    await one_batch(store, *(add(str(number)) for number in range(20)))
    assert commits(store.path) == before + 1
    assert await store.read(names) == ["first", *map(str, range(20))]


async def test_one_after_another_is_one_commit_each(store: Store) -> None:
    await store.write(add("first"))
    before = commits(store.path)
    for number in range(5):
        await store.write(add(str(number)))
    assert commits(store.path) == before + 5


async def test_a_long_queue_is_cut_so_that_its_first_caller_is_not_kept_for_its_last(store: Store) -> None:
    await store.write(add("first"))
    before = commits(store.path)
    await one_batch(store, *(add(str(number)) for number in range(600)))
    assert commits(store.path) == before + 3
    assert len(await store.read(names)) == 601


async def test_each_caller_gets_its_own_result(store: Store) -> None:
    def operation(number: int) -> Operation[int]:
        return lambda db: number * number

    assert await one_batch(store, *map(operation, range(10))) == [number * number for number in range(10)]


async def test_a_caller_hears_of_its_write_only_when_others_can_see_it(store: Store) -> None:
    await store.write(add("here"))
    with closing(sqlite3.connect(store.path)) as other:
        assert names(other) == ["here"]


# Errors of one operation


@pytest.mark.parametrize("error", [ValueError("no"), StoreClosed(), KeyError("x")])
async def test_an_operation_that_raises_is_undone_alone(store: Store, error: Exception) -> None:
    results = await one_batch(store, add("a"), raising(error, add("undone")), add("b"))
    assert results == [None, error, None]
    assert await store.read(names) == ["a", "b"]


async def test_a_broken_constraint_is_its_callers_error_alone(store: Store) -> None:
    twice = raising(ValueError("not reached"), add("undone"), add("a"))
    results = await one_batch(store, add("a"), twice, add("b"))
    assert (results[0], type(results[1]), results[2]) == (None, sqlite3.IntegrityError, None)
    assert await store.read(names) == ["a", "b"]


async def test_stop_iteration_reaches_its_caller(store: Store) -> None:
    results = await one_batch(store, add("a"), raising(StopIteration(7), add("undone")), add("b"))
    assert results[::2] == [None, None]
    assert type(results[1]) is RuntimeError
    assert "StopIteration(7)" in str(results[1])
    assert await store.read(names) == ["a", "b"]


# Errors that end the transaction


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
async def test_an_operation_that_ends_the_transaction_fails_its_batch(store: Store, ending: Operation[None]) -> None:
    results = await one_batch(store, run(), ending, add("later"))
    assert are(StoreUnavailable, results)
    assert all(isinstance(result.__cause__, sqlite3.Error) for result in results)
    await store.write(add("next"))
    assert await store.read(names) == ["next"]


async def test_what_an_operation_committed_on_its_own_is_not_stored_twice(store: Store) -> None:
    def count(db: sqlite3.Connection) -> int:
        return int(db.execute("SELECT count(*) FROM refusals").fetchone()[0])

    insert = "INSERT INTO refusals (channel, account, chat, sender, reason, at) VALUES ('', '', '', '', '', 0)"
    assert are(StoreUnavailable, await one_batch(store, run(insert), run("COMMIT"), run(insert)))
    assert await store.read(count) == 1


async def test_an_error_of_the_disk_fails_its_batch_though_the_transaction_is_open(store: Store) -> None:
    """What the others wrote may not be trusted any more, even if SQLite would still commit it."""

    def refused_by_sqlite(db: sqlite3.Connection) -> None:
        db.execute("PRAGMA query_only = ON")
        try:
            add("refused")(db)
        finally:
            db.execute("PRAGMA query_only = OFF")
            assert db.in_transaction

    assert are(StoreUnavailable, await one_batch(store, add("a"), refused_by_sqlite, add("b")))
    await store.write(add("next"))
    assert await store.read(names) == ["next"]


async def test_a_full_database_fails_its_batch_and_nothing_of_it_is_stored(store: Store) -> None:
    def no_more_pages(db: sqlite3.Connection) -> None:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + 1}")

    await store.write(add("before"))
    await store.write(no_more_pages)
    assert are(StoreUnavailable, await one_batch(store, add("small"), add("big", BIG), add("last")))
    assert await store.read(names) == ["before"]
    await store.write(run("PRAGMA max_page_count = 1000000"))
    await store.write(add("after", BIG))
    assert await store.read(names) == ["before", "after"]
    assert await store.read(integrity) == "ok"


async def check_full_disk_by_limit(place: Path, checkout: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.store.disk", str(place / "data")]
    done = subprocess.run(command, cwd=checkout, stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
    return dict(json.loads(done.stdout))


async def check_full_disk_by_tmpfs(place: Path, checkout: Path) -> dict[str, Any]:
    with mounted(place / "small") as small:
        store = await Store.open(small / "data")
        try:
            return vars(await fill_and_free(store, Tmpfs(small)))
        finally:
            await store.close()


@pytest.mark.parametrize("check", [check_full_disk_by_limit, *([check_full_disk_by_tmpfs] if may_mount() else [])])
async def test_a_full_disk_fails_its_batch_and_nothing_of_it_is_stored(
    tmp_path: Path, checkout: Path, check: Callable[[Path, Path], Any]
) -> None:
    assert await check(tmp_path, checkout) == {
        "errors": ["StoreUnavailable"] * 3,
        "stored_when_full": ["before"],
        "stored_at_last": ["before", "after"],
        "integrity": "ok",
    }


# Cancelled callers


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_cancelled_caller_waits_for_the_outcome(store: Store, times: int) -> None:
    async with held(store):
        [task] = await submit(store, add("kept"))
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not task.done()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await store.read(names) == ["kept"]


async def test_a_cancelled_caller_of_a_failed_operation_is_cancelled_quietly(store: Store) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with held(store):
        [task] = await submit(store, raising(ValueError("no"), add("undone")))
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    await store.ping()  # the loop goes on and lets go of the task
    gc.collect()
    assert await store.read(names) == []
    assert complaints == []


async def test_a_caller_cancelled_when_its_write_is_already_stored_is_cancelled() -> None:
    """The outcome lies ready, but the caller has not run since: the cancellation must not get lost."""
    complaints: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    for error in (None, ValueError("nobody hears of this")):
        job = writer._Job(None, loop.create_future(), error=error)
        task = asyncio.create_task(writer._settled(job))
        await asyncio.sleep(0)
        writer._resolve([job])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    del job, task
    await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


async def test_a_caller_cancelled_while_its_outcome_is_on_its_way_hurts_nobody_else(store: Store) -> None:
    entered, leave, stored, reported = (threading.Event() for _ in range(4))

    def hold(db: sqlite3.Connection) -> None:
        entered.set()
        assert leave.wait(PATIENCE)

    holding = asyncio.create_task(store.write(hold))
    await blocking(entered.wait)
    cancelled, neighbour = await submit(store, add("a"), lambda db: stored.set())
    # The loop stands still here: the outcome of the batch is handed over before anybody can wake up.
    leave.set()
    assert stored.wait(PATIENCE)
    store._writer._submit(lambda db: reported.set())
    assert reported.wait(PATIENCE)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await asyncio.wait_for(asyncio.gather(holding, neighbour), PATIENCE)
    assert await store.read(names) == ["a"]


async def test_a_deadline_is_kept_by_a_caller_that_waited(store: Store) -> None:
    async with held(store):

        async def impatient() -> None:
            async with asyncio.timeout(0):
                await store.write(add("kept"))

        task = asyncio.create_task(impatient())
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        await task
    assert await store.read(names) == ["kept"]


# The end of the thread


@pytest.mark.parametrize("cause", [SystemExit(3), KeyboardInterrupt()])
async def test_when_the_thread_dies_everybody_learns_of_it(store: Store, cause: BaseException) -> None:
    await store.write(add("before"))
    async with held(store):
        waiting = await submit(store, add("a"), raising(cause), *(add(str(number)) for number in range(300)))
        pinging = asyncio.create_task(store.ping())
        await asyncio.sleep(0)
    results = await asyncio.gather(*waiting, pinging, return_exceptions=True)
    assert are(StoreClosed, results)
    assert await asyncio.wait_for(store.died, PATIENCE) is cause
    with pytest.raises(StoreClosed):
        await store.write(add("later"))
    with pytest.raises(StoreClosed):
        await store.ping()
    await asyncio.wait_for(store.close(), PATIENCE)
    with closing(sqlite3.connect(store.path)) as db:
        assert names(db) == ["before"]


async def test_a_writer_that_cannot_connect_says_so(data_dir: Path) -> None:
    writer = Writer(lambda: connect(data_dir / NAME))
    assert isinstance(await asyncio.wait_for(writer.died, PATIENCE), FileNotFoundError)
    with pytest.raises(StoreClosed):
        await writer.write(add("a"))
    await writer.close()


async def test_a_living_thread_is_not_reported_dead(store: Store) -> None:
    await store.write(add("a"))
    await store.close()
    assert not store.died.done()


def test_a_loop_that_is_gone_ends_the_thread_without_noise(data_dir: Path) -> None:
    path = prepare(data_dir)
    entered, leave = threading.Event(), threading.Event()

    def operation(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE kept (x)")
        entered.set()
        assert leave.wait(PATIENCE)

    async def leave_early() -> Writer:
        writer = Writer(lambda: connect(path))
        writer._submit(operation)
        await blocking(entered.wait)
        return writer

    writer = asyncio.run(leave_early())
    leave.set()
    writer._thread.join(PATIENCE)
    assert not writer._thread.is_alive()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("kept",)]


# Closing and pinging


async def test_close_finishes_what_was_submitted(store: Store) -> None:
    async with held(store):
        tasks = await submit(store, *(add(str(number)) for number in range(600)))
        closing_ = asyncio.create_task(store.close())
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, closing_)
    with closing(sqlite3.connect(store.path)) as db:
        assert names(db) == [str(number) for number in range(600)]


async def test_close_waits_beside_the_loop(store: Store) -> None:
    async with held(store):
        closing_ = asyncio.create_task(store._writer.close())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not closing_.done()
    await closing_


async def test_after_close_nothing_is_taken(store: Store) -> None:
    await store.close()
    with pytest.raises(StoreClosed):
        await store.write(add("a"))
    with pytest.raises(StoreClosed):
        await store.ping()
    with pytest.raises(StoreClosed):
        await store.read(names)


async def test_close_again_is_nothing(store: Store) -> None:
    await store.close()
    await store.close()


async def test_ping_answers_and_commits_nothing(store: Store) -> None:
    await store.write(add("a"))
    before = commits(store.path)
    await store.ping()
    async with held(store):
        pings = [asyncio.create_task(store.ping()) for _ in range(3)]
        await asyncio.sleep(0)
        assert not any(ping.done() for ping in pings)
    await asyncio.gather(*pings)
    assert commits(store.path) == before


async def test_ping_answers_although_the_disk_does_not(store: Store) -> None:
    async with held(store):
        [failing] = await submit(store, run("ROLLBACK"))
        ping = asyncio.create_task(store.ping())
        await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await failing
    await ping


# Many callers


@pytest.mark.req("S001-07")
async def test_200_appends_at_once_lose_nothing(store: Store) -> None:
    await asyncio.gather(*(append_one(store) for _ in range(200)))
    session = await store.read(lambda db: sessions.for_agent(db, KEY.agent_id, KEY))
    rows = await store.read(lambda db: messages.every(db, session.id))
    assert (session.message_count, session.last_seq) == (200, 200)
    assert [row.seq for row in rows] == list(range(1, 201))
    assert len({row.public_id for row in rows}) == 200
    assert all(old.timestamp < new.timestamp for old, new in zip(rows, rows[1:], strict=False))


@pytest.mark.req("S004-85")
async def test_50_turns_at_once_are_numbered_without_gap(store: Store) -> None:
    def operation(db: sqlite3.Connection) -> None:
        session = sessions.get_or_create(db, KEY.agent_id, KEY, now())
        asked = NewMessage(role=Role.USER, content=Text("?"))
        turn = turns.add(db, session.id, Instruction(messages=(asked,), summary="?"), now())
        turns.complete(db, turn.id, None, None, Ending(), now())

    await asyncio.gather(*(store.write(operation) for _ in range(50)))
    session = await store.read(lambda db: sessions.for_agent(db, KEY.agent_id, KEY))
    assert [turn.seq for turn in await store.read(lambda db: turns.of_session(db, session.id))] == list(range(1, 51))


@pytest.mark.req("S001-07")
async def test_a_write_that_takes_long_does_not_stop_the_loop(store: Store) -> None:
    async with held(store):
        [waiting] = await submit(store, add("waits"))
        turns_of_the_loop = 0
        while turns_of_the_loop < 1000:
            await asyncio.sleep(0)
            turns_of_the_loop += 1
        assert await asyncio.to_thread(lambda: "another task") == "another task"
        assert not waiting.done()
    await waiting


# Sudden death


@pytest.mark.req("S000-01", "S001-34", "P26")
def test_what_was_acknowledged_survives_kill_9(data_dir: Path, checkout: Path) -> None:
    acknowledged: set[str] = set()
    for round_ in range(10):
        command = [sys.executable, "-m", "tests.store.hammer", str(data_dir)]
        with subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            heard = [child.stdout.readline().strip() for _ in range(10 + 23 * round_)]
            child.kill()
            heard += child.stdout.read().split()
        assert child.returncode == -signal.SIGKILL
        acknowledged.update(heard)
        with closing(sqlite3.connect(data_dir / NAME)) as db:
            stored = {public_id for (public_id,) in db.execute("SELECT public_id FROM messages").fetchall()}
            counted = db.execute("SELECT message_count, last_seq FROM sessions").fetchone()
            assert integrity(db) == "ok"
        assert acknowledged <= stored
        assert counted == (len(stored), len(stored))
