"""What a support file says about a database: its shape and its health, and nothing that anybody wrote."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from store.database import NAME

_SETTINGS = ("page_size", "page_count", "freelist_count", "encoding", "user_version")


@dataclass(slots=True)
class Findings:
    """What could be read; `problem` says what could not."""

    sqlite: str = sqlite3.sqlite_version
    #: File name → size in bytes.
    files: dict[str, int] = field(default_factory=dict)
    settings: dict[str, object] = field(default_factory=dict)
    migrations: list[str] = field(default_factory=list)
    schema: list[str] = field(default_factory=list)
    #: Table → rows.
    counts: dict[str, int] = field(default_factory=dict)
    #: What SQLite says about its file; just `ok` if all is well.
    integrity: list[str] = field(default_factory=list)
    problem: str | None = None


def inspect(data_dir: Path) -> Findings:
    """Read-only, so that it can be done beside a daemon and to a damaged file; never raises because of the file."""
    found = Findings()
    path = data_dir / NAME
    try:
        found.files = {file.name: file.stat().st_size for file in sorted(data_dir.glob(f"{NAME}*"))}
        if not path.exists():
            found.problem = "there is no database"
            return found
        # Where there is no log nobody uses the file, and even a reader would leave an empty log behind.
        how = "mode=ro" if path.with_name(f"{NAME}-wal").exists() else "mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=5.0)) as db:
            _look(db, found)
    except (OSError, sqlite3.Error) as error:
        found.problem = str(error)
    return found


def _look(db: sqlite3.Connection, found: Findings) -> None:
    for name in _SETTINGS:
        found.settings[name] = db.execute(f"PRAGMA {name}").fetchone()[0]
    found.integrity = [str(line) for (line,) in db.execute("PRAGMA integrity_check(20)")]
    rows = db.execute("SELECT name, type, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    found.schema = [sql for _, _, sql in rows]
    tables = [name for name, kind, _ in rows if kind == "table"]
    if "_sqlite_migrations" in tables:
        found.migrations = [name for (name,) in db.execute("SELECT name FROM _sqlite_migrations ORDER BY rowid")]
    for table in tables:
        quoted = table.replace('"', '""')
        found.counts[table] = db.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0]
