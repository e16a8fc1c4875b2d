"""Store: opens the file, owns the writer and the readers, closes both."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from routing.errors import DatabaseDamaged, DataDirUnusable, StoreClosed
from store import migrations
from store.writer import Operation, Writer

T = TypeVar("T")
#: What store functions take; others name it without importing SQL.
Database = sqlite3.Connection

NAME = "trunkline.db"
_READERS = 2
_BUSY_SECONDS = 5.0


class Store:
    """`write(fn)` runs `fn(db)` durably on the writer thread; `read(fn)` runs it on a read-only snapshot."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self.path = path
        self._writer = writer
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._closed = False
        self._readers = ThreadPoolExecutor(_READERS, "store-reader")

    @classmethod
    async def open(cls, data_dir: Path, *, searchable: bool | None = None) -> Store:
        """Create or migrate the database, then start the threads. The full-text index is on, off, or as it was."""
        path = prepare(data_dir)
        await asyncio.to_thread(on_file, path, lambda db, path: migrations.migrate(db, path, searchable=searchable))
        return cls(path, Writer(lambda: connect(path)))

    @property
    def died(self) -> asyncio.Future[BaseException]:
        """Resolved if the writer thread ends unasked; the daemon cannot go on then."""
        return self._writer.died

    async def write(self, operation: Operation[T]) -> T:
        return await self._writer.write(operation)

    async def alone(self, operation: Operation[T]) -> T:
        """For what no transaction can hold (VACUUM, checkpoints); writers wait meanwhile."""
        return await self._writer.alone(operation)

    async def read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """`operation` must fetch all it needs: an open cursor would keep the log from being folded in."""
        if self._closed:
            raise StoreClosed
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, operation)

    async def ping(self) -> None:
        await self._writer.ping()

    async def close(self) -> None:
        """Readers first: the last connection to close folds the log into the file, and it must be the writer."""
        self._closed = True
        await asyncio.to_thread(self._readers.shutdown)
        for connection in self._connections:
            connection.close()
        await self._writer.close()

    def _read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        # Opened on use, not by the pool: a failure then belongs to this read only, and the next one tries again.
        if not hasattr(self._local, "db"):
            self._local.db = connect(self.path, read_only=True)
            self._connections.append(self._local.db)
        db: sqlite3.Connection = self._local.db
        # One snapshot: a commit between two queries of one read must not show half of itself.
        db.execute("BEGIN")
        try:
            return operation(db)
        finally:
            if db.in_transaction:  # an error may have ended it
                db.execute("ROLLBACK")


def prepare(data_dir: Path) -> Path:
    """Make the data directory private and usable; return the path of the database."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(data_dir, os.W_OK | os.X_OK):
            raise DataDirUnusable(path=data_dir, why="no permission to write")
    except OSError as exc:
        raise DataDirUnusable(path=data_dir, why=exc.strerror) from exc
    return data_dir / NAME


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode with every safety on; transactions are always explicit."""
    _make_private(path)
    db = sqlite3.connect(
        path, isolation_level=None, timeout=_BUSY_SECONDS, cached_statements=256, check_same_thread=False
    )
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA journal_size_limit = 67108864")
        if read_only:
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("PRAGMA query_only = ON")
    except BaseException:
        db.close()
        raise
    return db


def _make_private(path: Path) -> None:
    """SQLite gives its log and index files the mode of the database, so the first file decides for all."""
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))


def who_is_who(data_dir: Path) -> Database:
    """The people and places of a database in one of its own, so that questions can be asked beside a daemon."""
    copy = sqlite3.connect(":memory:", isolation_level=None, uri=True)
    path = data_dir / NAME
    migrations.migrate(copy, path)
    if path.exists():
        copy.execute("ATTACH ? AS there", (f"{path.absolute().as_uri()}?mode=ro",))
        for table in ("people", "identities", "aliases"):
            copy.execute(f"INSERT INTO main.{table} SELECT * FROM there.{table}")
    return copy


def on_file(path: Path, work: Callable[[Database, Path], T]) -> T:
    """Work on the file directly, at start or under the lock; trouble with the file gets a name."""
    try:
        db = connect(path)
        try:
            return work(db, path)
        finally:
            db.close()
    except OSError as exc:
        raise DataDirUnusable(path=path.parent, why=exc.strerror) from exc
    except sqlite3.OperationalError as exc:
        raise DataDirUnusable(path=path.parent, why=str(exc)) from exc
    except sqlite3.DatabaseError as exc:
        raise DatabaseDamaged(path=path, why=str(exc)) from exc
