"""The schema: what the database itself refuses, fills in, carries away and finds without a scan."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from routing.keys import PeerKind, SessionKey
from store import compactions, inbox, messages, outbox, people, sessions, turns
from store.ids import now, pack, span, to_datetime
from store.messages import HistoryOptions
from store.sessions import SessionFilter
from tests.store.helpers import in_memory

Row = dict[str, Any]
Refused = sqlite3.IntegrityError

KEY = SessionKey("main", "telegram", "bot", PeerKind.GROUP, "-100")
ADDRESS = json.dumps({"channel": "telegram", "account": "bot", "chat": "-100"})

#: The least that makes a row of each table; every one stands in the database of the fixture.
ROWS: dict[str, Row] = {
    "people": {"id": 1, "public_id": "p1"},
    "identities": {"channel": "telegram", "user_id": "1", "person": 1},
    "sessions": {
        "id": 1,
        "public_id": "s1",
        "key": str(KEY),
        "agent_id": "main",
        "channel": "telegram",
        "account_id": "bot",
        "peer_kind": "group",
        "peer_id": "-100",
    },
    "turns": {
        "id": pack(1, 1),
        "public_id": "t1",
        "conversation_id": "s1",
        "first_message": 1,
        "last_message": 1,
        "instruction_summary": "?",
        "created_at": 1,
        "status_at": 1,
    },
    "messages": {"id": pack(1, 1), "public_id": "m1", "role": "user", "content": '{"type":"text","text":"?"}'},
    "compactions": {
        "session": 1,
        "strategy": "summary",
        "through_seq": 1,
        "summary": "short",
        "tokens_before": 2,
        "tokens_after": 1,
        "created_at": 1,
    },
    "inbox": {
        "channel": "telegram",
        "external_id": "e1",
        "key": str(KEY),
        "address": ADDRESS,
        "message_id": "i1",
        "text": "?",
        "received_at": 1,
    },
    "outbox": {
        "place": "telegram",
        "address": ADDRESS,
        "kind": "final",
        "text": "!",
        "state": "held",
        "created_at": 1,
        "changed_at": 1,
    },
    "aliases": {"channel": "telegram", "account": "bot", "old_chat": "1", "new_chat": "2", "made_at": 1},
    "refusals": {
        "channel": "telegram",
        "account": "bot",
        "chat": "1",
        "sender": "1",
        "reason": "unknown_sender",
        "at": 1,
    },
}

#: What a second row of the table has to have of its own.
OWN: dict[str, Row] = {
    "people": {"id": 2, "public_id": "p2"},
    "identities": {"user_id": "2"},
    "sessions": {"id": 2, "public_id": "s2", "key": "main:telegram:bot:group:-200"},
    "turns": {"id": pack(2, 1), "public_id": "t2"},
    "messages": {"id": pack(1, 2), "public_id": "m2"},
    "inbox": {"external_id": "e2", "message_id": "i2"},
    "aliases": {"old_chat": "3"},
}

NOT_NULL = {
    "people": ["public_id", "name", "owner", "known", "created_at"],
    "identities": ["channel", "user_id", "person"],
    "sessions": [
        "public_id",
        "key",
        "status",
        "last_seq",
        "message_count",
        "turn_count",
        "total_input_tokens",
        "total_output_tokens",
        "compaction_count",
        "metadata",
    ],
    "turns": [
        "public_id",
        "status",
        "mode",
        "conversation_id",
        "attempts",
        "first_message",
        "last_message",
        "instruction_summary",
        "warnings",
        "errors",
        "created_at",
        "status_at",
    ],
    "messages": ["public_id", "changed_at"],
    "compactions": [
        "session",
        "strategy",
        "through_seq",
        "summary",
        "tokens_before",
        "tokens_after",
        "created_at",
    ],
    "inbox": [
        "channel",
        "external_id",
        "key",
        "address",
        "sender_name",
        "message_id",
        "text",
        "state",
        "received_at",
    ],
    "outbox": [
        "place",
        "address",
        "kind",
        "text",
        "state",
        "uncertain",
        "attempts",
        "next_at",
        "created_at",
        "changed_at",
    ],
    "aliases": ["channel", "account", "old_chat", "new_chat", "made_at"],
    "refusals": ["channel", "account", "chat", "sender", "reason", "at"],
}

LIVE = ("active", "idle", "compacted")
ENDED = ("completed", "cancelled", "error", "archived")
STATUSES = (*LIVE, *ENDED)

#: R-02, to the letter.
WAYS = (
    {("active", "idle"), ("compacted", "idle")}
    | {("active", "compacted")}
    | {("idle", "active"), ("compacted", "active")}
    | set(product(LIVE, ("completed", "cancelled", "error")))
    | {(old, "archived") for old in STATUSES if old != "archived"}
)


def req(*rows: str) -> pytest.MarkDecorator:
    return pytest.mark.req(*rows)


def insert(db: sqlite3.Connection, table: str, row: Row) -> None:
    columns, marks = ", ".join(row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(row.values()))


def another(table: str, **changes: Any) -> Row:
    """A second row that is right, but for the changes."""
    return ROWS[table] | OWN.get(table, {}) | changes


def fetch(db: sqlite3.Connection, table: str, columns: str, where: str = "1") -> tuple[Any, ...]:
    return tuple(db.execute(f"SELECT {columns} FROM {table} WHERE {where}").fetchone())


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """One row in every table, and a second session."""
    with closing(in_memory()) as connection:
        for table, row in ROWS.items():
            insert(connection, table, row)
        insert(connection, "sessions", another("sessions"))
        yield connection


# What is refused


@pytest.mark.parametrize("table", [table for table in ROWS if table != "sessions"])
def test_a_second_row_that_is_right_is_taken(db: sqlite3.Connection, table: str) -> None:
    """Otherwise the refusals below would show nothing."""
    before = fetch(db, table, "count(*)")[0]
    insert(db, table, another(table))
    assert fetch(db, table, "count(*)")[0] == before + 1


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(pytest.param(table, column) for table, columns in NOT_NULL.items() for column in columns),
        *(
            pytest.param("sessions", column, marks=req("S001-39"))
            for column in ("agent_id", "channel", "account_id", "peer_kind", "peer_id")
        ),
        *(pytest.param("sessions", column, marks=req("S001-40")) for column in ("created_at", "updated_at")),
        *(
            pytest.param("messages", column, marks=req("S001-44"))
            for column in ("role", "content", "timestamp", "metadata")
        ),
    ],
)
def test_null_is_refused(db: sqlite3.Connection, table: str, column: str) -> None:
    row = another(table) | ({"id": 3, "public_id": "s3", "key": "k"} if table == "sessions" else {})
    with pytest.raises(Refused, match=rf"NOT NULL constraint failed: {table}\.{column}$"):
        insert(db, table, row | {column: None})


@req("S001-39")
@pytest.mark.parametrize("column", ["agent_id", "channel", "account_id", "peer_kind", "peer_id"])
def test_a_session_cannot_go_without(db: sqlite3.Connection, column: str) -> None:
    row = another("sessions", id=3, public_id="s3", key="k")
    del row[column]
    with pytest.raises(Refused, match=rf"NOT NULL constraint failed: sessions\.{column}$"):
        insert(db, "sessions", row)


@req("S001-44")
@pytest.mark.parametrize("column", ["tool_calls", "tool_call_id", "token_count", "turn"])
def test_messages_may_go_without(db: sqlite3.Connection, column: str) -> None:
    insert(db, "messages", another("messages") | {column: None})
    assert fetch(db, "messages", column, f"id = {pack(1, 2)}") == (None,)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        *(
            pytest.param("messages", "role", role, marks=req("S000-08", "S000-87", "S001-27"))
            for role in ("assistant", "tool", "User", "")
        ),
        *(
            pytest.param("messages", "content", content, marks=req("S000-88"))
            for content in ("hello", "", "{", "{'a': 1}", '{"a": NaN}')
        ),
        pytest.param("messages", "tool_calls", "hello"),
        pytest.param("messages", "metadata", "hello"),
        pytest.param("messages", "token_count", -1),
        *(
            pytest.param("sessions", "status", status, marks=req("S000-82"))
            for status in ("done", "Active", "", "pending")
        ),
        pytest.param("sessions", "peer_kind", "thread", marks=req("S001-39")),
        pytest.param("sessions", "metadata", "hello", marks=req("S001-42")),
        *(
            pytest.param("turns", "status", status, marks=req("S004-50", "S004-51"))
            for status in ("Pending", "running", "")
        ),
        pytest.param("turns", "usage_source", "guessed"),
        pytest.param("turns", "input_tokens", -1),
        pytest.param("turns", "output_tokens", -1),
        pytest.param("turns", "warnings", "hello"),
        pytest.param("turns", "errors", "hello"),
        pytest.param("people", "owner", 2),
        pytest.param("people", "known", 2),
        pytest.param("compactions", "tokens_after", 2),
        pytest.param("inbox", "state", "lost"),
        pytest.param("inbox", "address", "hello"),
        pytest.param("outbox", "state", "lost"),
        pytest.param("outbox", "kind", "letter"),
        pytest.param("outbox", "address", "hello"),
    ],
)
def test_a_value_out_of_range_is_refused(db: sqlite3.Connection, table: str, column: str, value: object) -> None:
    db.execute("DROP TRIGGER turns_start_pending")  # it would speak first
    row = another(table) | ({"id": 3, "public_id": "s3", "key": "k"} if table == "sessions" else {})
    with pytest.raises(Refused, match="CHECK constraint failed"):
        insert(db, table, row | {column: value})


@req("S000-08", "S000-87")
@pytest.mark.parametrize("role", ["user", "agent", "system"])
def test_the_three_roles_are_taken(db: sqlite3.Connection, role: str) -> None:
    insert(db, "messages", another("messages", role=role))


@req("S000-82")
@pytest.mark.parametrize("status", STATUSES)
def test_the_seven_statuses_are_taken(db: sqlite3.Connection, status: str) -> None:
    insert(db, "sessions", another("sessions", id=3, public_id="s3", key="k", status=status))


@pytest.mark.parametrize(
    ("table", "changes", "columns"),
    [
        pytest.param("sessions", {"public_id": "s1"}, "sessions.public_id", marks=req("S000-80")),
        pytest.param("messages", {"public_id": "m1"}, "messages.public_id", marks=req("S000-85", "S001-26")),
        pytest.param("messages", {"id": pack(1, 1)}, "messages.id", marks=req("S000-85")),
        pytest.param("turns", {"id": pack(1, 1)}, "turns.id", marks=req("S004-85")),
        pytest.param("turns", {"public_id": "t1"}, "turns.public_id"),
        pytest.param("turns", {"id": pack(1, 2)}, "turns.session"),
        pytest.param("people", {"public_id": "p1"}, "people.public_id"),
        pytest.param("identities", {"user_id": "1"}, "identities.channel, identities.user_id"),
        pytest.param("inbox", {"external_id": "e1"}, "inbox.channel, inbox.external_id"),
        pytest.param("aliases", {"old_chat": "1"}, "aliases.channel, aliases.account, aliases.old_chat"),
    ],
)
def test_a_second_one_is_refused(db: sqlite3.Connection, table: str, changes: Row, columns: str) -> None:
    row = another(table) | ({"id": 3, "key": "k"} if table == "sessions" else {})
    with pytest.raises(Refused, match=rf"UNIQUE constraint failed: {columns}$"):
        insert(db, table, row | changes)


def test_there_is_one_owner(db: sqlite3.Connection) -> None:
    db.execute("UPDATE people SET owner = 1")
    with pytest.raises(Refused, match=r"UNIQUE constraint failed: people\.owner"):
        insert(db, "people", another("people", owner=1))


@req("S001-38")
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("other", STATUSES)
def test_a_key_has_one_live_session_and_any_number_of_ended_ones(
    db: sqlite3.Connection, status: str, other: str
) -> None:
    insert(db, "sessions", another("sessions", id=3, public_id="s3", key="k", status=status))
    row = another("sessions", id=4, public_id="s4", key="k", status=other)
    if status in LIVE and other in LIVE:
        with pytest.raises(Refused, match=r"UNIQUE constraint failed: sessions\.key"):
            insert(db, "sessions", row)
    else:
        insert(db, "sessions", row)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        pytest.param("messages", {"id": pack(99, 1)}, marks=req("S000-86", "S001-45")),
        pytest.param("turns", {"id": pack(99, 1)}),
        pytest.param("turns", {"created_by": 99}),
        pytest.param("sessions", {"person": 99}),
        pytest.param("sessions", {"predecessor": 99}),
        pytest.param("identities", {"person": 99}),
        pytest.param("people", {"merged_into": 99}),
        pytest.param("compactions", {"session": 99}),
        pytest.param("inbox", {"session": 99}),
        pytest.param("inbox", {"person": 99}),
        pytest.param("inbox", {"turn": pack(99, 1)}),
        pytest.param("outbox", {"turn": pack(99, 1)}),
    ],
)
def test_a_reference_to_nothing_is_refused(db: sqlite3.Connection, table: str, changes: Row) -> None:
    row = another(table) | ({"id": 3, "public_id": "s3", "key": "k"} if table == "sessions" else {})
    with pytest.raises(Refused, match="FOREIGN KEY constraint failed"):
        insert(db, table, row | changes)


# What is filled in


@req("S000-83", "S000-03", "S001-40")
def test_a_session_gets_its_times_by_itself(db: sqlite3.Connection) -> None:
    created, updated = fetch(db, "sessions", "created_at, updated_at")
    assert created == updated
    assert abs(datetime.now(UTC) - to_datetime(created)) < timedelta(minutes=1)


@req("S000-89")
def test_a_message_gets_its_time_by_itself(db: sqlite3.Connection) -> None:
    timestamp, changed = fetch(db, "messages", "timestamp, changed_at")
    assert timestamp == changed
    assert abs(datetime.now(UTC) - to_datetime(timestamp)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("table", "columns", "values"),
    [
        pytest.param(
            "sessions",
            "message_count, total_input_tokens, total_output_tokens, turn_count, last_seq, compaction_count",
            (0,) * 6,
            marks=req("S001-41"),
        ),
        pytest.param("sessions", "metadata", ("{}",), marks=req("S001-42")),
        pytest.param("sessions", "status", ("active",), marks=req("S001-43", "S000-03")),
        pytest.param("messages", "metadata", ("{}",), marks=req("S001-44")),
        pytest.param("turns", "status", ("pending",), marks=req("S004-52")),
        pytest.param("turns", "attempts, mode, warnings, errors", (1, "ask", "[]", "[]")),
        pytest.param("people", "name, owner, known", ("", 0, 0)),
        pytest.param("inbox", "state, sender_name", ("waiting", "")),
        pytest.param("outbox", "uncertain, attempts, next_at", (0, 0, 0)),
    ],
)
def test_defaults(db: sqlite3.Connection, table: str, columns: str, values: tuple[object, ...]) -> None:
    assert fetch(db, table, columns) == values


@req("S001-41")
def test_counters_are_integers(db: sqlite3.Connection) -> None:
    kinds = {row[1]: row[2] for row in db.execute("PRAGMA table_info(sessions)").fetchall()}
    for column in ("message_count", "total_input_tokens", "total_output_tokens"):
        assert kinds[column] == "INTEGER"


@req("S000-83")
def test_any_update_of_a_session_moves_its_time(db: sqlite3.Connection) -> None:
    columns = [row[1] for row in db.execute("PRAGMA table_info(sessions)").fetchall()]
    for column in set(columns) - {"id", "updated_at"}:
        [before] = fetch(db, "sessions", "updated_at", "id = 1")
        db.execute(f"UPDATE sessions SET {column} = {column} WHERE id = 1")
        [after] = fetch(db, "sessions", "updated_at", "id = 1")
        assert after > before, column


@req("S000-83")
def test_a_time_that_is_given_is_kept(db: sqlite3.Connection) -> None:
    db.execute("UPDATE sessions SET title = 'x', updated_at = 5 WHERE id = 1")
    assert fetch(db, "sessions", "updated_at", "id = 1") == (5,)


@req("S000-83")
def test_an_update_touches_no_other_session(db: sqlite3.Connection) -> None:
    before = fetch(db, "sessions", "updated_at", "id = 2")
    db.execute("UPDATE sessions SET title = 'x' WHERE id = 1")
    assert fetch(db, "sessions", "updated_at", "id = 2") == before


# Status machines


@req("S000-82")
def test_a_session_goes_the_ways_of_the_one_table_and_no_other(db: sqlite3.Connection) -> None:
    taken, reasons = set(), set()
    for number, (old, new) in enumerate(product(STATUSES, STATUSES), 100):
        row = another("sessions", id=number, public_id=str(number), key=str(number), status=old)
        insert(db, "sessions", row)
        try:
            db.execute("UPDATE sessions SET status = ? WHERE id = ?", (new, number))
        except Refused as refused:
            reasons.add(str(refused))
        else:
            taken.add((old, new))
        assert fetch(db, "sessions", "status", f"id = {number}") == (new if (old, new) in taken else old,)
    assert taken == WAYS | {(same, same) for same in STATUSES}
    assert reasons == {"forbidden change of session status"}


@req("S004-52", "S004-86")
@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_turn_is_pending_when_it_is_made(db: sqlite3.Connection, status: str) -> None:
    with pytest.raises(Refused, match="a turn starts as pending"):
        insert(db, "turns", another("turns", status=status))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("completed", marks=req("S004-97", "S004-155")),
        pytest.param("failed", marks=req("S004-108")),
    ],
)
def test_no_column_of_an_ended_turn_changes(db: sqlite3.Connection, status: str) -> None:
    columns = [row[1] for row in db.execute("PRAGMA table_info(turns)").fetchall()]
    assert {"id", "status", "answer_summary", "input_tokens", "status_at"} < set(columns)
    db.execute("UPDATE turns SET status = ?", (status,))
    before = fetch(db, "turns", "*")
    for column in columns:
        for value in (column, "1", "NULL", "'pending'"):
            with pytest.raises(Refused, match="an ended turn never changes|datatype mismatch"):
                db.execute(f"UPDATE turns SET {column} = {value}")
    assert fetch(db, "turns", "*") == before


@req("S004-51")
@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_pending_turn_changes_and_ends(db: sqlite3.Connection, status: str) -> None:
    db.execute("UPDATE turns SET model = 'm', attempts = 2")
    db.execute("UPDATE turns SET status = ?", (status,))
    assert fetch(db, "turns", "status, model, attempts") == (status, "m", 2)


# What goes with a session


BELONGING = ("turns", "messages", "compactions", "inbox", "outbox")


def fill(db: sqlite3.Connection, session: int) -> None:
    """Something of everything that belongs to a session."""
    insert(db, "turns", another("turns", id=pack(session, 9), public_id=f"t{session}-9"))
    insert(db, "messages", another("messages", id=pack(session, 9), public_id=f"m{session}-9"))
    insert(db, "compactions", another("compactions", session=session))
    turn = pack(session, 9)
    mine = {"external_id": f"e{session}-9", "message_id": f"i{session}-9", "session": session, "turn": turn}
    insert(db, "inbox", another("inbox") | mine)
    insert(db, "outbox", another("outbox", turn=turn))


def numbers(db: sqlite3.Connection, session: int) -> dict[str, int]:
    tables = {"turns": "id >> 32", "messages": "id >> 32", "outbox": "turn >> 32"}
    return {
        table: fetch(db, table, "count(*)", f"{tables.get(table, 'session')} = {session}")[0] for table in BELONGING
    }


def test_deleting_a_session_takes_all_that_is_its_own(db: sqlite3.Connection) -> None:
    insert(db, "sessions", another("sessions", id=3, public_id="s3", key="k3"))
    insert(db, "sessions", another("sessions", id=4, public_id="s4", key="k4", predecessor=3))
    for session in (3, 4):
        fill(db, session)
    own = dict.fromkeys(BELONGING, 1)
    assert numbers(db, 3) == numbers(db, 4) == own
    db.execute("DELETE FROM sessions WHERE id = 3")
    assert set(numbers(db, 3).values()) == {0}
    assert numbers(db, 4) == own
    assert fetch(db, "sessions", "predecessor", "id = 4") == (None,)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def test_deleting_a_session_takes_its_ended_turns_too(db: sqlite3.Connection) -> None:
    db.execute("UPDATE turns SET status = 'completed'")
    db.execute("DELETE FROM sessions WHERE id = 1")
    assert fetch(db, "turns", "count(*)") == (0,)


def test_a_message_that_waits_on_a_key_survives_a_session_of_the_key(db: sqlite3.Connection) -> None:
    db.execute("UPDATE inbox SET turn = ?", (pack(1, 1),))
    db.execute("DELETE FROM sessions WHERE id = 1")
    assert db.execute("SELECT turn FROM inbox").fetchall() == [(None,)]


def test_the_number_of_a_deleted_session_never_comes_back(db: sqlite3.Connection) -> None:
    row = another("sessions", public_id="s3", key="k3")
    del row["id"]
    insert(db, "sessions", row)
    [number] = fetch(db, "sessions", "id", "public_id = 's3'")
    db.execute("DELETE FROM sessions WHERE id = ?", (number,))
    insert(db, "sessions", row)
    assert fetch(db, "sessions", "id", "public_id = 's3'")[0] > number


@req("S000-84", "S000-86")
def test_the_session_of_a_message_is_in_its_number(db: sqlite3.Connection) -> None:
    insert(db, "messages", another("messages", id=pack(2, 1), public_id="m2-1"))
    found = db.execute("SELECT m.public_id, s.public_id FROM messages m JOIN sessions s ON s.id = m.session").fetchall()
    assert sorted(found) == [("m1", "s1"), ("m2-1", "s2")]
    assert [message.public_id for message in messages.every(db, 2)] == ["m2-1"]


# What is found without a scan


def plan(db: sqlite3.Connection, sql: str, values: tuple[object, ...] = ()) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()]


def assert_searched(steps: list[str]) -> None:
    assert any(step.startswith("SEARCH") for step in steps), steps
    assert not any(step.startswith("SCAN") for step in steps), steps


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param("SELECT * FROM messages WHERE session = 1", marks=req("S000-92", "S000-84")),
        pytest.param("SELECT * FROM turns WHERE session = 1", marks=req("S000-92")),
        pytest.param("SELECT * FROM sessions WHERE status = 'error'", marks=req("S000-92")),
        pytest.param("SELECT * FROM sessions WHERE created_at > 1 ORDER BY created_at", marks=req("S000-92")),
        pytest.param(
            "SELECT * FROM messages WHERE session = 1 AND changed_at > 1 ORDER BY changed_at",
            marks=req("S000-92", "S001-36"),
        ),
        pytest.param("SELECT * FROM sessions WHERE public_id = 's1'", marks=req("S000-80")),
        pytest.param("SELECT * FROM messages WHERE public_id = 'm1'", marks=req("S000-85")),
        pytest.param("SELECT * FROM sessions WHERE agent_id = 'main' ORDER BY created_at DESC"),
    ],
)
def test_a_look_up_searches(db: sqlite3.Connection, sql: str) -> None:
    steps = plan(db, sql)
    assert_searched(steps)
    assert not any("TEMP B-TREE" in step for step in steps), steps


FUNCTIONS: dict[str, Callable[[sqlite3.Connection], object]] = {
    "the newest page": lambda db: messages.page(db, 1, HistoryOptions()),
    "the page before": lambda db: messages.page(db, 1, HistoryOptions(before=50)),
    "the page after": lambda db: messages.page(db, 1, HistoryOptions(after=50)),
    "the whole history": lambda db: messages.every(db, 1),
    "what changed": lambda db: messages.changed_since(db, 1, 1),
    "a message": lambda db: messages.by_public_id(db, "m1"),
    "the live session of a key": lambda db: sessions.live(db, KEY),
    "a session": lambda db: sessions.get(db, "s1"),
    "find or create": lambda db: sessions.get_or_create(db, "main", KEY, now()),
    "an agent's sessions": lambda db: sessions.list_for(db, "main", SessionFilter()),
    "resting": lambda db: sessions.rest(db, 1),
    "the turns of a session": lambda db: turns.of_session(db, 1),
    "its pending turn": lambda db: turns.pending_of(db, 1),
    "what waits on a key": lambda db: inbox.waiting(db, KEY),
    "the messages of a turn": lambda db: inbox.of_turn(db, pack(1, 1)),
    "the next delivery": lambda db: outbox.claim(db, "telegram", 1),
    "the deliveries of a turn": lambda db: outbox.of_turn(db, pack(1, 1)),
    "what is parked": outbox.parked,
    "releasing what is held": lambda db: outbox.release_all(db, 1),
    "settling what was being sent": lambda db: outbox.settle(db, 1),
    "the compaction in force": lambda db: compactions.in_force(db, 1),
    "who somebody is": lambda db: people.find(db, "telegram", "1"),
    "the owner": people.owner,
}


@req("S000-92", "S001-36", "S001-37")
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_no_statement_of_the_store_scans_a_table(
    db: sqlite3.Connection, function: Callable[[sqlite3.Connection], object]
) -> None:
    said: list[str] = []
    db.set_trace_callback(said.append)
    function(db)
    db.set_trace_callback(None)
    statements = [sql for sql in said if not sql.startswith("--")]
    assert statements
    for sql in statements:
        assert_searched(plan(db, sql))


def test_history_is_a_range_of_the_primary_key(db: sqlite3.Connection) -> None:
    sql = "SELECT * FROM messages WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 50"
    assert plan(db, sql, span(1)) == ["SEARCH messages USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]


def test_a_deleted_session_or_turn_finds_its_referrers_by_an_index(db: sqlite3.Connection) -> None:
    """Each delete asks each of these. People are never deleted."""
    asked = set()
    for table in ROWS:
        for row in db.execute(f"PRAGMA foreign_key_list({table})").fetchall():
            if row[2] in {"sessions", "turns"}:
                assert_searched(plan(db, f"SELECT 1 FROM {table} WHERE {row[3]} = ?", (1,)))
                asked.add((table, row[3]))
    assert asked >= {("messages", "session"), ("turns", "session"), ("inbox", "turn"), ("outbox", "turn")}


def test_the_work_of_a_delete_does_not_grow_with_other_sessions(db: sqlite3.Connection) -> None:
    """Measured, not planned: the steps of SQLite's machine, beside nothing and beside thousands of rows."""

    def steps_of_a_delete(number: int) -> int:
        insert(db, "sessions", another("sessions", id=number, public_id=f"s{number}", key=f"k{number}"))
        fill(db, number)
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        db.set_progress_handler(count, 1)
        db.execute("DELETE FROM sessions WHERE id = ?", (number,))
        db.set_progress_handler(None, 0)
        return steps

    alone = steps_of_a_delete(5)
    db.execute("BEGIN")
    for seq in range(10, 3010):
        insert(db, "messages", another("messages", id=pack(1, seq), public_id=f"many-{seq}"))
        mine = {"external_id": f"many-{seq}", "message_id": f"many-{seq}", "session": 1, "turn": pack(1, 1)}
        insert(db, "inbox", another("inbox") | mine)
        insert(db, "outbox", another("outbox", turn=pack(1, 1)))
        insert(db, "compactions", another("compactions"))
        row = another("sessions", id=seq, public_id=f"s{seq}", key=f"k{seq}", predecessor=1)
        insert(db, "sessions", row)
        insert(db, "turns", another("turns", id=pack(seq, 1), public_id=f"many-{seq}"))
    db.execute("COMMIT")
    assert steps_of_a_delete(6) <= alone + 50
