"""Backups: a consistent copy while others write, and back again, or nothing changed."""

import asyncio
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from routing.errors import (
    BackupExists,
    BackupRefused,
    BackupUnusable,
    DataDirUnusable,
    NoRoom,
)
from store import backup, exchange, migrations, outbox, sessions
from store.backup import FROM_BACKUP
from store.database import NAME, Store, connect, prepare
from store.messages import append
from store.outbox import Draft
from store.records import OutboxKind, OutboxState
from store.schema import STEPS, Step
from tests.store.golden.make import fill
from tests.store.helpers import add, integrity, names
from tests.store.rows import make_address, make_key, say

GOLDEN = Path(__file__).parent / "golden"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


# Making one


async def test_a_backup_is_the_whole_database_in_one_private_file(store: Store, target: Path) -> None:
    await store.write(fill)
    old = os.umask(0)
    try:
        size = await asyncio.to_thread(backup.make, store.path, target)
    finally:
        os.umask(old)
    assert (mode(target), target.stat().st_size) == (0o600, size)
    with opened(target) as copy:
        assert integrity(copy) == "ok"
        [public_id] = copy.execute("SELECT public_id FROM sessions").fetchone()
        assert exchange.export(copy, public_id) == await store.read(lambda db: exchange.export(db, public_id))
        assert migrations.applied(copy) == [step.name for step in STEPS]
    assert [file.name for file in target.parent.iterdir() if file.is_file()] == [target.name]


async def test_a_backup_during_writes_has_a_moment_of_them_and_nobody_waits(store: Store, target: Path) -> None:
    """While the copy is made writes go on and are committed; the copy has the first so many of them, no gap."""
    for number in range(40):
        await store.write(add(f"before {number}", 400_000))
    making = asyncio.create_task(asyncio.to_thread(backup.make, store.path, target))
    written = 0
    while not making.done():
        await store.write(add(f"during {written}"))
        written += 1
    await making
    assert written > 1, "the writer was blocked"
    with opened(target) as copy:
        assert integrity(copy) == "ok"
        found = names(copy)
    expected = [f"before {number}" for number in range(40)] + [f"during {number}" for number in range(written)]
    assert found == expected[: len(found)]
    assert len(found) >= 40


async def test_a_backup_replaces_nothing(store: Store, target: Path) -> None:
    target.write_text("precious")
    with pytest.raises(BackupExists):
        backup.make(store.path, target)
    assert target.read_text() == "precious"
    link = target.with_name("link")
    link.symlink_to("nowhere")
    with pytest.raises(BackupExists):
        backup.make(store.path, link)
    assert not target.with_name("nowhere").exists()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("copy.db", "must be absolute"),
        ("/nowhere/at/all/copy.db", "there is no directory /nowhere/at/all"),
        ("/dev/null/copy.db", "there is no directory /dev/null"),
    ],
)
async def test_a_place_that_takes_no_backup_is_refused(store: Store, path: str, why: str) -> None:
    with pytest.raises(BackupRefused, match=why):
        backup.make(store.path, Path(path))


async def test_a_disk_without_room_is_refused_before_anything_is_written(store: Store, target: Path) -> None:
    free = shutil.disk_usage(target.parent).free
    with pytest.raises(NoRoom, match=r"This needs \d+ bytes of free disk"):
        backup.make(store.path, target, reserve=free + 2**30)
    assert not target.exists()


async def test_a_backup_that_fails_leaves_no_file(data_dir: Path, target: Path) -> None:
    path = prepare(data_dir)
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 4080)
    with pytest.raises(Exception, match=r"malformed|not a database"):
        backup.make(path, target)
    assert not target.exists()


# Restoring


@pytest.fixture
async def copy(store: Store, target: Path) -> Path:
    """A backup of the golden session."""
    await store.write(fill)
    await asyncio.to_thread(backup.make, store.path, target)
    return target


def content(path: Path) -> list[object]:
    with opened(path) as db:
        return [
            db.execute(f"SELECT * FROM {table}").fetchall() for table in ("sessions", "turns", "messages", "people")
        ]


async def test_restoring_elsewhere_gives_the_same_history(copy: Path, tmp_path: Path) -> None:
    before = copy.read_bytes()
    place = tmp_path / "elsewhere"
    restored = backup.restore(place, copy)
    assert (restored.kept, restored.migrated) == (None, ())
    assert copy.read_bytes() == before, "the backup itself is not touched"
    assert not list(tmp_path.glob(f"{copy.name}-*"))
    assert [file.name for file in place.iterdir()] == [NAME]
    assert mode(place / NAME) == 0o600
    assert content(place / NAME) == content(copy)
    store = await Store.open(place)
    assert await store.read(integrity) == "ok"
    assert await store.read(lambda db: db.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
    await store.close()


async def test_what_was_there_is_kept_whole(copy: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    other = await Store.open(place)
    await other.write(add("mine"))
    await other.close()
    restored = backup.restore(place, copy)
    assert restored.kept is not None
    assert restored.kept.parent == place
    with opened(restored.kept) as kept:
        assert names(kept) == ["mine"]
        assert integrity(kept) == "ok"
    assert content(place / NAME) == content(copy)
    again = backup.restore(place, copy)
    assert again.kept not in {None, restored.kept}


async def test_the_log_of_a_daemon_that_was_killed_is_kept_with_its_database(copy: Path, tmp_path: Path) -> None:
    """What it had committed is in the log only; it must neither be lost nor be taken for one of the new database."""
    place, dead = tmp_path / "place", tmp_path / "dead"
    living = await Store.open(place)
    await living.write(add("only in the log"))
    shutil.copytree(place, dead)  # as kill -9 leaves it
    await living.close()
    assert (dead / f"{NAME}-wal").stat().st_size > 0
    restored = backup.restore(dead, copy)
    assert restored.kept is not None
    with opened(restored.kept) as kept:
        assert names(kept) == ["only in the log"]
    assert content(dead / NAME) == content(copy)
    with opened(dead / NAME) as db:
        assert integrity(db) == "ok"


async def test_a_damaged_database_is_replaced_and_kept_as_it_is(copy: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    path = prepare(place)
    path.write_bytes(b"garbage" * 1000)
    path.with_name(f"{NAME}-wal").write_bytes(b"more garbage")
    restored = backup.restore(place, copy)
    assert restored.kept is not None
    assert restored.kept.read_bytes() == b"garbage" * 1000
    assert restored.kept.with_name(f"{restored.kept.name}-wal").read_bytes() == b"more garbage"
    store = await Store.open(place)
    assert await store.read(integrity) == "ok"
    await store.close()


async def test_an_older_backup_is_migrated(data_dir: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    with opened(old) as db:
        db.executescript((GOLDEN / "m001.sql").read_text(encoding="utf-8"))
    restored = backup.restore(data_dir, old)
    assert restored.migrated == tuple(step.name for step in STEPS[1:])
    assert [file.name for file in data_dir.iterdir()] == [NAME]
    with opened(data_dir / NAME) as db:
        assert migrations.applied(db) == [step.name for step in STEPS]


# What goes out again


def deliveries(db: sqlite3.Connection) -> None:
    for state in OutboxState:
        row = outbox.put(db, Draft(address=make_address(), text=state), state, 1)
        if state is OutboxState.PARKED:
            outbox.park(db, row, "blocked", 1)
    preview = Draft(address=make_address(), text="preview", kind=OutboxKind.PREVIEW)
    outbox.put(db, preview, OutboxState.SENDING, 1)


async def test_old_deliveries_ask_before_they_go(store: Store, target: Path, tmp_path: Path) -> None:
    await store.write(deliveries)
    backup.make(store.path, target)
    place = tmp_path / "place"
    assert backup.restore(place, target).parked == 3
    restored = await Store.open(place)
    states = dict(await restored.read(lambda db: db.execute("SELECT text, state FROM outbox").fetchall()))
    assert states == {
        "held": "parked",
        "ready": "parked",
        "sending": "parked",
        "sent": "sent",
        "parked": "parked",
        "dropped": "dropped",
        "preview": "sending",
    }
    assert await restored.read(outbox.open_places) == [make_address().place]  # the preview, which goes with its turn
    assert await restored.write(lambda db: outbox.claim(db, make_address().place, 10)) is None
    parked = await restored.read(outbox.parked)
    why = {row.text: row.error for row in parked}
    assert why == {"held": FROM_BACKUP, "ready": FROM_BACKUP, "sending": FROM_BACKUP, "parked": "blocked"}
    assert all(row.uncertain for row in parked if row.text != "parked"), "it may have gone out since"
    released = next(row for row in parked if row.text == "ready")
    await restored.write(lambda db: outbox.resend(db, released.id, 20))
    claimed = await restored.write(lambda db: outbox.claim(db, make_address().place, 30))
    assert claimed is not None
    assert claimed.text == "ready"
    await restored.close()


# Refused, and nothing changed

NEWER = (*STEPS, Step("m999_later", up=("CREATE TABLE later (x)",), down=()))


def newer(path: Path) -> None:
    with closing(connect(path)) as db:
        migrations.migrate(db, path, NEWER)


def damaged(path: Path) -> None:
    """A page in the middle is overwritten."""
    with closing(connect(path)) as db:
        migrations.migrate(db, path)
        session = sessions.create(db, make_key(), 1)
        append(db, session.id, [say("x" * 3000) for _ in range(50)], 5)
        db.execute("PRAGMA journal_mode = DELETE")
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 8192)


def cut_off(path: Path) -> None:
    damaged(path)
    os.truncate(path, path.stat().st_size // 3)


def dangling(path: Path) -> None:
    with closing(connect(path)) as db:
        migrations.migrate(db, path)
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("INSERT INTO identities VALUES ('telegram', '1', 99)")


def foreign(path: Path) -> None:
    with opened(path) as db:
        db.execute("CREATE TABLE theirs (x)")


def in_use(path: Path) -> None:
    with opened(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    path.with_name(f"{path.name}-wal").write_bytes(b"something")


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "newer": (newer, "made by a newer trunkline \\(m999_later\\)"),
    "damaged": (damaged, "damaged|malformed"),
    "cut off": (cut_off, "damaged|malformed"),
    "dangling": (dangling, "rows refer to others that are not there"),
    "foreign": (foreign, "not a database of trunkline"),
    "text": (lambda path: path.write_text("hello\n" * 1000), "not a database"),
    "empty": (lambda path: path.touch(), "not a database of trunkline"),
    "missing": (lambda path: None, "no such file"),
    "a directory": (Path.mkdir, "no such file"),
    "in use": (in_use, "a program uses it"),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_is_no_backup_is_refused_and_nothing_changes(tmp_path: Path, name: str) -> None:
    break_, why = BAD[name]
    file = tmp_path / "file.db"
    break_(file)
    place = tmp_path / "place"
    store = await Store.open(place)
    await store.write(add("mine"))
    await store.close()
    before = {one.name: one.read_bytes() for one in place.iterdir()}
    with pytest.raises(BackupUnusable, match=why) as refused:
        backup.restore(place, file)
    assert refused.value.exit_code == 65
    assert {one.name: one.read_bytes() for one in place.iterdir()} == before


async def test_a_restore_that_was_cut_short_before_is_no_obstacle(copy: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    prepare(place)
    (place / f"{NAME}.restoring").write_text("half")
    (place / f"{NAME}.restoring-wal").write_text("half")
    backup.restore(place, copy)
    assert [file.name for file in place.iterdir()] == [NAME]


async def test_no_room_for_the_copy(copy: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    prepare(place)
    # A file that says that it is as large as the room that is left; it takes none of it.
    os.truncate(copy, shutil.disk_usage(place).free)
    with pytest.raises(DataDirUnusable, match="of free disk"):
        backup.restore(place, copy)
    assert list(place.iterdir()) == []
