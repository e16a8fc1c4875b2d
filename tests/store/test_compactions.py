"""Compactions: a summary stands for a part of the history, which itself never changes; the last can be undone."""

import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import NothingToUndo, UnknownSession
from store import compactions, messages, sessions
from store.records import Compaction, Session, Status
from tests.store.rows import arrive, dump, fresh, make_key, run, say

KEY = make_key()


def make(db: sqlite3.Connection, agent: str = "ada") -> Session:
    session = run(db, sessions.get_or_create, agent, make_key(agent), 1)
    run(db, messages.append, session.id, [say("one"), say("two"), say("three")], 2)
    return session


def record(db: sqlite3.Connection, session: Session, through: int = 2, strategy: str = "window") -> Compaction:
    return run(
        db,
        compactions.record,
        session.id,
        strategy=strategy,
        through_seq=through,
        summary=f"up to {through} \ud83d",
        tokens=(90, 10),
        now=100,
    )


@pytest.mark.req("S001-20", "S001-24")
def test_recorded_as_given(db: sqlite3.Connection) -> None:
    session = make(db)
    history = messages.every(db, session.id)
    made = record(db, session)
    assert made == Compaction(
        id=made.id,
        session=session.id,
        strategy="window",
        through_seq=2,
        summary="up to 2 \ufffd",
        tokens_before=90,
        tokens_after=10,
        created_at=100,
        undone_at=None,
    )
    after = sessions.by_number(db, session.id)
    assert (after.status, after.compaction_count, after.last_compaction_at) == (Status.COMPACTED, 1, 100)
    assert compactions.in_force(db, session.id) == made
    assert messages.every(db, session.id) == history


@pytest.mark.req("S001-24")
def test_compacted_until_the_next_message(db: sqlite3.Connection) -> None:
    session = make(db)
    made = record(db, session)
    arrive(db, "next")
    assert sessions.by_number(db, session.id).status is Status.ACTIVE
    assert compactions.in_force(db, session.id) == made


def test_what_does_not_shrink_is_refused(db: sqlite3.Connection) -> None:
    session = make(db)
    before = dump(db)
    with pytest.raises(sqlite3.IntegrityError, match="tokens_after < tokens_before"):
        run(db, compactions.record, session.id, strategy="x", through_seq=2, summary="long", tokens=(10, 10), now=100)
    assert dump(db) == before


def test_undo_takes_back_one_after_the_other(db: sqlite3.Connection) -> None:
    session = make(db)
    first, second = record(db, session, 1), record(db, session, 2)
    undone = run(db, compactions.undo, session.id, 200)
    assert undone == replace(second, undone_at=undone.undone_at)
    assert undone.undone_at is not None
    assert undone.undone_at > second.created_at
    assert compactions.in_force(db, session.id) == first
    assert sessions.by_number(db, session.id).status is Status.ACTIVE
    assert run(db, compactions.undo, session.id, 200).id == first.id
    assert compactions.in_force(db, session.id) is None
    with pytest.raises(NothingToUndo):
        run(db, compactions.undo, session.id, 300)
    assert [one.undone_at is None for one in compactions.of_session(db, session.id)] == [False, False]
    assert sessions.by_number(db, session.id).compaction_count == 2


def test_trimming_and_leaving_out_are_in_force_side_by_side(db: sqlite3.Connection) -> None:
    session = make(db)

    def found(leaves_out: bool | None) -> int | None:
        made = compactions.in_force(db, session.id, leaves_out=leaves_out)
        return None if made is None else made.id

    summary, trimmed = record(db, session, strategy="summary"), record(db, session, strategy="trim_tools")
    assert (found(None), found(True), found(False)) == (trimmed.id, summary.id, trimmed.id)
    run(db, compactions.undo, session.id, 200)
    assert (found(None), found(True), found(False)) == (summary.id, summary.id, None)


def test_sessions_do_not_see_each_others(db: sqlite3.Connection) -> None:
    mine, other = make(db), make(db, "bob")
    made = record(db, mine)
    assert compactions.in_force(db, other.id) is None
    assert compactions.of_session(db, other.id) == []
    with pytest.raises(NothingToUndo):
        run(db, compactions.undo, other.id, 200)
    assert compactions.of_session(db, mine.id) == [made]


@pytest.mark.req("S001-08")
def test_unknown_sessions_are_typed_errors(db: sqlite3.Connection) -> None:
    with pytest.raises(UnknownSession):
        run(db, compactions.record, 9, strategy="x", through_seq=1, summary="s", tokens=(2, 1), now=1)
    with pytest.raises(NothingToUndo):
        run(db, compactions.undo, 9, 1)


@pytest.mark.req("S001-20")
@settings(deadline=None, max_examples=40)
@given(steps=st.lists(st.sampled_from(["record", "undo", "say"]), max_size=15))
def test_against_a_stack(steps: list[str]) -> None:
    with fresh() as db:
        session = make(db)
        stack, made = list[int](), 0
        for step in steps:
            history = messages.every(db, session.id)
            if step == "record":
                stack.append(record(db, session).id)
                made += 1
            elif step == "say":
                history += run(db, messages.append, session.id, [say("more")], 5)
            elif stack:
                assert run(db, compactions.undo, session.id, 5).id == stack.pop()
            else:
                with pytest.raises(NothingToUndo):
                    run(db, compactions.undo, session.id, 5)
            found = compactions.in_force(db, session.id)
            assert (None if found is None else found.id) == (stack[-1] if stack else None)
            assert sessions.by_number(db, session.id).compaction_count == made
            assert messages.every(db, session.id) == history
