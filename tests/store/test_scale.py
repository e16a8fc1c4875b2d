"""Cost by counts, not clocks: instructions of SQLite's machine at a thousand and at a million messages."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from routing.keys import SessionKey
from store import chains, compactions, inbox, messages, outbox, people, sessions, spending, turns
from store.content import Text
from store.inbox import Arrival
from store.messages import HistoryOptions
from store.outbox import Draft
from store.records import NewMessage, OutboxKind, OutboxState, Role, Turn, Usage
from store.sessions import SessionFilter, SessionPatch
from store.spending import Whose
from store.turns import Ending
from tests.store.rows import instruct, make_address, make_key, say, tables
from tests.store.scale import AGENT, START, build, key_of

THOUSAND, MILLION, DEEP = 1_000, 1_000_000, 100_000
#: A session of the same 200 messages in both databases, and the one that is deep.
ORDINARY, BIGGEST = 2, 1
SHORT = make_key(AGENT, "short")

#: For whom budgets are summed in a turn; their own turns of a day are looked at, and nobody else's.
SPENDERS = (Whose(people=(1, 2)), Whose(agent="somebody"), Whose(chat="telegram:-1"), Whose(people=(1,), agent=AGENT))

Work = Callable[[sqlite3.Connection], object]


class Recorder(sqlite3.Connection):
    """A connection that keeps its statements as they were given, parameters apart.

    A trace shows the values in place of the parameters, and with values SQLite may find an index that it does not find
    with parameters.
    """

    said: list[tuple[str, Any]] | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if self.said is not None:
            self.said.append((sql, parameters))
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        given = list(parameters)
        if self.said is not None:
            self.said.extend((sql, one) for one in given)
        return super().executemany(sql, given)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Path]]:
    folder = tmp_path_factory.mktemp("scale")
    found = {size: folder / f"{size}.db" for size in (THOUSAND, MILLION)}
    build(found[THOUSAND], messages=THOUSAND, sessions=5, deliveries=100)
    build(found[MILLION], messages=MILLION, sessions=4_251, biggest=150_000, deliveries=100_000)
    yield found
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture
def databases(files: dict[int, Path]) -> Iterator[dict[int, Recorder]]:
    """Both databases, each in a transaction that is taken back."""
    opened: dict[int, Recorder] = {}
    for size, path in files.items():
        db = opened[size] = sqlite3.connect(path, isolation_level=None, factory=Recorder)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("BEGIN IMMEDIATE")
    yield opened
    for db in opened.values():
        db.execute("ROLLBACK")
        db.close()


def steps(db: sqlite3.Connection, work: Work) -> int:
    """How many instructions of SQLite's machine the work takes."""
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    db.set_progress_handler(count, 1)
    try:
        work(db)
    finally:
        db.set_progress_handler(None, 0)
    return counted


def compare(databases: dict[int, Recorder], work: Work) -> tuple[int, int]:
    small, big = (steps(databases[size], work) for size in (THOUSAND, MILLION))
    assert small > 0
    return small, big


def test_the_counter_counts(databases: dict[int, Recorder]) -> None:
    small, big = compare(
        databases, lambda db: db.execute("SELECT count(*) FROM messages WHERE token_count > 99").fetchall()
    )
    assert small > THOUSAND
    assert big > MILLION


def test_the_databases_are_what_they_claim(databases: dict[int, Recorder]) -> None:
    for size, db in databases.items():
        found = db.execute(
            "SELECT count(*), sum(message_count), sum(turn_count), sum(total_input_tokens) FROM sessions"
        ).fetchone()
        rows = (
            db.execute("SELECT count(*) FROM messages").fetchone()
            + db.execute("SELECT count(*), sum(input_tokens) FROM turns").fetchone()
        )
        assert found[1:] == rows
        assert rows[0] == size
        ordinary = sessions.by_number(db, ORDINARY)
        assert ordinary.key == SessionKey.parse(key_of(ORDINARY))
        assert (ordinary.last_seq, ordinary.turn_count) == (200, 100)
        assert [m.seq for m in messages.every(db, ORDINARY)] == list(range(1, 201))
        assert [t.last_message for t in turns.of_session(db, ORDINARY)] == list(range(2, 201, 2))
        assert db.execute("PRAGMA foreign_key_check(messages)").fetchall() == []
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone()[0] > 0
    assert sessions.by_number(databases[MILLION], BIGGEST).last_seq > DEEP


PAGES = {
    "newest": HistoryOptions(),
    "before": HistoryOptions(before=100),
    "after": HistoryOptions(after=100),
    "oldest": HistoryOptions(after=0),
}


@pytest.mark.req("S001-37", "S001-66")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_costs_the_same_among_a_million_messages(databases: dict[int, Recorder], name: str) -> None:
    key = SessionKey.parse(key_of(ORDINARY))
    small, big = compare(databases, lambda db: messages.get_history(db, AGENT, key, PAGES[name]))
    assert big == pytest.approx(small, rel=0.1)


@pytest.mark.req("S001-37")
def test_a_page_costs_the_same_at_any_depth(databases: dict[int, Recorder]) -> None:
    db = databases[MILLION]
    last = sessions.by_number(db, BIGGEST).last_seq

    def cost(**options: int) -> int:
        return steps(db, lambda db: messages.page(db, BIGGEST, HistoryOptions(**options)))

    newest = cost()
    for depth in (1, 1_000, DEEP):
        assert cost(before=last - depth + 1) == pytest.approx(newest, rel=0.1)
    forwards = cost(after=last - 50)
    for depth in (1_000, DEEP, last):
        assert cost(after=last - depth) == pytest.approx(forwards, rel=0.1)
    assert forwards == pytest.approx(newest, rel=0.1)


@pytest.mark.req("S000-10", "S004-43")
@pytest.mark.parametrize(
    "work",
    [
        lambda db: messages.changed_since(db, ORDINARY, START + 190_000_000),
        lambda db: messages.between(db, ORDINARY, 90, 100),
        lambda db: messages.by_public_id(db, messages.between(db, ORDINARY, 9, 9)[0].public_id),
        lambda db: [turns.find(db, ORDINARY, name) for name in ("last", "50")],
        lambda db: turns.changed_since(db, ORDINARY, START),
        lambda db: sessions.get(db, sessions.by_number(db, ORDINARY).public_id),
        lambda db: sessions.patch(db, AGENT, SessionKey.parse(key_of(ORDINARY)), SessionPatch(title="new")),
        lambda db: sessions.list_for(db, AGENT, SessionFilter(), 5),
        lambda db: [outbox.release_all(db, 1), outbox.settle(db, 1), outbox.open_places(db), outbox.parked(db)],
        lambda db: [inbox.all_waiting(db), turns.pending(db)],
        lambda db: [spending.amount(db, whose, START) for whose in SPENDERS],
        lambda db: [turns.by_seq(db, ORDINARY, 100), chains.changed_since(db, ORDINARY, START, 201, 200)],
    ],
    ids=["since", "between", "message", "turn", "turns since", "session", "patch", "list", "deliveries", "recovery"]
    + ["budgets", "chain"],
)
def test_looking_costs_the_same_among_a_million_messages(databases: dict[int, Recorder], work: Work) -> None:
    small, big = compare(databases, work)
    assert big == pytest.approx(small, rel=0.1)


def add_session(db: sqlite3.Connection) -> int:
    """A session of ten messages in five turns, with a delivery and a compaction."""
    session = sessions.get_or_create(db, AGENT, SHORT, START)
    for number in range(5):
        turn = turns.add(db, session.id, instruct_alone(str(number)), START)
        turns.complete(db, turn.id, None, say("answer", Role.AGENT), Ending(answer_summary="answer"), START)
        draft = Draft(address=make_address(), text="answer", turn=turn.id)
        outbox.put(db, draft, OutboxState.SENT, START)
    compactions.record(db, session.id, strategy="x", through_seq=5, summary="s", tokens=(2, 1), now=START)
    assert sessions.by_number(db, session.id).message_count == 10
    return session.id


def instruct_alone(text: str) -> turns.Instruction:
    return turns.Instruction(messages=(say(text),), summary=text)


@pytest.mark.req("S001-69")
def test_deleting_a_session_costs_the_same_among_a_million_messages(databases: dict[int, Recorder]) -> None:
    for db in databases.values():
        add_session(db)
    small, big = compare(databases, lambda db: sessions.delete(db, AGENT, SHORT))
    assert big == pytest.approx(small, rel=0.1)
    for size, db in databases.items():
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (size,)


@pytest.mark.req("S001-69")
def test_deleting_an_empty_session_does_not_look_at_others(databases: dict[int, Recorder]) -> None:
    for db in databases.values():
        sessions.create(db, SHORT, START)
    small, big = compare(databases, lambda db: sessions.delete(db, AGENT, SHORT))
    assert big == pytest.approx(small, rel=0.1)


def whole_turn(db: sqlite3.Connection) -> Turn:
    """Everything a message goes through, from its arrival to the platform's answer, with a page and a poller."""
    person = people.meet(db, "telegram", "7", "Grace", START)
    key = SessionKey.parse(key_of(ORDINARY))
    arrival = Arrival(external_id="bot:1", key=key, address=make_address(), text="hello", person=person.id)
    item = inbox.accept(db, arrival, START, max_waiting=9).item
    assert inbox.accept(db, arrival, START, max_waiting=9).duplicate
    waiting = inbox.get(db, [item.id])
    session, turn = turns.begin(db, AGENT, waiting, instruct(*waiting), START)
    compactions.in_force(db, session.id)
    messages.page(db, session.id, HistoryOptions(before=turn.first_message))
    draft = Draft(address=item.address, text="a", turn=turn.id)
    preview = outbox.put(db, replace(draft, kind=OutboxKind.PREVIEW), OutboxState.SENDING, START)
    outbox.shown(db, preview, "platform 1", START)
    row = turns.progress(db, turn.id, None, Role.AGENT, Text("an", partial=True), START)
    mark = sessions.by_number(db, session.id).updated_at
    turns.progress(db, turn.id, row, Role.AGENT, Text("answ", partial=True), START)
    assert [message.id for message in messages.changed_since(db, session.id, mark)] == [row]
    turns.changed_since(db, session.id, mark)
    answer = NewMessage(role=Role.AGENT, content=Text("answer", partial=False), token_count=2)
    ending = Ending(answer_summary="answer", model="m", usage=Usage(input=3, output=2, source="provider"))
    ended = turns.complete(db, turn.id, row, answer, ending, START)
    outbox.put_answer(db, draft, OutboxState.HELD, START)
    outbox.release(db, turn.id, START)
    while (delivery := outbox.claim(db, item.address.place, START)) is not None:
        outbox.sent(db, delivery.id, "platform", START)
    return ended


@pytest.mark.req("S001-37")
def test_a_turn_costs_the_same_among_a_million_messages(databases: dict[int, Recorder]) -> None:
    small, big = compare(databases, whole_turn)
    assert big == pytest.approx(small, rel=0.1)


def failed_turn(db: sqlite3.Connection) -> Turn:
    """The other way out, in the deep session: a turn that runs again after a crash, and then fails."""
    turn = turns.add(db, BIGGEST, instruct_alone("hello"), START)
    turns.progress(db, turn.id, None, Role.AGENT, Text("an", partial=True), START)
    turns.start_again(db, turn.id)
    inbox.of_turn(db, turn.id)
    outbox.preview_of(db, turn.id)
    return turns.fail(db, turn.id, "note", Ending(errors=("broken",)), START)


def statements(db: Recorder, work: Work) -> list[tuple[str, Any]]:
    """What a piece of work says to the database; checked against SQLite's own trace."""
    traced: list[str] = []
    db.said = []
    db.set_trace_callback(traced.append)
    try:
        work(db)
    finally:
        db.set_trace_callback(None)
        said, db.said = db.said, None
    # A statement is traced once more for each trigger that it fires; their plans are part of its plan. The full-text
    # index says things of its own.
    own = {sql for sql in traced if not sql.startswith("--") and "'main'." not in sql}
    assert len(own) == len({(sql, tuple(parameters)) for sql, parameters in said})
    return said


@pytest.mark.req("S001-36", "S001-37")
@pytest.mark.parametrize("work", [whole_turn, failed_turn, add_session])
def test_no_statement_of_a_turn_scans_a_table(databases: dict[int, Recorder], work: Work) -> None:
    db = databases[MILLION]
    # At first contact only, and it costs nothing: a plan lists what a foreign key would look at if one were broken.
    people.meet(db, "telegram", "7", "Grace", START)
    said = statements(db, work)
    assert len(said) > 5
    plans = {
        sql: [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()]
        for sql, parameters in said
    }
    scans = {sql: plan for sql, plan in plans.items() if any(is_scan(db, line) for line in plan)}
    assert scans == {}


def is_scan(db: sqlite3.Connection, line: str) -> bool:
    words = line.split()
    return words[0] == "SCAN" and words[1] in tables(db)


def test_a_scan_is_recognised(databases: dict[int, Recorder]) -> None:
    db = databases[THOUSAND]
    for sql in (
        "SELECT * FROM messages WHERE role = 'user'",
        "UPDATE sessions SET title = 'x' WHERE title = 'y'",
        "SELECT count(*) FROM turns",
    ):
        assert any(is_scan(db, row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())


@pytest.mark.req("S001-66")
def test_walking_a_deep_history_gives_each_message_once(databases: dict[int, Recorder]) -> None:
    """Page by page through all of it, both ways, while messages go on being appended."""
    db = databases[MILLION]
    before = sessions.by_number(db, BIGGEST).last_seq
    assert before > DEEP
    at = expected = 0
    while page := messages.page(db, BIGGEST, HistoryOptions(limit=500, after=at)):
        for message in page:
            expected += 1
            assert message.seq == expected
        at = page[-1].seq
        if len(page) == 500:
            messages.append(db, BIGGEST, [say("more")], START)
    assert expected == sessions.by_number(db, BIGGEST).last_seq > before

    end: int | None = None
    while page := messages.page(db, BIGGEST, HistoryOptions(limit=500, before=end)):
        for message in reversed(page):
            assert message.seq == expected
            expected -= 1
        end = page[0].seq
        messages.append(db, BIGGEST, [say("more")], START)
    assert expected == 0
