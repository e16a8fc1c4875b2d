"""A read sees one moment: a commit between two of its queries does not show."""

import asyncio
import sqlite3
import threading

import pytest

from store.database import Store
from tests.store.helpers import PATIENCE, add, names


@pytest.mark.req("S001-07")
async def test_a_commit_does_not_fall_into_a_read(store: Store) -> None:
    await store.write(add("before"))
    looked, written = threading.Event(), threading.Event()

    def look_twice(db: sqlite3.Connection) -> tuple[list[str], list[str]]:
        first = names(db)
        looked.set()
        assert written.wait(PATIENCE)
        return first, names(db)

    reading = asyncio.create_task(store.read(look_twice))
    await asyncio.to_thread(looked.wait, PATIENCE)
    await store.write(add("meanwhile"))
    written.set()
    assert await reading == (["before"], ["before"])
    assert await store.read(names) == ["before", "meanwhile"]


async def test_an_error_leaves_no_snapshot_behind(store: Store) -> None:
    for number in range(5):
        with pytest.raises(ZeroDivisionError):
            await store.read(lambda db: (names(db), 1 / 0))
        await store.write(add(str(number)))
        assert len(await store.read(names)) == number + 1
