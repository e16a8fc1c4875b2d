"""Retention: ended sessions go after their time, in batches that leave a whole session each time."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import compactions, messages, outbox, retention, sessions, turns
from store.outbox import Draft
from store.records import OutboxState, Role, Session, Status, Usage
from store.retention import Removed
from store.turns import Ending, Instruction
from tests.store.golden.make import NOW
from tests.store.rows import count, dump, fresh, make_address, make_key, run, say
from tests.store.test_state_machine import VIOLATIONS

#: Later than everything here. (The triggers take the time from the clock where none is given.)
EVER = NOW + 10**9


def make(db: sqlite3.Connection, peer: str, turns_of: list[int], *, end: int | None = 1000) -> Session:
    """A session with turns of so many messages each, and one message of no turn between them."""
    session = run(db, sessions.create, make_key(peer=peer), 1)
    for number, size in enumerate(turns_of):
        asked = tuple(say(f"{number}") for _ in range(size))
        turn = run(db, turns.add, session.id, Instruction(messages=asked, summary="asked"), 10)
        usage = Usage(input=number, output=2, source="provider")
        run(db, turns.complete, turn.id, None, say("answer", Role.AGENT) if size else None, Ending(usage=usage), 11)
        run(db, outbox.put, Draft(address=make_address(), text="answer", turn=turn.id), OutboxState.SENT, 12)
        run(db, messages.append, session.id, [say("between", Role.SYSTEM)], 13)
        through = sessions.by_number(db, session.id).last_seq
        run(db, compactions.record, session.id, strategy="x", through_seq=through, summary="s", tokens=(2, 1), now=14)
    if end is not None:
        run(db, sessions.end, session, Status.COMPLETED, "x", NOW + end)
    return sessions.by_number(db, session.id)


def own(db: sqlite3.Connection, session: Session) -> list[object]:
    """All that belongs to a session."""
    where = {
        "sessions": "id",
        "turns": "session",
        "messages": "session",
        "compactions": "session",
        "outbox": "turn >> 32",
    }
    return [
        db.execute(f"SELECT * FROM {table} WHERE {column} = ?", (session.id,)).fetchall()
        for table, column in where.items()
    ]


def sound(db: sqlite3.Connection) -> None:
    broken = {name: rows for name, sql in VIOLATIONS.items() if (rows := db.execute(sql).fetchall())}
    assert broken == {}
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")


@settings(deadline=None, max_examples=60)
@given(sizes=st.lists(st.integers(0, 4), max_size=6), most=st.integers(1, 7), whole=st.booleans())
def test_every_batch_leaves_a_whole_session(sizes: list[int], most: int, whole: bool) -> None:
    """Numbers stay dense, counters equal to rows, turns whole; the time of the last activity stays."""
    with fresh() as db:
        session, other = make(db, "1", sizes), make(db, "2", [2, 1], end=None)
        before = own(db, other)
        work = retention.remove_sessions if whole else retention.remove_messages
        total = session.last_seq
        batches = 0
        while (removed := run(db, work, EVER, most)).anything:
            batches += 1
            total -= removed.messages
            sound(db)
            if not removed.sessions:
                left = sessions.by_number(db, session.id)
                assert left.last_seq == total
                assert left.updated_at <= session.updated_at + batches
        assert total == 0
        assert count(db, "sessions", f"id = {session.id}") == (0 if whole else 1)
        assert count(db, "turns", f"id >> 32 = {session.id}") == 0 or not session.last_seq
        assert own(db, other) == before


def test_a_batch_removes_no_more_than_its_share(db: sqlite3.Connection) -> None:
    make(db, "1", [1] * 20)
    assert run(db, retention.remove_sessions, EVER, 11) == Removed(messages=12), "at a turn's boundary"
    assert run(db, retention.remove_sessions, EVER, 1000) == Removed(sessions=1, messages=48)
    assert run(db, retention.remove_sessions, EVER, 10) == Removed()


@pytest.mark.parametrize("work", [retention.remove_sessions, retention.remove_messages])
def test_only_what_ended_before_goes(db: sqlite3.Connection, work: object) -> None:
    assert callable(work)
    make(db, "live", [2], end=None)
    make(db, "young", [2], end=2_000)
    before = dump(db)
    assert run(db, work, NOW + 2_000) == Removed()
    assert dump(db) == before
    old = make(db, "old", [2], end=1_000)
    assert run(db, work, NOW + 2_000).messages == old.last_seq
    assert run(db, work, NOW + 2_000) == Removed()


def test_a_session_without_its_messages_is_still_listed_and_counts_nothing(db: sqlite3.Connection) -> None:
    session = make(db, "1", [2, 2])
    run(db, retention.remove_messages, EVER)
    left = sessions.get(db, session.public_id)
    assert (left.status, left.key, left.created_at) == (session.status, session.key, session.created_at)
    assert (left.message_count, left.turn_count, left.total_input_tokens, left.compaction_count) == (0, 0, 0, 0)
    assert (count(db, "outbox"), count(db, "compactions"), left.last_compaction_at) == (0, 0, None)


def test_looking_for_old_sessions_scans_none(db: sqlite3.Connection) -> None:
    said: list[str] = []
    db.set_trace_callback(said.append)
    retention.remove_sessions(db, 1)
    retention.remove_messages(db, 1)
    db.set_trace_callback(None)
    assert len(said) == 2
    for sql in said:
        [plan] = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()]
        assert "USING INDEX sessions_ended" in plan or "USING COVERING INDEX sessions_ended" in plan, plan
