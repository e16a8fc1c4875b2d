"""The writer: one thread, one connection, group commit.

The thread takes everything that waits, runs each operation in a savepoint of its own, commits once, and only
then tells the callers. An operation that raises is undone alone. An error that ends the transaction (full disk,
I/O) fails every operation of the batch, because none of them is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from routing.errors import StoreClosed, StoreUnavailable

T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

#: More would make the first caller of a batch wait long for the last.
_BATCH = 256

#: After these the transaction is gone or cannot be trusted; see "Response To Errors" in SQLite's lang_transaction.
_FATAL = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
    }
)


@dataclass(slots=True)
class _Job:
    operation: Operation[Any] | None
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Runs operations on its own thread. `died` is resolved with the cause if the thread ends unasked."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._guard = threading.Lock()
        self._open = True
        self.died: asyncio.Future[BaseException] = self._loop.create_future()
        self._thread = threading.Thread(target=self._main, name="store-writer", daemon=True)
        self._thread.start()

    async def write(self, operation: Operation[T]) -> T:
        """Run `operation` in the next batch; return when it is committed.

        A cancelled caller still waits for the outcome, so that nobody acts on "not written" when it was.
        """
        result: T = await self._settled(self._submit(operation))
        return result

    async def ping(self) -> None:
        """Return when the thread has answered; the watchdog's proof of life."""
        await self._settled(self._submit(None))

    async def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        with self._guard:
            if self._open:
                self._open = False
                self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _submit(self, operation: Operation[Any] | None) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._guard:
            if not self._open:
                raise StoreClosed
            self._jobs.put(_Job(operation, future))
        return future

    async def _settled(self, future: asyncio.Future[Any]) -> Any:
        # Not `shield`: from Python 3.14 on it logs the error of a cancelled caller as if nobody had seen it.
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as exc:
                cancelled = exc
        if cancelled is not None:
            future.exception()  # seen
            raise cancelled
        return future.result()

    def _main(self) -> None:
        batch: list[_Job] = []
        try:
            db = self._connect()
            try:
                while self._take(batch):
                    self._run(db, batch)
                    self._report(batch)
                    batch = []
            finally:
                db.close()
        except BaseException as exc:  # the daemon must learn of any end of this thread
            self._die(exc, batch)

    def _take(self, batch: list[_Job]) -> bool:
        """Wait for work, then take all there is. False: closed, and nothing is left."""
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == _BATCH:
                return True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return True
        if batch:
            self._jobs.put(None)
        return bool(batch)

    def _run(self, db: sqlite3.Connection, batch: list[_Job]) -> None:
        if all(job.operation is None for job in batch):
            return
        try:
            db.execute("BEGIN IMMEDIATE")
            for job in batch:
                _run_one(db, job)
            db.execute("COMMIT")
        except sqlite3.Error as exc:
            if db.in_transaction:
                db.execute("ROLLBACK")
            for job in batch:
                if job.operation is not None:  # a ping asks for the thread, not for the disk
                    job.error = StoreUnavailable(why=str(exc))
                    job.error.__cause__ = exc

    def _report(self, batch: list[_Job]) -> None:
        self._loop.call_soon_threadsafe(_resolve, batch)

    def _die(self, cause: BaseException, batch: list[_Job]) -> None:
        with self._guard:
            self._open = False
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                batch.append(job)
        for job in batch:
            job.error = StoreClosed()
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody is left to tell
            self._loop.call_soon_threadsafe(self._died, cause, batch)

    def _died(self, cause: BaseException, batch: list[_Job]) -> None:
        self.died.set_result(cause)
        _resolve(batch)


def _run_one(db: sqlite3.Connection, job: _Job) -> None:
    if job.operation is None:
        return
    db.execute("SAVEPOINT operation")
    try:
        job.result = job.operation(db)
    except Exception as exc:  # whatever an operation raises belongs to its caller
        if _ends_batch(exc):
            raise
        # A future refuses StopIteration.
        job.error = RuntimeError(repr(exc)) if isinstance(exc, StopIteration) else exc
        if db.in_transaction:
            db.execute("ROLLBACK TO operation")
    if not db.in_transaction:
        raise sqlite3.OperationalError("an operation ended the transaction")
    db.execute("RELEASE operation")


def _ends_batch(exc: Exception) -> bool:
    code = getattr(exc, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _FATAL


def _resolve(batch: list[_Job]) -> None:
    for job in batch:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
