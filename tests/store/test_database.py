"""The files: private, whole, refused with a sentence when they are unusable; readers beside the writer."""

import asyncio
import os
import random
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from routing.errors import DatabaseDamaged, DataDirUnusable
from store.database import NAME, Store, prepare
from tests.store.helpers import PATIENCE, add, blocking, held, integrity, names

NOBODY = 65534


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere; the question "may I write" is put in the name of the real user."""
    root = os.getuid() == 0
    if root:
        os.setresuid(NOBODY, -1, -1)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, -1, -1)


async def sound_file(data_dir: Path) -> bytes:
    store = await Store.open(data_dir)
    await store.write(add("somebody"))
    await store.close()
    return store.path.read_bytes()


# Readers


async def test_a_reader_cannot_write(store: Store) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await store.read(add("a"))
    assert await store.read(names) == []


async def test_readers_see_only_what_is_committed(store: Store) -> None:
    wrote, leave = threading.Event(), threading.Event()

    def operation(db: sqlite3.Connection) -> None:
        add("a")(db)
        wrote.set()
        assert leave.wait(PATIENCE)

    writing = asyncio.create_task(store.write(operation))
    await blocking(wrote.wait)
    assert await store.read(names) == []
    leave.set()
    await writing
    assert await store.read(names) == ["a"]


@pytest.mark.req("S001-07")
async def test_readers_run_while_the_writer_is_busy(store: Store) -> None:
    await store.write(add("a"))
    async with held(store):
        assert await asyncio.gather(*(store.read(names) for _ in range(20))) == [["a"]] * 20


async def test_two_reads_run_at_the_same_time(store: Store) -> None:
    both = threading.Barrier(2)
    await asyncio.gather(*(store.read(lambda db: both.wait(PATIENCE)) for _ in range(2)))


async def test_an_error_of_a_read_is_its_callers(store: Store) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await store.read(lambda db: db.execute("SELECT 1 FROM nowhere"))
    assert await store.read(names) == []


async def test_a_reader_that_cannot_connect_fails_one_read_only(store: Store, data_dir: Path) -> None:
    await store.write(add("a"))
    elsewhere = data_dir.rename(data_dir.with_name("elsewhere"))
    with pytest.raises(FileNotFoundError):
        await store.read(names)
    elsewhere.rename(data_dir)
    assert await store.read(names) == ["a"]


@pytest.mark.req("S000-91")
async def test_connections_have_every_safety_on(store: Store) -> None:
    def settings(db: sqlite3.Connection) -> dict[str, object]:
        pragmas = ("foreign_keys", "journal_mode", "synchronous", "query_only", "wal_autocheckpoint")
        return {pragma: db.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas}

    safe = {"foreign_keys": 1, "journal_mode": "wal", "synchronous": 2}
    assert await store.write(settings) == safe | {"query_only": 0, "wal_autocheckpoint": 1000}
    assert await store.read(settings) == safe | {"query_only": 1, "wal_autocheckpoint": 0}


# Files


async def test_close_leaves_one_file(store: Store, data_dir: Path) -> None:
    await store.write(add("a"))
    await asyncio.gather(*(store.read(names) for _ in range(10)))
    assert {path.name for path in data_dir.iterdir()} == {NAME, f"{NAME}-wal", f"{NAME}-shm"}
    await store.close()
    assert [path.name for path in data_dir.iterdir()] == [NAME]


@pytest.mark.req("S000-01", "S001-34")
async def test_what_was_written_is_there_in_the_next_life(data_dir: Path) -> None:
    for number in range(3):
        store = await Store.open(data_dir)
        await store.write(add(str(number)))
        await store.close()
    with closing(sqlite3.connect(store.path)) as db:
        assert names(db) == ["0", "1", "2"]
        assert integrity(db) == "ok"


@pytest.mark.usefixtures("no_umask")
async def test_files_are_private_whatever_the_umask(data_dir: Path) -> None:
    store = await Store.open(data_dir)
    await store.write(add("a"))
    await store.read(names)
    modes = {path.name: oct(mode(path)) for path in data_dir.iterdir()}
    await store.close()
    assert oct(mode(data_dir)) == "0o700"
    assert modes == {NAME: "0o600", f"{NAME}-wal": "0o600", f"{NAME}-shm": "0o600"}


async def test_a_directory_that_exists_is_taken_as_it_is(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o750)
    (data_dir / "theirs").write_text("kept")
    await sound_file(data_dir)
    assert oct(mode(data_dir)) == "0o750"
    assert (data_dir / "theirs").read_text() == "kept"


async def test_missing_parents_are_made(data_dir: Path) -> None:
    assert await sound_file(data_dir / "a" / "b")


# Damage

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda sound: random.Random(1).randbytes(8192),
    "a text": lambda sound: b"Dear diary,\n" * 1000,
    "a short text": lambda sound: b"hello\n",
    "zeros": lambda sound: bytes(4096),
    "the magic word only": lambda sound: sound[:16],
    "half a header": lambda sound: sound[:50],
    "a header only": lambda sound: sound[:100],
    "one page only": lambda sound: sound[:4096],
    "half a file": lambda sound: sound[: len(sound) // 2],
    "garbage behind the magic word": lambda sound: sound[:16] + random.Random(2).randbytes(8192),
}


@pytest.mark.req("S001-34")
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
async def test_a_damaged_file_is_refused_and_left_alone(
    tmp_path: Path, data_dir: Path, damage: Callable[[bytes], bytes]
) -> None:
    damaged = damage(await sound_file(tmp_path / "sound"))
    data_dir.mkdir()
    (data_dir / NAME).write_bytes(damaged)
    with pytest.raises(DatabaseDamaged, match=r"cannot be read: .+ Nothing was changed\. Restore a backup") as refused:
        await Store.open(data_dir)
    assert str(data_dir / NAME) in str(refused.value)
    assert (data_dir / NAME).read_bytes() == damaged


async def test_a_directory_in_place_of_the_file_is_refused(data_dir: Path) -> None:
    (data_dir / NAME / "theirs").mkdir(parents=True)
    with pytest.raises(DataDirUnusable, match="unable to open database file"):
        await Store.open(data_dir)
    assert [path.name for path in data_dir.iterdir()] == [NAME]
    assert [path.name for path in (data_dir / NAME).iterdir()] == ["theirs"]


async def test_a_refused_file_is_not_kept_open(data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / NAME).write_bytes(b"hello\n")
    with pytest.raises(DatabaseDamaged):
        await Store.open(data_dir)
    opened = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert str(data_dir / NAME) not in opened


# Directories that will not do


@pytest.mark.parametrize("place", ["/proc", "/proc/trunkline", "/proc/self/fd", "/dev/null", "/dev/null/data"])
async def test_a_place_that_takes_no_files_is_refused(place: str) -> None:
    with pytest.raises(DataDirUnusable, match=f"Cannot write in the data directory {place}: .+ Make it writable"):
        await Store.open(Path(place))


async def test_a_regular_file_is_no_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("theirs")
    for place, why in (
        (file, "File exists"),
        (file / "data", "Not a directory"),
        (file / "a" / "b", "Not a directory"),
    ):
        with pytest.raises(DataDirUnusable, match=why):
            await Store.open(place)
    assert file.read_text() == "theirs"


def test_a_directory_that_may_not_be_written_is_refused(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o500)
    with as_nobody(), pytest.raises(DataDirUnusable, match="no permission to write"):
        prepare(data_dir)
