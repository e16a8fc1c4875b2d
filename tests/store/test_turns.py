"""Turns: numbered without gaps, pending once, ended once, unchanged ever after."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import SessionEnded, TurnEnded, TurnRunning, UnknownMessage, UnknownSession, UnknownTurn
from routing.keys import PeerKind
from store import inbox, messages, people, sessions, turns
from store.content import Plan, Text, Tool
from store.ids import pack
from store.records import InboxState, NewMessage, Role, Session, Status, Turn, TurnStatus, Usage
from store.turns import Ending, Instruction
from tests.store.rows import arrive, ask, begin, count, dump, fresh, instruct, make_key, run, say, text_of

KEY = make_key()
DONE = Ending(answer_summary="answer")
FAILED = Ending(errors=("it broke",))


def make(db: sqlite3.Connection) -> Session:
    return run(db, sessions.get_or_create, "ada", KEY, 1)


def add(db: sqlite3.Connection, session: Session, text: str = "question", now: int = 5) -> Turn:
    return run(db, turns.add, session.id, ask(text), now)


def complete(db: sqlite3.Connection, turn: Turn, ending: Ending = DONE, now: int = 9) -> Turn:
    return run(db, turns.complete, turn.id, None, say("answer", Role.AGENT), ending, now)


def fail(db: sqlite3.Connection, turn: Turn, ending: Ending = FAILED, now: int = 9) -> Turn:
    return run(db, turns.fail, turn.id, "note", ending, now)


def row_of(db: sqlite3.Connection, turn: Turn) -> tuple[object, ...]:
    row: tuple[object, ...] = db.execute("SELECT * FROM turns WHERE id = ?", (turn.id,)).fetchone()
    return row


@pytest.mark.req("S004-43", "S004-45", "S004-46", "S004-52", "S004-53", "S004-54", "S004-81", "S004-82", "S004-83")
def test_a_new_turn_is_pending(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session, now=77)
    assert turn == Turn(
        id=pack(session.id, 1),
        public_id=turn.public_id,
        session=session.id,
        seq=1,
        status=TurnStatus.PENDING,
        mode="ask",
        conversation_id=session.public_id,
        created_by=None,
        attempts=1,
        first_message=1,
        last_message=1,
        instruction_summary="question",
        answer_summary=None,
        model=None,
        usage=Usage(),
        warnings=(),
        errors=(),
        created_at=77,
        response_received_at=None,
        status_at=77,
        agent="ada",
    )
    (message,) = messages.every(db, session.id)
    assert (message.content, message.role, message.turn) == (Text("question"), Role.USER, turn.id)


@pytest.mark.req("S004-45", "S004-53", "S004-54", "S004-76", "S004-84", "S004-133")
def test_what_is_given_is_kept(db: sqlite3.Connection) -> None:
    session = make(db)
    person = run(db, people.meet, "telegram", "7", "Grace", 1)
    instruction = Instruction(
        messages=(say("one"), say("two"), say("three")),
        summary="half \ud83d",
        created_by=person.id,
        mode="edit",
        conversation_id="thread 9",
        model="m-1",
        warnings=("index is old",),
    )
    turn = run(db, turns.add, session.id, instruction, 5)
    assert (turn.mode, turn.conversation_id, turn.model) == ("edit", "thread 9", "m-1")
    assert (turn.created_by, turn.warnings, turn.instruction_summary) == (person.id, ("index is old",), "half \ufffd")
    assert (turn.first_message, turn.last_message) == (1, 3)
    history = messages.every(db, session.id)
    assert [(text_of(m), m.turn) for m in history] == [("one", turn.id), ("two", turn.id), ("three", turn.id)]
    assert turns.get(db, turn.id) == turn


@pytest.mark.req("S004-42", "S004-44", "S004-81", "S004-85")
@settings(deadline=None, max_examples=30)
@given(plan=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=25))
def test_numbers_are_dense_in_each_session(plan: list[tuple[int, bool]]) -> None:
    with fresh() as db:
        keys = [make_key(agent, peer) for agent, peer in (("ada", "1"), ("ada", "2"), ("bob", "1"))]
        expected = dict.fromkeys(range(3), 0)
        for lane, good in plan:
            session = run(db, sessions.get_or_create, keys[lane].agent_id, keys[lane], 1)
            turn = add(db, session)
            expected[lane] += 1
            assert turn.seq == expected[lane]
            (complete if good else fail)(db, turn)
        for lane, key in enumerate(keys):
            live = sessions.live(db, key)
            found = [] if live is None else turns.of_session(db, live.id)
            assert [turn.seq for turn in found] == list(range(1, expected[lane] + 1))
            assert live is None or live.turn_count == len(found)


def test_one_pending_turn_per_session(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session)
    before = dump(db)
    with pytest.raises(TurnRunning):
        add(db, session)
    assert dump(db) == before
    assert turns.pending_of(db, session.id) == turn
    complete(db, turn)
    assert turns.pending_of(db, session.id) is None
    assert add(db, session).seq == 2


@pytest.mark.req("S004-44", "S004-86")
def test_the_database_refuses_what_the_functions_never_do(db: sqlite3.Connection) -> None:
    session = make(db)
    add(db, session)
    columns = "(id, public_id, conversation_id, first_message, last_message, instruction_summary, created_at, status_at"
    second = f"INSERT INTO turns {columns}) VALUES (?, 'x', 'c', 1, 1, 's', 1, 1)"
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        db.execute(second, (pack(session.id, 2),))
    with pytest.raises(sqlite3.IntegrityError, match="a turn starts as pending"):
        db.execute(f"INSERT INTO turns {columns}, status) VALUES (1, 'x', 'c', 1, 1, 's', 1, 1, 'completed')")


@pytest.mark.req("S004-47", "S004-49", "S004-57", "S004-60", "S004-94", "S004-95")
def test_completing(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session, now=5)
    usage = Usage(input=11, output=3, source="provider")
    ending = Ending(answer_summary="half \ud83d", model="m-2", usage=usage)
    answer = NewMessage(role=Role.AGENT, content=Text("answer", partial=False), token_count=3, metadata={"k": 1})
    ended = run(db, turns.complete, turn.id, None, answer, ending, 1000)
    assert ended == replace(
        turn,
        status=TurnStatus.COMPLETED,
        answer_summary="half \ufffd",
        model="m-2",
        usage=usage,
        last_message=2,
        response_received_at=ended.status_at,
        status_at=ended.status_at,
    )
    assert ended.status_at >= 1000
    assert turns.get(db, turn.id) == ended
    last = messages.every(db, session.id)[-1]
    assert (last.content, last.turn, last.token_count, last.metadata) == (answer.content, turn.id, 3, {"k": 1})


def test_the_answer_ends_in_the_row_that_grew(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session)
    row = run(db, turns.progress, turn.id, None, Role.AGENT, Text("an", partial=True), 6)
    assert run(db, turns.progress, turn.id, row, Role.AGENT, Text("answ", partial=True), 7) == row
    grown = messages.every(db, session.id)[-1]
    assert (grown.content, grown.turn, grown.role) == (Text("answ", partial=True), turn.id, Role.AGENT)
    assert grown.changed_at > grown.timestamp
    answer = NewMessage(role=Role.AGENT, content=Text("answer", partial=False), token_count=2)
    ended = run(db, turns.complete, turn.id, row, answer, DONE, 9)
    history = messages.every(db, session.id)
    assert [(m.content, m.token_count) for m in history[1:]] == [(Text("answer", partial=False), 2)]
    assert ended.last_message == 2


def test_a_turn_may_end_without_a_last_message(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session)
    row = run(db, turns.progress, turn.id, None, Role.SYSTEM, Tool("ls", {}, {}), 6)
    for last in (None, row):
        run(db, turns.progress, turn.id, last, Role.SYSTEM, Plan(({"step": 1},)), 7)
    ended = run(db, turns.complete, turn.id, None, None, DONE, 8)
    assert (ended.status, ended.last_message, count(db, "messages")) == (TurnStatus.COMPLETED, 3, 3)


@pytest.mark.req("S004-47", "S004-77", "S004-100", "S004-101", "S004-105", "S004-107")
def test_failing(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session)
    # Even if a caller had something that looked like an answer.
    ending = Ending(errors=("provider is down",), answer_summary="half an answer", usage=Usage(input=4))
    ended = run(db, turns.fail, turn.id, "The turn failed.", ending, 1000)
    assert ended == replace(
        turn,
        status=TurnStatus.FAILED,
        usage=Usage(input=4),
        errors=("provider is down",),
        last_message=2,
        response_received_at=ended.status_at,
        status_at=ended.status_at,
    )
    assert ended.status_at >= 1000
    assert turns.get(db, turn.id) == ended
    last = messages.every(db, session.id)[-1]
    assert (last.role, last.content, last.turn) == (Role.SYSTEM, Text("The turn failed."), turn.id)
    assert sessions.by_number(db, session.id).status is Status.ACTIVE


def test_failing_closes_what_was_growing(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session)
    closed = run(db, turns.progress, turn.id, None, Role.AGENT, Text("whole", partial=False), 6)
    tool = run(db, turns.progress, turn.id, None, Role.SYSTEM, Tool("ls", {}, {}), 7)
    open_ = run(db, turns.progress, turn.id, None, Role.AGENT, Text("hal", partial=True), 8)
    (elsewhere,) = run(
        db, messages.append, session.id, [NewMessage(role=Role.AGENT, content=Text("x", partial=True))], 8
    )
    assert [m.id for m in turns.growing(db, turn.id)] == [open_]
    fail(db, turn, now=9)
    rows = {m.id: m for m in messages.every(db, session.id)}
    assert (rows[open_].content, rows[open_].metadata) == (Text("hal", partial=False), {"incomplete": True})
    assert (rows[closed].content, rows[closed].metadata) == (Text("whole", partial=False), {})
    assert rows[tool].content == Tool("ls", {}, {})
    assert rows[elsewhere.id] == elsewhere
    assert rows[open_].changed_at < rows[max(rows)].timestamp
    assert turns.growing(db, turn.id) == []


@pytest.mark.req("S004-96", "S004-106")
@pytest.mark.parametrize("end", [complete, fail])
def test_warnings_and_errors_are_appended_in_order(db: sqlite3.Connection, end: Callable[..., Turn]) -> None:
    session = make(db)
    turn = run(db, turns.add, session.id, ask(warnings=("first", "second")), 5)
    ended = end(db, turn, Ending(warnings=("third",), errors=("one", "two")))
    assert ended.warnings == ("first", "second", "third")
    assert ended.errors == ("one", "two")


@pytest.mark.req("S004-93", "S004-97", "S004-104", "S004-108", "S004-134")
@pytest.mark.parametrize("first", [complete, fail])
def test_an_ended_turn_is_final(db: sqlite3.Connection, first: Callable[..., Turn]) -> None:
    session = make(db)
    turn = add(db, session)
    growing = run(db, turns.progress, turn.id, None, Role.AGENT, Text("a", partial=False), 6)
    status = first(db, turn).status
    before = dump(db)
    later: list[Callable[[], object]] = [
        lambda: complete(db, turn),
        lambda: fail(db, turn),
        lambda: run(db, turns.progress, turn.id, None, Role.AGENT, Text("late"), 99),
        lambda: run(db, turns.progress, turn.id, growing, Role.AGENT, Text("late"), 99),
        lambda: run(db, turns.start_again, turn.id),
    ]
    for call in later:
        with pytest.raises(TurnEnded) as caught:
            call()
        assert caught.value.status == status
    run(db, turns.forgive, turn.id)
    assert dump(db) == before


@pytest.mark.req("S004-97", "S004-108")
@pytest.mark.parametrize("end", [complete, fail])
def test_the_database_refuses_to_change_an_ended_turn(db: sqlite3.Connection, end: Callable[..., Turn]) -> None:
    turn = end(db, add(db, make(db)))
    before = row_of(db, turn)
    columns = [name for _, name, *_ in db.execute("PRAGMA table_info(turns)").fetchall()]
    assert len(columns) == 30
    for column in columns:
        with pytest.raises(sqlite3.IntegrityError, match="an ended turn never changes"):
            db.execute(f"UPDATE turns SET {column} = {column} WHERE id = ?", (turn.id,))
    assert row_of(db, turn) == before


@pytest.mark.req("S001-08", "S004-93", "S004-104")
def test_unknown_turns_and_sessions_are_typed_errors(db: sqlite3.Connection) -> None:
    session = make(db)
    complete(db, add(db, session))
    other = run(db, sessions.get_or_create, "bob", make_key("bob"), 1)
    missing = replace(turns.find(db, session.id, "1"), id=pack(session.id, 2))
    calls: list[Callable[[], object]] = [
        lambda: turns.get(db, missing.id),
        lambda: complete(db, missing),
        lambda: fail(db, missing),
        lambda: run(db, turns.progress, missing.id, None, Role.AGENT, Text("x"), 9),
        lambda: run(db, turns.start_again, missing.id),
        lambda: turns.growing(db, missing.id),
        lambda: turns.find(db, other.id, "last"),
        lambda: turns.find(db, other.id, "1"),
        lambda: turns.find(db, session.id, "0"),
        lambda: turns.find(db, session.id, "999999999999999999999"),
        lambda: turns.find(db, session.id, "٣"),
        lambda: turns.find(db, session.id, "no such id"),
        lambda: turns.find(db, other.id, turns.find(db, session.id, "1").public_id),
    ]
    for call in calls:
        with pytest.raises(UnknownTurn):
            call()
    with pytest.raises(UnknownSession):
        run(db, turns.add, 99, ask(), 5)


def test_progress_of_an_unknown_row_is_not_lost_silently(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = add(db, session)
    before = dump(db)
    missing = pack(session.id, 99)
    with pytest.raises(UnknownMessage):
        run(db, turns.progress, turn.id, missing, Role.AGENT, Text("x"), 9)
    with pytest.raises(UnknownMessage):
        run(db, turns.complete, turn.id, missing, say("answer", Role.AGENT), DONE, 9)
    assert dump(db) == before


def test_finding(db: sqlite3.Connection) -> None:
    session = make(db)
    found = [complete(db, add(db, session)) for _ in range(12)]
    assert turns.find(db, session.id, "last") == found[-1]
    assert [turns.find(db, session.id, str(turn.seq)) for turn in found] == found
    assert [turns.find(db, session.id, turn.public_id) for turn in found] == found
    assert turns.find(db, session.id, "0007") == found[6]
    assert turns.of_session(db, session.id) == found


def test_changed_since(db: sqlite3.Connection) -> None:
    session = make(db)
    ended = [complete(db, add(db, session)) for _ in range(3)]
    mark = ended[1].status_at
    assert turns.changed_since(db, session.id, 0) == ended
    assert turns.changed_since(db, session.id, mark) == ended[2:]
    assert turns.changed_since(db, session.id, mark - 1, newest=2) == ended[1:]
    running = add(db, session)
    assert turns.changed_since(db, session.id, ended[-1].status_at) == [running]
    assert turns.changed_since(db, session.id, 0, newest=2) == [ended[-1], running]


@pytest.mark.req("S004-87")
def test_pending_turns_of_all_sessions(db: sqlite3.Connection) -> None:
    one, two = make(db), run(db, sessions.get_or_create, "bob", make_key("bob"), 1)
    complete(db, add(db, one))
    pending = [add(db, one), add(db, two)]
    assert sorted(turns.pending(db), key=lambda turn: turn.id) == pending


def test_attempts_are_counted_and_forgiven(db: sqlite3.Connection) -> None:
    turn = add(db, make(db))
    assert run(db, turns.start_again, turn.id) == replace(turn, attempts=2)
    run(db, turns.forgive, turn.id)
    assert turns.get(db, turn.id) == turn
    run(db, turns.start_again, turn.id)
    assert complete(db, turn).attempts == 2


@pytest.mark.req("S004-127")
def test_a_turn_stays_small_whatever_was_said(db: sqlite3.Connection) -> None:
    turn = add(db, make(db))
    huge = say("x" * 1_000_000, Role.AGENT)
    run(db, turns.complete, turn.id, None, huge, Ending(answer_summary="x" * 1024), 9)
    assert sum(len(str(value)) for value in row_of(db, turn)) < 8000


# Beginning: from the inbox to a turn


@pytest.mark.req("S000-06")
def test_begin_makes_the_session_and_keeps_the_promised_ids(db: sqlite3.Connection) -> None:
    person = run(db, people.meet, "telegram", "7", "Grace", 1)
    items = [arrive(db, name, person=person.id) for name in ("one", "two")]
    assert sessions.live(db, KEY) is None
    session, turn = begin(db, *items)
    assert (session.key, session.person, turn.created_by) == (KEY, person.id, person.id)
    history = messages.every(db, session.id)
    assert [(m.public_id, text_of(m)) for m in history] == [(item.message_id, item.text) for item in items]
    running = inbox.of_turn(db, turn.id)
    assert [(item.id, item.state, item.text) for item in running] == [
        (item.id, InboxState.RUNNING, item.text) for item in items
    ]
    assert inbox.waiting(db, KEY) == []


@pytest.mark.parametrize("end", [complete, fail])
def test_an_ended_turn_finishes_its_inbox_rows(db: sqlite3.Connection, end: Callable[..., Turn]) -> None:
    one, two = (arrive(db, name, sender_name="Grace") for name in ("one", "two"))
    _, turn = begin(db, one)
    end(db, turn)
    (done,) = inbox.of_turn(db, turn.id)
    assert (done.id, done.state, done.text, done.sender_name) == (one.id, InboxState.DONE, "", "")
    assert inbox.waiting(db, KEY) == [two]


def test_begin_while_another_runs_leaves_everything(db: sqlite3.Connection) -> None:
    one, two = arrive(db, "one"), arrive(db, "two")
    begin(db, one)
    before = dump(db)
    with pytest.raises(TurnRunning):
        begin(db, two)
    assert dump(db) == before


def test_begin_for_one_session(db: sqlite3.Connection) -> None:
    session = make(db)
    item = arrive(db, "x", session=session.id)
    assert begin(db, item)[0].id == session.id


def test_begin_for_a_session_that_ended_meanwhile(db: sqlite3.Connection) -> None:
    session = make(db)
    item = arrive(db, "x", session=session.id)
    run(db, sessions.end, session, Status.CANCELLED, "user", 15)
    before = dump(db)
    with pytest.raises(SessionEnded) as caught:
        begin(db, item)
    assert caught.value.status == "cancelled"
    assert dump(db) == before


def test_what_waited_on_a_key_gets_the_next_session(db: sqlite3.Connection) -> None:
    item = arrive(db, "x")
    old = make(db)
    run(db, sessions.end, old, Status.ERROR, "crash", 15)
    session, turn = begin(db, item)
    assert (session.predecessor, turn.seq) == (old.id, 1)


def test_a_direct_message_waits_under_the_persons_key(db: sqlite3.Connection) -> None:
    person = run(db, people.meet, "telegram", "7", "Grace", 1)
    key = make_key("ada", person.person.peer, PeerKind.DM)
    session, _ = begin(db, arrive(db, "x", key, person=person.id))
    assert session.person == person.id


def test_a_message_never_starts_two_turns(db: sqlite3.Connection) -> None:
    item = arrive(db, "x")
    _, turn = begin(db, item)
    complete(db, turn)
    before = dump(db)
    with pytest.raises(sqlite3.IntegrityError, match=r"messages\.public_id"):
        run(db, turns.begin, "ada", [item], instruct(item), 30)
    assert dump(db) == before


# Attempts that were lost


@pytest.mark.req("P03")
def test_what_a_lost_attempt_had_finished_counts_no_more(db: sqlite3.Connection) -> None:
    session = make(db)
    earlier = add(db, session)
    complete(db, earlier)
    turn = add(db, session)
    closed = run(db, turns.progress, turn.id, None, Role.AGENT, Text("Let me look.", partial=False), 6)
    tool = run(db, turns.progress, turn.id, None, Role.SYSTEM, Tool("ls", {}, {}), 6)
    growing = run(db, turns.progress, turn.id, None, Role.AGENT, Text("Fou", partial=True), 6)
    before = {row.id: row for row in messages.every(db, session.id)}
    run(db, turns.start_again, turn.id)
    rows = {row.id: row for row in messages.every(db, session.id)}
    assert {number for number, row in rows.items() if row.superseded} == {closed, tool}
    assert rows[closed].metadata == {"superseded": True}
    assert rows[growing] == before[growing], "it grows on"
    assert [row.content for row in rows.values()] == [row.content for row in before.values()], "nothing is lost"
    assert len({row.changed_at for row in rows.values()}) == len(rows)
    run(db, turns.start_again, turn.id)
    assert {row.id for row in messages.every(db, session.id) if row.superseded} == {closed, tool}


def test_a_persons_words_are_never_superseded(db: sqlite3.Connection) -> None:
    turn = add(db, make(db))
    run(db, turns.start_again, turn.id)
    assert [row.superseded for row in messages.every(db, turn.session)] == [False]
