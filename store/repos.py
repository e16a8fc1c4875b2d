"""Repositories in which agents work. A row outlives its directory, because sessions refer to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from routing.errors import RepoExists, UnknownRepo
from store.content import Json
from store.ids import Micros, new_id

_COLUMNS = "id, public_id, name, path, created_at, scanned_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repo:
    id: int
    public_id: str
    name: str
    #: Resolved when it was found; whoever uses it has to look again.
    path: Path
    created_at: Micros
    #: When it was last seen.
    scanned_at: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """What a scan changed, by name."""

    found: int
    new: tuple[str, ...]
    gone: tuple[str, ...]


def every(db: sqlite3.Connection) -> list[Repo]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM repos WHERE state = 'listed' ORDER BY name").fetchall()
    return [_repo(row) for row in rows]


def find(db: sqlite3.Connection, wanted: str) -> Repo:
    """By id or by name; an id decides, if a repository should be called like another one's."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM repos WHERE state = 'listed' AND (public_id = ?1 OR name = ?1)"
        " ORDER BY public_id = ?1 DESC LIMIT 1",
        (wanted,),
    ).fetchone()
    if row is None:
        raise UnknownRepo(repo=wanted)
    return _repo(row)


def get(db: sqlite3.Connection, public_id: str) -> Repo:
    """By its id, whether it is still listed or not."""
    row = db.execute(f"SELECT {_COLUMNS} FROM repos WHERE public_id = ?", (public_id,)).fetchone()
    if row is None:
        raise UnknownRepo(repo=public_id)
    return _repo(row)


def add(db: sqlite3.Connection, name: str, path: Path, now: Micros) -> Repo:
    """List a directory under a name; one that was listed before keeps its id and may get another name."""
    taken = db.execute(
        "SELECT path FROM repos WHERE state = 'listed' AND name = ? AND path <> ?", (name, str(path))
    ).fetchone()
    if taken is not None:
        raise RepoExists(name=name, path=taken[0])
    row = db.execute(
        "INSERT INTO repos (public_id, name, path, created_at, scanned_at) VALUES (?1, ?2, ?3, ?4, ?4)"
        " ON CONFLICT (path) DO UPDATE SET name = ?2, state = 'listed', scanned_at = ?4"
        f" RETURNING {_COLUMNS}",
        (new_id(), name, str(path), now),
    ).fetchone()
    return _repo(row)


def remove(db: sqlite3.Connection, wanted: str) -> Repo:
    """Take a repository off the list; no scan brings it back, only `add`."""
    repo = find(db, wanted)
    db.execute("UPDATE repos SET state = 'removed' WHERE id = ?", (repo.id,))
    return repo


def record(db: sqlite3.Connection, found: Mapping[Path, str], now: Micros) -> Scanned:
    """Make the list what a scan found, path → name. Names that were chosen stay, and so does what was removed."""
    rows = db.execute("SELECT path, name, state FROM repos").fetchall()
    known = {path: (name, state) for path, name, state in rows}
    paths = {str(path): name for path, name in found.items()}
    gone = [(path, name) for path, (name, state) in known.items() if state == "listed" and path not in paths]
    # First, so that a directory which took the place of another one can have its name.
    db.executemany("UPDATE repos SET state = 'gone' WHERE path = ?", [(path,) for path, _ in gone])
    names = {name for path, (name, state) in known.items() if state == "listed" and path in paths}
    new = []
    for path, name in paths.items():
        _, state = known.get(path, ("", ""))
        if state in {"listed", "removed"}:
            db.execute("UPDATE repos SET scanned_at = ? WHERE path = ?", (now, path))
            continue
        free = name if name not in names else path
        names.add(free)
        new.append(add(db, free, Path(path), now).name)
    return Scanned(found=len(paths), new=tuple(new), gone=tuple(name for _, name in gone))


def _repo(row: tuple[Json, ...]) -> Repo:
    return Repo(id=row[0], public_id=row[1], name=row[2], path=Path(row[3]), created_at=row[4], scanned_at=row[5])
