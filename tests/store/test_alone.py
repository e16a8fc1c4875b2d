"""Work that no transaction can hold: it has the writer's connection for itself, and nobody else suffers from it."""

import asyncio
import sqlite3
import threading

import pytest

from routing.errors import NoRoom, StoreClosed, StoreUnavailable
from store.database import Store
from tests.store.helpers import PATIENCE, add, held, names, run, submit


async def test_it_runs_outside_of_any_transaction(store: Store) -> None:
    await store.write(add("a"))
    assert not await store.alone(lambda db: db.in_transaction)
    await store.alone(lambda db: db.execute("VACUUM"))
    await store.alone(lambda db: db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
    assert await store.read(names) == ["a"]


async def test_what_was_submitted_with_it_is_told_before_it_ends(store: Store) -> None:
    leave = threading.Event()
    async with held(store):
        [first] = await submit(store, add("a"))
        alone = asyncio.create_task(store.alone(lambda db: leave.wait(PATIENCE)))
        [second] = await submit(store, add("b"))
    await asyncio.wait_for(asyncio.gather(first, second), PATIENCE)
    assert not alone.done()
    leave.set()
    assert await alone
    assert await store.read(names) == ["a", "b"]


async def test_what_it_raises_belongs_to_its_caller(store: Store) -> None:
    def fail(db: sqlite3.Connection) -> None:
        raise NoRoom(needed=1, path="x", free=0)

    with pytest.raises(NoRoom):
        await store.alone(fail)
    with pytest.raises(StoreUnavailable, match="no such table"):
        await store.alone(lambda db: db.execute("SELECT * FROM nowhere"))
    with pytest.raises(RuntimeError, match="StopIteration"):
        await store.alone(lambda db: next(iter(())))
    await store.write(add("a"))
    assert await store.read(names) == ["a"]


async def test_a_transaction_that_it_leaves_open_is_undone(store: Store) -> None:
    await store.alone(run("BEGIN", "INSERT INTO people (public_id) VALUES ('lost')"))
    await store.write(add("a"))
    assert await store.read(names) == ["a"]


async def test_after_the_end_there_is_nobody_to_do_it(store: Store) -> None:
    await store.close()
    with pytest.raises(StoreClosed):
        await store.alone(lambda db: None)


async def test_a_thread_that_dies_in_it_leaves_nobody_waiting(store: Store) -> None:
    def die(db: sqlite3.Connection) -> None:
        raise SystemExit

    async with held(store):
        dying = asyncio.create_task(store.alone(die))
        waiting = asyncio.create_task(store.alone(lambda db: None))
        await asyncio.sleep(0)
    for task in (dying, waiting):
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(task, PATIENCE)
    assert isinstance(await store.died, SystemExit)
