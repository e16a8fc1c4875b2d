"""Migrations: there and back, all or nothing, with a copy kept; a newer database is left alone."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from routing.errors import DataDirUnusable, NewerDatabase
from store.database import NAME, Store, connect, prepare
from store.migrations import applied, keep_copy, migrate, rollback
from store.schema import STEPS, TRIGGERS, Step
from store.search_schema import TRIGGERS as SEARCH_TRIGGERS
from tests.store.helpers import add, integrity, names, schema

NAMES = [step.name for step in STEPS]
FIRST = NAMES[0]

#: A migration that does not exist, on top of all that do.
NOTES = Step(
    "m999_notes",
    up=(
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people (id), text TEXT NOT NULL)",
        "CREATE INDEX notes_person ON notes (person)",
        "ALTER TABLE people ADD COLUMN colour TEXT NOT NULL DEFAULT 'grey'",
        "UPDATE people SET colour = 'red' WHERE public_id = 'a'",
    ),
    down=("DROP TABLE notes", "ALTER TABLE people DROP COLUMN colour"),
)
MORE = (*STEPS, NOTES)

TABLES = {
    "repos",
    "people",
    "identities",
    "sessions",
    "turns",
    "messages",
    "compactions",
    "outlays",
    "inbox",
    "outbox",
    "aliases",
    "refusals",
    "holds",
    "seen",
    "account_facts",
    "agent_processes",
    "agent_sessions",
    "pairings",
    "overheard",
    "chosen_agents",
    "allowances",
    "budget_warnings",
    "participants",
    "search_state",
    "questions",
    "thoughtful",
    # The index: what is searched, and the tables that SQLite keeps it in.
    "search",
    "search_config",
    "search_data",
    "search_idx",
}


@pytest.fixture
def path(data_dir: Path) -> Path:
    return prepare(data_dir)


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    """A database file without anything in it."""
    with closing(connect(path)) as connection:
        yield connection


def tables(db: sqlite3.Connection) -> set[str]:
    return {name for kind, name, _ in schema(db) if kind == "table"} - {"_sqlite_migrations"}


def triggers(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    return {row for row in schema(db) if row[0] == "trigger"}


def schema_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA schema_version").fetchone()[0])


def before_notes(path: Path) -> Path:
    return path.with_name(f"{NAME}.before-{NOTES.name}")


# There


@pytest.mark.req("S000-90")
def test_an_empty_file_gets_every_table(db: sqlite3.Connection, path: Path) -> None:
    assert migrate(db, path) == [step.name for step in STEPS]
    assert tables(db) == TABLES
    assert {name for _, name, _ in triggers(db)} == TRIGGERS.keys() | SEARCH_TRIGGERS.keys()
    assert integrity(db) == "ok"


@pytest.mark.req("S001-72")
async def test_the_schema_is_current_when_the_store_is_open(store: Store) -> None:
    assert await store.read(applied) == [step.name for step in STEPS]
    assert await store.read(tables) == TABLES


def test_migrating_again_changes_nothing(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    before = schema(db), schema_version(db), db.total_changes
    assert migrate(db, path) == []
    assert (schema(db), schema_version(db), db.total_changes) == before
    assert [file.name for file in path.parent.glob(f"{NAME}.*")] == []


def test_a_new_database_needs_no_copy(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path, MORE)
    assert list(path.parent.glob(f"{NAME}.*")) == []


@pytest.mark.req("S000-91")
def test_foreign_keys_are_established(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)

    def targets(table: str) -> set[tuple[str, str]]:
        return {(row[3], row[2]) for row in db.execute(f"PRAGMA foreign_key_list({table})").fetchall()}

    assert ("session", "sessions") in targets("messages")
    assert ("session", "sessions") in targets("turns")
    assert ("person", "people") in targets("sessions")
    assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []


# Onwards from an older version


@pytest.mark.req("S001-72")
def test_a_later_step_is_applied_and_older_data_is_kept(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    add("a")(db)
    add("b")(db)
    assert migrate(db, path, MORE) == [NOTES.name]
    assert db.execute("SELECT public_id, colour FROM people ORDER BY id").fetchall() == [("a", "red"), ("b", "grey")]
    assert applied(db) == [*(step.name for step in STEPS), NOTES.name]
    assert migrate(db, path, MORE) == []


def test_the_database_from_before_is_kept_beside_it(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    before = schema(db)
    add("a")(db)
    migrate(db, path, MORE)
    with closing(sqlite3.connect(before_notes(path))) as copy:
        assert schema(copy) == before
        assert names(copy) == ["a"]
        assert integrity(copy) == "ok"


async def test_the_kept_copy_can_be_put_back(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    add("a")(db)
    migrate(db, path, MORE)
    add("b")(db)
    db.close()
    before_notes(path).rename(path)
    store = await Store.open(path.parent)
    assert await store.read(names) == ["a"]
    await store.close()


def test_a_copy_is_private_from_its_first_byte_on(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    modes: set[str] = set()

    def look() -> int:
        for file in path.parent.glob(f"{NAME}.*"):
            modes.add(oct(stat.S_IMODE(file.stat().st_mode)))
        return 0

    before = os.umask(0)
    try:
        db.set_progress_handler(look, 50)
        keep_copy(db, path, before_notes(path))
    finally:
        os.umask(before)
    look()
    assert modes == {"0o600"}


def test_an_older_copy_of_the_same_name_is_replaced(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    before_notes(path).write_text("old")
    migrate(db, path, MORE)
    with closing(sqlite3.connect(before_notes(path))) as copy:
        assert integrity(copy) == "ok"


def test_a_disk_without_room_for_the_copy_is_refused(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    add("a")(db)
    before = schema(db)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # The file says that it is as large as the room that is left; it takes none of it.
    os.truncate(path, shutil.disk_usage(path.parent).free)
    with pytest.raises(DataDirUnusable, match=r"a copy of the database needs \d+ bytes before a migration"):
        migrate(db, path, MORE)
    assert (schema(db), applied(db), names(db)) == (before, NAMES, ["a"])
    assert not before_notes(path).exists()


def test_a_copy_that_failed_half_way_is_removed_and_nothing_is_migrated(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    before = schema(db)
    calls = iter(range(1000))
    db.set_progress_handler(lambda: int(next(calls) == 20), 50)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        migrate(db, path, MORE)
    db.set_progress_handler(None, 0)
    assert (schema(db), applied(db)) == (before, NAMES)
    assert not before_notes(path).exists()
    assert migrate(db, path, MORE) == [NOTES.name]


# All or nothing


@pytest.mark.parametrize("done", [(), STEPS], ids=["the first step", "a later step"])
def test_a_failing_step_leaves_everything_as_it_was(db: sqlite3.Connection, path: Path, done: tuple[Step, ...]) -> None:
    if done:
        migrate(db, path, done)
        add("a")(db)
    db.execute("CREATE TABLE theirs (x)")
    before = tables(db), triggers(db), applied(db)
    failing = Step("m998_failing", up=("CREATE TABLE half (x)", "INSERT INTO nowhere VALUES (1)"), down=())
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(db, path, (*done, failing))
    assert not db.in_transaction
    assert (tables(db), triggers(db), applied(db)) == before
    assert migrate(db, path) == [step.name for step in STEPS if step not in done]


# Back


@pytest.mark.req("S000-93")
def test_rollback_of_everything_gives_the_schema_from_before(db: sqlite3.Connection, path: Path) -> None:
    db.execute("CREATE TABLE theirs (x)")
    db.execute("INSERT INTO theirs VALUES (7)")
    before = schema(db)
    migrate(db, path)
    add("a")(db)
    assert [rollback(db, path) for _ in STEPS] == NAMES[::-1]
    # The list of migrations stays, empty.
    assert {row for row in schema(db) if "_sqlite_migrations" not in row[1]} == before
    assert applied(db) == []
    assert db.execute("SELECT x FROM theirs").fetchall() == [(7,)]
    assert integrity(db) == "ok"
    assert rollback(db, path) is None
    assert migrate(db, path) == NAMES
    assert names(db) == []


@pytest.mark.req("S000-93")
def test_rollback_of_a_later_step_keeps_the_data_of_older_tables(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path)
    before = schema(db)
    add("a")(db)
    migrate(db, path, MORE)
    db.execute("INSERT INTO notes (person, text) SELECT id, 'lost' FROM people")
    assert rollback(db, path, MORE) == NOTES.name
    assert names(db) == ["a"]
    migrate(db, path)  # the older program starts: its triggers are back as well
    assert schema(db) == before
    with closing(sqlite3.connect(path.with_name(f"{NAME}.before-undo-{NOTES.name}"))) as copy:
        assert copy.execute("SELECT text FROM notes").fetchall() == [("lost",)]


def test_rollback_that_fails_leaves_everything_as_it_was(db: sqlite3.Connection, path: Path) -> None:
    failing = Step(NOTES.name, NOTES.up, ("DROP TABLE notes", "DROP TABLE nowhere"))
    migrate(db, path, (*STEPS, failing))
    before = schema(db), applied(db)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        rollback(db, path, (*STEPS, failing))
    assert not db.in_transaction
    assert (schema(db), applied(db)) == before


def test_rollback_that_breaks_a_reference_is_refused(db: sqlite3.Connection, path: Path) -> None:
    """Somebody's own table refers to ours: our tables stay."""
    migrate(db, path)
    add("a")(db)
    db.execute("CREATE TABLE theirs (person INTEGER REFERENCES people (id))")
    db.execute("INSERT INTO theirs SELECT id FROM people")
    while applied(db) != [FIRST]:
        rollback(db, path)
    before = schema(db), applied(db)
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        rollback(db, path)
    assert not db.in_transaction
    assert (schema(db), applied(db), names(db)) == (*before, ["a"])


def test_an_error_that_ends_the_transaction_is_reported_as_itself(db: sqlite3.Connection, path: Path) -> None:
    ending = Step(NOTES.name, NOTES.up, ("ROLLBACK", "SELECT nowhere"))
    migrate(db, path, (*STEPS, ending))
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        rollback(db, path, (*STEPS, ending))


# Newer than the program


@pytest.mark.req("S001-72")
async def test_a_newer_database_is_refused_and_unchanged(path: Path) -> None:
    with closing(connect(path)) as db:
        migrate(db, path, MORE)
        add("a")(db)
    before = path.read_bytes()
    with pytest.raises(NewerDatabase, match=rf"written by a newer trunkline \(it has {NOTES.name}\)") as refused:
        await Store.open(path.parent)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [NAME]


def test_what_a_newer_program_did_is_not_undone(db: sqlite3.Connection, path: Path) -> None:
    migrate(db, path, MORE)
    before = schema(db), applied(db)
    with pytest.raises(NewerDatabase, match=NOTES.name):
        rollback(db, path)
    assert (schema(db), applied(db)) == before


# Triggers


@pytest.mark.parametrize("name", [*TRIGGERS, *SEARCH_TRIGGERS])
@pytest.mark.parametrize("change", ["dropped", "changed"])
def test_a_trigger_that_somebody_touched_is_restored(
    db: sqlite3.Connection, path: Path, name: str, change: str
) -> None:
    migrate(db, path)
    before = schema(db)
    db.execute(f"DROP TRIGGER {name}")
    if change == "changed":
        db.execute(f"CREATE TRIGGER {name} AFTER DELETE ON aliases BEGIN SELECT 1; END")
    assert schema(db) != before
    assert migrate(db, path) == []
    assert schema(db) == before


@pytest.mark.parametrize("name", ["theirs", "their own", 'the "quoted" one', "select"])
def test_a_trigger_that_is_not_ours_does_not_stay(db: sqlite3.Connection, path: Path, name: str) -> None:
    migrate(db, path)
    before = schema(db)
    quoted = name.replace('"', '""')
    db.execute(f'CREATE TRIGGER "{quoted}" BEFORE INSERT ON messages BEGIN SELECT RAISE(IGNORE); END')
    migrate(db, path)
    assert schema(db) == before


# The third step


def test_platforms_there_and_back(db: sqlite3.Connection, path: Path) -> None:
    """What was there before stays; what came with the step goes with it."""
    step = next(step for step in STEPS if step.name == "m003_platforms")
    earlier = STEPS[: STEPS.index(step)]
    migrate(db, path, earlier)
    before = {one for one in schema(db) if one[0] != "trigger"}
    db.execute(
        "INSERT INTO inbox (channel, external_id, key, address, message_id, text, received_at)"
        " VALUES ('telegram', '1', 'k', '{}', 'm1', 'hello', 5)"
    )
    db.execute(
        "INSERT INTO outbox (place, address, kind, text, state, created_at, changed_at)"
        " VALUES ('p', '{}', 'final', 'answer', 'sending', 5, 5)"
    )
    old = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in ("inbox", "outbox")}
    assert migrate(db, path, (*earlier, step)) == [step.name]
    assert db.execute("SELECT about, thought, open_until FROM inbox").fetchall() == [("{}", None, 0)]
    assert db.execute("SELECT filename, blocked, part FROM outbox").fetchall() == [(None, 0, 0)]
    db.execute("INSERT INTO holds VALUES ('p', 9)")
    db.execute("UPDATE outbox SET blocked = 1, part = 2, filename = 'x'")
    db.execute('UPDATE inbox SET thought = 1, about = \'{"user":"7"}\'')
    rollback(db, path, (*earlier, step))
    assert schema(db) == before, "the triggers are made at the next start"
    assert {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in ("inbox", "outbox")} == old
    assert integrity(db) == "ok"
