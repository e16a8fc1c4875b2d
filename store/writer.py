"""The writer: one thread, one connection, group commit.

The thread takes everything that waits, runs it in one transaction, commits once, and only then tells the callers.
An operation that raises is undone alone: the batch is rolled back and run again with a savepoint around each
operation. Most batches hold none that raises, and a savepoint costs as much as the operation. So an operation may run
twice, and must touch nothing but the database. An error that ends the transaction (full disk, I/O) fails every
operation of the batch, because none of them is stored.
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
    #: Not in a transaction.
    alone: bool = False
    result: Any = None
    error: BaseException | None = None
    reported: bool = False
    #: Made by a cancelled caller, who waits for the outcome all the same.
    late: asyncio.Future[None] | None = None


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
        result: T = await _settled(self._submit(operation))
        return result

    async def alone(self, operation: Operation[T]) -> T:
        """Run `operation` between two batches, outside of any transaction."""
        result: T = await _settled(self._submit(operation, alone=True))
        return result

    async def ping(self) -> None:
        """Return when the thread has answered; the watchdog's proof of life. It may be given up."""
        await self._submit(None).future

    async def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        with self._guard:
            if self._open:
                self._open = False
                self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _submit(self, operation: Operation[Any] | None, *, alone: bool = False) -> _Job:
        job = _Job(operation, self._loop.create_future(), alone)
        with self._guard:
            if not self._open:
                raise StoreClosed
            self._jobs.put(job)
        return job

    def _main(self) -> None:
        batch: list[_Job] = []
        try:
            db = self._connect()
            try:
                while self._take(batch):
                    alone = [job for job in batch if job.alone]
                    batch = [job for job in batch if not job.alone]
                    self._run(db, batch)
                    self._report(batch)
                    batch = alone
                    while batch:
                        _run_alone(db, batch[0])
                        self._report([batch.pop(0)])
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
        jobs = [job for job in batch if job.operation is not None]  # a ping asks for the thread, not for the disk
        if not jobs:
            return
        try:
            if not _run_together(db, jobs):
                _run_apart(db, jobs)
        except sqlite3.Error as exc:
            if db.in_transaction:
                db.execute("ROLLBACK")
            for job in jobs:
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


async def _settled(job: _Job) -> Any:
    try:
        return await job.future
    except asyncio.CancelledError:
        if not job.reported:
            job.late = asyncio.get_running_loop().create_future()
        while job.late is not None and not job.late.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([job.late])
        raise


def _run_together(db: sqlite3.Connection, jobs: list[_Job]) -> bool:
    """One transaction for all; false, and nothing done, if an operation raised."""
    db.execute("BEGIN IMMEDIATE")
    for job in jobs:
        try:
            job.result = _result(db, job)
        except Exception as exc:  # which one is to blame shows when each runs apart
            if _ends_batch(exc):
                raise
            if not db.in_transaction:  # what it has committed must not run again
                raise sqlite3.OperationalError("an operation ended the transaction") from exc
            db.execute("ROLLBACK")
            return False
    db.execute("COMMIT")
    return True


def _run_apart(db: sqlite3.Connection, jobs: list[_Job]) -> None:
    """One transaction, and in it a savepoint for each, so that what raises is undone alone."""
    db.execute("BEGIN IMMEDIATE")
    for job in jobs:
        db.execute("SAVEPOINT operation")
        try:
            job.result = _result(db, job)
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
    db.execute("COMMIT")


def _run_alone(db: sqlite3.Connection, job: _Job) -> None:
    try:
        job.result = None if job.operation is None else job.operation(db)
    except sqlite3.Error as exc:
        job.error = StoreUnavailable(why=str(exc))
        job.error.__cause__ = exc
    except Exception as exc:  # whatever an operation raises belongs to its caller
        job.error = RuntimeError(repr(exc)) if isinstance(exc, StopIteration) else exc
    if db.in_transaction:
        db.execute("ROLLBACK")


def _result(db: sqlite3.Connection, job: _Job) -> Any:
    result = None if job.operation is None else job.operation(db)
    if not db.in_transaction:
        raise sqlite3.OperationalError("an operation ended the transaction")
    return result


def _ends_batch(exc: Exception) -> bool:
    code = getattr(exc, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _FATAL


def _resolve(batch: list[_Job]) -> None:
    for job in batch:
        job.reported = True
        if job.late is not None:
            job.late.set_result(None)
        elif job.future.done():
            continue  # cancelled, and its caller has not run since
        elif job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
