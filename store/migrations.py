"""Migrations run at start, each in a transaction with the row that records it, and each has its way back."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from routing.errors import DataDirUnusable, NewerDatabase
from store import search, search_schema
from store.schema import STEPS, TRIGGERS, Step

_SET = "trunkline"


def applied(db: sqlite3.Connection) -> list[str]:
    """The names of the migrations this database has, oldest first."""
    exists = db.execute("SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'").fetchone()
    if exists is None:
        return []
    rows = db.execute("SELECT name FROM _sqlite_migrations WHERE migration_set = ? ORDER BY id", (_SET,))
    return [name for (name,) in rows.fetchall()]


def migrate(
    db: sqlite3.Connection, path: Path, steps: Sequence[Step] = STEPS, *, searchable: bool | None = None
) -> list[str]:
    """Bring the database up to date; return what was applied. A newer database is refused, unchanged.

    `searchable` switches the full-text index on or off; unless it is given, that stays as it is.
    """
    done = applied(db)
    known = [step.name for step in steps]
    unknown = [name for name in done if name not in known]
    if unknown:
        raise NewerDatabase(path=path, unknown=", ".join(unknown))
    pending = [name for name in known if name not in done]
    if pending:
        if done:
            keep_copy(db, path, path.with_name(f"{path.name}.before-{pending[0]}"))
        _apply(db, steps)
    ensure_triggers(db, searchable)
    return pending


def rollback(db: sqlite3.Connection, path: Path, steps: Sequence[Step] = STEPS) -> str | None:
    """Undo the newest migration; return its name, or None if there is none."""
    done = applied(db)
    if not done:
        return None
    last = done[-1]
    step = next((step for step in steps if step.name == last), None)
    if step is None:
        raise NewerDatabase(path=path, unknown=last)
    keep_copy(db, path, path.with_name(f"{path.name}.before-undo-{last}"))
    # Dropping a table that others refer to is checked once, at the end of the transaction.
    with _transaction(db):
        db.execute("PRAGMA defer_foreign_keys = ON")
        _drop_triggers(db)
        for statement in step.down:
            db.execute(statement)
        db.execute("DELETE FROM _sqlite_migrations WHERE migration_set = ? AND name = ?", (_SET, last))
    return last


def ensure_triggers(db: sqlite3.Connection, searchable: bool | None = None) -> None:
    """Make the triggers of the file exactly those of the lists: with the search's own only while it is on.

    An index that did without its triggers for a while cannot be trusted any more: it starts anew, empty.
    """
    was = search.enabled(db)
    enabled = was if searchable is None else searchable
    optional = search_schema.TRIGGERS if enabled else {}
    wanted = {name: _flat(sql) for name, sql in {**TRIGGERS, **optional}.items()}
    found = _triggers(db)
    if found == wanted and enabled == was:
        return
    trusted = enabled == was and all(found.get(name) == wanted.get(name) for name in search_schema.TRIGGERS)
    with _transaction(db):
        _drop_triggers(db)
        for sql in {**TRIGGERS, **optional}.values():
            db.execute(sql)
        if not trusted:
            search.start_anew(db, enabled)


def keep_copy(db: sqlite3.Connection, path: Path, copy: Path) -> None:
    """A whole copy beside the database before it is changed, if the disk has room for it."""
    size = path.stat().st_size
    free = shutil.disk_usage(path.parent).free
    if free < size * 2:
        why = f"a copy of the database needs {size * 2} bytes before a migration and {free} are free"
        raise DataDirUnusable(path=path.parent, why=why)
    copy.unlink(missing_ok=True)
    # Private from its first byte on; SQLite takes an empty file, and leaves it to others to sync it.
    file = os.open(copy, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        db.execute("VACUUM INTO ?", (str(copy),))
        os.fsync(file)
    except BaseException:
        copy.unlink()
        raise
    finally:
        os.close(file)


def _apply(db: sqlite3.Connection, steps: Sequence[Step]) -> None:
    # Imported on use: most starts have nothing to migrate, and it takes 50 ms.
    from sqlite_utils import Database, Migrations

    def register(step: Step) -> None:
        def run(database: Database) -> None:
            for statement in step.up:
                database.execute(statement)

        runner(name=step.name)(run)

    runner = Migrations(_SET)
    for step in steps:
        register(step)
    runner.apply(Database(db))


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # an error may have ended it
            db.execute("ROLLBACK")
        raise


def _triggers(db: sqlite3.Connection) -> dict[str, str]:
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    return {name: _flat(sql) for name, sql in rows}


def _drop_triggers(db: sqlite3.Connection) -> None:
    for name in _triggers(db):
        quoted = name.replace('"', '""')
        db.execute(f'DROP TRIGGER "{quoted}"')


def _flat(sql: str) -> str:
    return " ".join(sql.split())
