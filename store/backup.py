"""Backups: a whole, consistent copy while the daemon writes, and the way back from one."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from routing.errors import (
    BackupExists,
    BackupRefused,
    BackupUnusable,
    DataDirUnusable,
    NewerDatabase,
    NoRoom,
    StoreUnavailable,
)
from store import migrations, outbox
from store.database import NAME, connect, prepare
from store.ids import now

#: Why deliveries of a restored database are parked: nobody knows whether they went out since.
FROM_BACKUP = "it comes from a backup and may have been sent since; send it again if it was not"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    #: Where the database from before is kept; None if there was none.
    kept: Path | None
    #: Migrations that the backup still needed.
    migrated: tuple[str, ...]
    #: Deliveries that wait for somebody to send them again.
    parked: int


def make(database: Path, target: Path, reserve: int = 0) -> int:
    """Copy the database to a file that must not exist; return its size in bytes.

    For a thread of its own: a read on a connection of its own, which no writer waits for.
    """
    with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=5.0)) as db:
        db.execute("PRAGMA wal_autocheckpoint = 0")
        _check_target(target)
        require_room(target.parent, size_of(db), reserve)
        try:
            file = os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except FileExistsError as exc:
            raise BackupExists(path=target) from exc
        except OSError as exc:
            raise BackupRefused(path=target, why=exc.strerror) from exc
        try:
            db.execute("VACUUM INTO ?", (str(target),))
            os.fsync(file)
            _sync(target.parent)
            return os.fstat(file).st_size
        except sqlite3.Error as exc:
            target.unlink()
            raise StoreUnavailable(why=str(exc)) from exc
        except BaseException:
            target.unlink()
            raise
        finally:
            os.close(file)


def restore(data_dir: Path, file: Path) -> Restored:
    """Put a backup in the place of the database. The caller holds the lock of the data directory.

    The copy is checked, migrated, and its deliveries parked before it takes the place, in one step; what was there
    before is kept beside it. Until that step nothing has changed.
    """
    path = prepare(data_dir)
    staged = data_dir / f"{NAME}.restoring"
    _discard(staged)
    try:
        _copy(file, staged)
        migrated, parked = _make_ready(file, staged)
        kept = _keep(path)
        os.replace(staged, path)
        _sync(data_dir)
    except OSError as exc:
        raise DataDirUnusable(path=data_dir, why=exc.strerror) from exc
    except NoRoom as exc:
        raise DataDirUnusable(path=data_dir, why=str(exc)) from exc
    finally:
        _discard(staged)
    return Restored(kept=kept, migrated=migrated, parked=parked)


def size_of(db: sqlite3.Connection) -> int:
    """The bytes of the whole database, with what is only in its log yet."""
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    (page,) = db.execute("PRAGMA page_size").fetchone()
    return int(pages * page)


def require_room(folder: Path, size: int, reserve: int = 0) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + reserve:
        raise NoRoom(needed=size + reserve, path=folder, free=free)


def _check_target(target: Path) -> None:
    if not target.is_absolute():
        raise BackupRefused(path=target, why="the path must be absolute")
    if not target.parent.is_dir():
        raise BackupRefused(path=target, why=f"there is no directory {target.parent}")
    if os.path.lexists(target):
        raise BackupExists(path=target)


def _copy(file: Path, staged: Path) -> None:
    """Bring the backup into the data directory, where it can be opened without touching the original."""
    if not file.is_file():
        raise BackupUnusable(path=file, why="there is no such file")
    log = file.with_name(f"{file.name}-wal")
    if log.exists() and log.stat().st_size:
        raise BackupUnusable(path=file, why=f"{log.name} beside it shows that a program uses it, so it is not a backup")
    require_room(staged.parent, 2 * file.stat().st_size)
    try:
        source = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as exc:
        raise BackupUnusable(path=file, why=exc.strerror) from exc
    with (
        open(source, "rb") as read,
        open(os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as write,
    ):
        shutil.copyfileobj(read, write, 2**20)
        write.flush()
        os.fsync(write.fileno())


def _make_ready(file: Path, staged: Path) -> tuple[tuple[str, ...], int]:
    try:
        with contextlib.closing(connect(staged)) as db:
            _check(db, file)
            migrated = migrations.migrate(db, staged)
            db.execute("BEGIN IMMEDIATE")
            parked = outbox.park_all(db, FROM_BACKUP, now())
            db.execute("COMMIT")
            # All of it in one file, or the step into its place would leave a part behind.
            db.execute("PRAGMA journal_mode = DELETE")
    except NewerDatabase as exc:
        raise BackupUnusable(path=file, why=f"it was made by a newer trunkline ({exc.facts['unknown']})") from exc
    except sqlite3.Error as exc:
        raise BackupUnusable(path=file, why=str(exc)) from exc
    return tuple(migrated), parked


def _check(db: sqlite3.Connection, file: Path) -> None:
    found = [line for (line,) in db.execute("PRAGMA integrity_check(3)").fetchall()]
    if found != ["ok"]:
        raise BackupUnusable(path=file, why=f"it is damaged ({'; '.join(found)})")
    if not migrations.applied(db):
        raise BackupUnusable(path=file, why="it is not a database of trunkline")
    if db.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise BackupUnusable(path=file, why="it is damaged (rows refer to others that are not there)")


def _keep(path: Path) -> Path | None:
    """Keep the database from before under another name, with its log if that cannot be folded in."""
    if not path.exists():
        return None
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    kept = path.with_name(f"{path.name}.before-restore-{moment}Z")
    log, kept_log = path.with_name(f"{path.name}-wal"), kept.with_name(f"{kept.name}-wal")
    # Second names of the same files, before anything opens them: SQLite throws the log of a damaged file away.
    os.link(path, kept)
    if log.exists():
        os.link(log, kept_log)
    with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if kept_log.exists() and not kept_log.stat().st_size:
        kept_log.unlink()
    # The old log must not be taken for one of the new database.
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    return kept


def _discard(staged: Path) -> None:
    for file in staged.parent.glob(f"{staged.name}*"):
        file.unlink()


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
