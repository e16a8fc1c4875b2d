"""What the whole file needs now and then; none of it can run inside a transaction."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from routing.errors import StoreUnavailable
from store import search
from store.backup import require_room, size_of

#: Each waits for readers as long as a connection is willing to.
_TRIES = 12


def require_room_to_scrub(db: sqlite3.Connection, path: Path) -> None:
    """The file is written anew once beside itself and once in its log."""
    require_room(path.parent, 2 * size_of(db))


def scrub(db: sqlite3.Connection) -> None:
    """Leave nothing in the file of what was deleted: not in its index, not in free space, not in the log."""
    if search.enabled(db):
        search.merge(db)
    db.execute("VACUUM")
    for _ in range(_TRIES):
        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if not busy:
            return
    raise StoreUnavailable(why="a reader keeps the log from being emptied")
