"""What a support file says about a database: enough to help, nothing that anybody wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from store import migrations
from store.database import NAME, connect, on_file, prepare
from store.inspection import inspect

CANARY = "the canary of the people table"


def make(data_dir: Path) -> Path:
    path = prepare(data_dir)
    on_file(path, migrations.migrate)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO people (public_id, name) VALUES ('p-1', ?)", (CANARY,))
    return path


def test_a_healthy_database(tmp_path: Path) -> None:
    path = make(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    found = inspect(tmp_path)
    assert found.problem is None
    assert found.integrity == ["ok"]
    assert found.counts["people"] == 1
    assert found.migrations[0] == "m001_spine"
    assert found.files == {path.name: path.stat().st_size}
    assert any(sql.startswith("CREATE TABLE people") for sql in found.schema)
    assert CANARY not in repr(found)
    # It was only read, and left nothing behind.
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_one_that_is_in_use(tmp_path: Path) -> None:
    path = make(tmp_path)
    with closing(connect(path)) as db:
        db.execute("BEGIN")
        db.execute("INSERT INTO people (public_id, name) VALUES ('p-2', '')")
        db.execute("COMMIT")
        # What is only in the log counts, and an open write does not.
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO people (public_id, name) VALUES ('p-3', '')")
        found = inspect(tmp_path)
        assert (found.counts["people"], found.problem) == (2, None)
        db.execute("ROLLBACK")


def test_one_that_is_damaged(tmp_path: Path) -> None:
    path = make(tmp_path)
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 5] = b"\xa5" * (4096 * 2)
    path.write_bytes(content)
    found = inspect(tmp_path)
    assert found.problem is not None or found.integrity != ["ok"]


def test_none_at_all(tmp_path: Path) -> None:
    assert inspect(tmp_path / "nowhere").problem == "there is no database"
    (tmp_path / NAME).write_bytes(b"Dear diary, " * 1000)
    assert inspect(tmp_path).problem == "file is not a database"
