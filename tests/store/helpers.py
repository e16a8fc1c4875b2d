"""What the store's tests share: small operations, a writer that is held, and looks at files from outside."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from store import migrations
from store.database import Store
from store.writer import Operation

#: Far more than anything here takes; it only keeps a broken test from hanging.
PATIENCE = 30.0


def in_memory() -> sqlite3.Connection:
    """A database of today's schema, in memory."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    migrations.migrate(db, Path(":memory:"))
    return db


def add(name: str, size: int = 0) -> Operation[None]:
    """Store a row that is recognised by its name."""

    def operation(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO people (public_id, name) VALUES (?, ?)", (name, "x" * size))

    return operation


def run(*statements: str) -> Operation[None]:
    def operation(db: sqlite3.Connection) -> None:
        for statement in statements:
            db.execute(statement)

    return operation


def raising(error: BaseException, *first: Operation[None]) -> Operation[None]:
    """Do something, then fail."""

    def operation(db: sqlite3.Connection) -> None:
        for step in first:
            step(db)
        raise error

    return operation


def names(db: sqlite3.Connection) -> list[str]:
    """The rows that `add` made, oldest first."""
    return [name for (name,) in db.execute("SELECT public_id FROM people ORDER BY id").fetchall()]


def integrity(db: sqlite3.Connection) -> str:
    return str(db.execute("PRAGMA integrity_check").fetchone()[0])


def schema(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Everything the file defines, as (type, name, SQL); SQLite's own tables left out."""
    rows = db.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    return {(kind, name, " ".join(sql.split())) for kind, name, sql in rows.fetchall()}


def commits(path: Path) -> int:
    """How many transactions the log holds: one frame of each carries the size of the database after it."""
    log = path.with_name(f"{path.name}-wal").read_bytes()
    page = int.from_bytes(log[8:12], "big")
    salt = log[16:24]
    frames = (log[at : at + 24] for at in range(32, len(log), 24 + page))
    return sum(frame[8:16] == salt and any(frame[4:8]) for frame in frames)


@contextlib.asynccontextmanager
async def held(store: Store) -> AsyncIterator[None]:
    """Keep the writer's thread inside an operation: what is submitted meanwhile becomes its next batch."""
    entered, leave = threading.Event(), threading.Event()

    def operation(db: sqlite3.Connection) -> None:
        entered.set()
        assert leave.wait(PATIENCE)

    task = asyncio.create_task(store.write(operation))
    assert await asyncio.to_thread(entered.wait, PATIENCE)
    try:
        yield
    finally:
        leave.set()
        await task


async def submit(store: Store, *operations: Operation[Any]) -> list[asyncio.Task[Any]]:
    """Callers that have handed in their operation and wait."""
    tasks = [asyncio.create_task(store.write(operation)) for operation in operations]
    await asyncio.sleep(0)
    return tasks


async def one_batch(store: Store, *operations: Operation[Any]) -> list[Any]:
    """Run the operations in one batch; results and errors in their order."""
    async with held(store):
        tasks = await submit(store, *operations)
    return await asyncio.gather(*tasks, return_exceptions=True)


async def blocking(function: Callable[[], object]) -> None:
    """Wait for something of another thread, with patience."""
    await asyncio.wait_for(asyncio.to_thread(function), PATIENCE)
