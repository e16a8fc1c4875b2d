"""Export and import: a session comes back as it was, or not at all."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import BadImport, SessionExists, UnknownSession
from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import compactions, exchange, inbox, messages, model_schema, people, search, sessions, turns
from store.content import Content, Plan, Text, Tool
from store.exchange_reader import Package, Reader
from store.inbox import Arrival
from store.records import NewMessage, Role, Session, Status, TurnStatus, Usage
from store.sessions import SessionPatch
from store.turns import Ending, Instruction
from tests.store.golden.make import KEY, fill
from tests.store.helpers import in_memory
from tests.store.rows import count, dump, fresh, make_key, run
from tests.store.test_state_machine import VIOLATIONS


def read(lines: Sequence[bytes]) -> Package:
    reader = Reader()
    for line in lines:
        reader.feed(line)
    return reader.finish()


def bring(db: sqlite3.Connection, lines: Sequence[bytes], **how: Any) -> Session:
    return run(db, exchange.take_in, read(lines), 10**16, **how)


def sound(db: sqlite3.Connection) -> None:
    broken = {name: rows for name, sql in VIOLATIONS.items() if (rows := db.execute(sql).fetchall())}
    assert broken == {}
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")


@pytest.fixture
def lines(db: sqlite3.Connection) -> list[bytes]:
    """The session of the golden database: all kinds of content, a failed turn, a compaction."""
    run(db, fill)
    [public_id] = db.execute("SELECT public_id FROM sessions").fetchone()
    return exchange.export(db, public_id)


# There and back

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
CONTENTS: st.SearchStrategy[Content] = st.one_of(
    st.builds(Text, TEXTS, st.sampled_from([None, False])),
    st.builds(lambda steps: Plan(tuple(steps)), st.lists(OBJECTS, max_size=3)),
    st.builds(Tool, TEXTS, OBJECTS, OBJECTS),
)
MESSAGES = st.builds(
    NewMessage,
    role=st.sampled_from(Role),
    content=CONTENTS,
    tool_calls=st.none() | st.lists(JSON, max_size=2),
    tool_call_id=st.none() | TEXTS,
    token_count=st.none() | st.integers(0, 10**9),
    metadata=st.none() | OBJECTS,
)
TOKENS = st.none() | st.integers(0, 10**6)
SOURCES = st.sampled_from(["provider", "estimated", None])
USAGE = st.builds(Usage, input=TOKENS, cached=TOKENS, output=TOKENS, reasoning=TOKENS, source=SOURCES)
NOW = st.integers(0, 10**15)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), MESSAGES, NOW),
        st.tuples(st.just("turn"), st.tuples(MESSAGES, MESSAGES, USAGE, st.booleans(), st.sampled_from("ab")), NOW),
        st.tuples(st.just("compact"), st.tuples(TEXTS, st.booleans()), NOW),
        st.tuples(st.just("patch"), st.builds(SessionPatch, title=st.none() | TEXTS, custom=JSON), NOW),
    ),
    max_size=8,
)
ENDS = st.none() | st.sampled_from([Status.COMPLETED, Status.CANCELLED, Status.ERROR, Status.ARCHIVED])


def live(db: sqlite3.Connection, steps: list[tuple[str, Any, int]], end: Status | None) -> str:
    """A session that went through it all."""
    key = SessionKey("ada", "*", "*", PeerKind.DM, "a:b c%")
    owner = run(db, people.meet, "telegram", "a", "Ada", 1)
    session = run(db, sessions.create, key, 1, person=owner.id)
    for number, (kind, what, now) in enumerate(steps):
        match kind:
            case "say":
                run(db, messages.append, session.id, [what], now)
            case "turn":
                _turn(db, key, str(number), now, *what)
            case "compact" if sessions.by_number(db, session.id).last_seq:
                _compact(db, session.id, now, *what)
            case "patch":
                run(db, sessions.patch, "ada", key, what)
    if end is not None:
        run(db, sessions.end, session, end, "because", 5)
    return session.public_id


def _turn(
    db: sqlite3.Connection,
    key: SessionKey,
    name: str,
    now: int,
    asked: NewMessage,
    answer: NewMessage,
    usage: Usage,
    fails: bool,
    who: str,
) -> None:
    person = run(db, people.meet, "telegram", who, f"Person {who}", now)
    address = Address(channel="telegram" if who == "a" else "discord", account="main", chat=who)
    arrival = Arrival(external_id=name, key=key, address=address, text="x", person=person.id)
    item = run(db, inbox.accept, arrival, now).item
    instruction = Instruction(
        messages=(asked,),
        summary="what?",
        created_by=person.id,
        warnings=("slow",),
        chat="telegram:-1",
        reserved_tokens=5,
        reserved_cost=usage.cached,
    )
    _, turn = run(db, turns.begin, "ada", [item], instruction, now)
    ending = Ending(
        answer_summary="that",
        model="m",
        usage=usage,
        errors=("broken",) if fails else (),
        cost=usage.output,
        response_id=name,
        previous_response_id=None if fails else "before",
        chain_expires_at=now + 5,
    )
    if fails:
        run(db, turns.progress, turn.id, None, Role.AGENT, Text("half", partial=True), now)
        run(db, turns.fail, turn.id, "It broke.", ending, now)
    else:
        run(db, turns.complete, turn.id, None, answer, ending, now)


def _compact(db: sqlite3.Connection, session: int, now: int, summary: str, undo: bool) -> None:
    run(db, compactions.record, session, strategy="window", through_seq=1, summary=summary, tokens=(9, 1), now=now)
    if undo:
        run(db, compactions.undo, session, now)


@settings(deadline=None, max_examples=150)
@given(steps=STEPS, end=ENDS, rest=st.booleans())
def test_what_was_exported_comes_back_the_same(
    steps: list[tuple[str, Any, int]], end: Status | None, rest: bool
) -> None:
    with fresh() as here, fresh() as there:
        public_id = live(here, steps, end)
        if rest:
            run(here, sessions.rest, 10**18)
        before = dump(here)
        lines = exchange.export(here, public_id)
        assert dump(here) == before
        session = bring(there, lines)
        assert exchange.export(there, public_id) == lines
        sound(there)
        original = sessions.get(here, public_id)
        assert (session.public_id, session.status, session.key) == (public_id, original.status, original.key)
        same = "role, content, tool_calls, tool_call_id, token_count, metadata, timestamp, changed_at, public_id"
        told = ", ".join(model_schema.TURN_COLUMNS)
        assert (
            here.execute(f"SELECT {told} FROM turns ORDER BY id").fetchall()
            == there.execute(f"SELECT {told} FROM turns ORDER BY id").fetchall()
        )
        assert [db.execute(f"SELECT {same} FROM messages ORDER BY id").fetchall() for db in (here, there)] == [
            here.execute(f"SELECT {same} FROM messages ORDER BY id").fetchall()
        ] * 2


def test_the_first_line_says_what_it_is(lines: list[bytes]) -> None:
    assert json.loads(lines[0]) == {
        "type": "header",
        "format": "trunkline-session",
        "version": 2,
        "people": 1,
        "turns": 2,
        "messages": 6,
        "compactions": 1,
    }
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["header", "session", "person", "turn", "turn", *["message"] * 6, "compaction"]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)


def test_an_export_of_the_first_version_comes_in(lines: list[bytes]) -> None:
    """It knew no cached tokens and no cost, so that both are unknown."""
    later = {"agent", "chat", "cachedTokens", "reasoningTokens", "cost", "responseId", "previousResponseId"}
    later |= {"chainExpiresAt", "reservedTokens", "reservedCost"}
    old = []
    for line in map(json.loads, lines):
        if line["type"] == "header":
            line["version"] = 1
        old.append(json.dumps({name: line[name] for name in line if name not in later or line["type"] != "turn"}))
    with fresh() as there:
        session = bring(there, [f"{line}\n".encode() for line in old])
        for turn in turns.of_session(there, session.id):
            assert (turn.usage.cached, turn.cost, turn.response_id, turn.agent) == (None, None, None, None)


def test_exporting_nothing(db: sqlite3.Connection) -> None:
    with pytest.raises(UnknownSession):
        exchange.export(db, "nothing")


def test_an_imported_session_goes_on(lines: list[bytes]) -> None:
    with closing(in_memory()) as there:
        session = bring(there, lines)
        turn = run(there, turns.add, session.id, Instruction(messages=(), summary="more"), 10**16)
        assert turn.seq == 3
        assert [hit.seq for hit in search.find(there, "golden").hits] == [4]
        sound(there)


def test_an_imported_turn_that_ended_never_changes(lines: list[bytes]) -> None:
    with closing(in_memory()) as there:
        bring(there, lines)
        assert there.execute("SELECT status FROM turns").fetchall() == [("completed",), ("failed",)]
        with pytest.raises(sqlite3.IntegrityError, match="never changes"):
            there.execute("UPDATE turns SET model = 'x'")


# Beside what is there


def test_the_same_session_twice_is_refused_and_nothing_changes(db: sqlite3.Connection, lines: list[bytes]) -> None:
    before = dump(db)
    with pytest.raises(SessionExists):
        bring(db, lines)
    assert dump(db) == before


@pytest.mark.parametrize("table", ["messages", "turns"])
def test_a_session_of_which_a_part_is_here_is_refused(lines: list[bytes], table: str) -> None:
    with closing(in_memory()) as there:
        other = run(there, sessions.create, make_key(), 1)
        run(
            there,
            turns.add,
            other.id,
            Instruction(messages=(NewMessage(role=Role.USER, content=Text("x")),), summary=""),
            2,
        )
        kind = table.removesuffix("s")
        public_id = next(json.loads(line)["id"] for line in lines if json.loads(line)["type"] == kind)
        there.execute(f"UPDATE {table} SET public_id = ?", (public_id,))
        before = dump(there)
        with pytest.raises(SessionExists):
            bring(there, lines)
        assert dump(there) == before


def test_with_new_ids_it_stands_beside_the_original(db: sqlite3.Connection, lines: list[bytes]) -> None:
    before = [dump(db)[table] for table in ("sessions", "turns", "messages")]
    copy = bring(db, lines, new_ids=True)
    assert [
        dump(db)[table][: len(rows)] for table, rows in zip(("sessions", "turns", "messages"), before, strict=True)
    ] == before
    assert (copy.status, copy.reason, copy.key) == (Status.ARCHIVED, exchange.REPLACED, KEY)
    again = exchange.export(db, copy.public_id)
    assert len(again) == len(lines)
    old, new = ({json.loads(line).get("id") for line in some[1:]} for some in (lines, again))
    assert old & new == {json.loads(lines[2])["id"], None}, "only the person is the same"
    assert {json.loads(line)["conversationId"] for line in again[3:5]} == {copy.public_id}
    sound(db)


def test_where_the_conversation_goes_on_already_the_imported_one_is_archived(lines: list[bytes]) -> None:
    with closing(in_memory()) as there:
        going = run(there, sessions.create, KEY, 1)
        session = bring(there, lines)
        assert (session.status, session.reason) == (Status.ARCHIVED, "imported beside a live session")
        assert sessions.live(there, KEY) == going


def test_a_person_is_recognised_and_brings_no_rights(db: sqlite3.Connection, lines: list[bytes]) -> None:
    owner = people.owner(db)
    assert owner is not None
    [public_id] = db.execute("SELECT public_id FROM sessions").fetchone()
    run(db, sessions.remove, sessions.get(db, public_id).id)
    session = bring(db, lines)
    assert session.person == owner.id
    with closing(in_memory()) as there:
        session = bring(there, lines)
        assert session.person is not None
        stranger = people.get(there, session.person)
        assert (stranger.public_id, stranger.name) == (owner.public_id, "ada")
        assert (stranger.owner, stranger.known, stranger.config_name) == (False, False, None)
        assert count(there, "identities") == 0


def test_a_turn_that_was_running_is_closed(db: sqlite3.Connection) -> None:
    session = run(db, sessions.create, make_key(), 1)
    asked = NewMessage(role=Role.USER, content=Text("question"))
    turn = run(db, turns.add, session.id, Instruction(messages=(asked,), summary="question"), 2)
    run(db, turns.progress, turn.id, None, Role.AGENT, Text("half", partial=True), 3)
    lines = exchange.export(db, session.public_id)
    with closing(in_memory()) as there:
        bring(there, lines)
        [ended] = turns.of_session(there, 1)
        assert (ended.status, ended.errors) == (TurnStatus.FAILED, (exchange.INTERRUPTED,))
        texts = [row.content for row in messages.every(there, 1)]
        assert texts == [Text("question"), Text("half", partial=False), Text(exchange.NOTE_INTERRUPTED)]
        assert turns.pending(there) == []
        sound(there)
        # From here on it is the same every time.
        again = exchange.export(there, session.public_id)
        with closing(in_memory()) as further:
            bring(further, again)
            assert exchange.export(further, session.public_id) == again


# Damaged and foreign files


def refused(lines: Sequence[bytes]) -> BadImport:
    with closing(in_memory()) as there:
        before = dump(there)
        with pytest.raises(BadImport) as error:
            bring(there, lines)
        assert dump(there) == before
    return error.value


def test_a_line_that_is_missing_is_noticed(lines: list[bytes]) -> None:
    for at in range(len(lines)):
        error = refused(lines[:at] + lines[at + 1 :])
        assert 1 <= int(str(error.facts["line"])) <= len(lines) + 1


def test_a_line_that_is_there_twice_is_noticed(lines: list[bytes]) -> None:
    for at in range(len(lines)):
        error = refused([*lines[: at + 1], *lines[at:]])
        assert int(str(error.facts["line"])) >= min(at + 2, len(lines))


def test_a_file_that_is_cut_off_is_noticed(lines: list[bytes]) -> None:
    whole = b"".join(lines)
    for size in range(0, len(whole) - 1, 97):
        cut = whole[:size].splitlines(keepends=True)
        assert int(str(refused(cut).facts["line"])) in {1, len(cut), len(cut) + 1}


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"", 1, "nothing in the file"),
        (b"\n\n", 1, "nothing in the file"),
        (b"SQLite format 3\0", 1, "not JSON"),
        (b"[1, 2]\n", 1, "not a JSON object"),
        (b'{"role": "user"}\n', 1, "not an export"),
        (b'{"format": "trunkline-session", "version": 3}\n', 1, "version 3, and this program knows versions 1 and 2"),
        (b'{"format": "trunkline-session", "version": 1}\n', 1, "`people`"),
        (b"\xff\xfe\n", 1, "not JSON"),
        (b"[" * 100_000, 1, "not JSON"),
    ],
)
def test_a_foreign_file_is_refused(content: bytes, line: int, why: str) -> None:
    error = refused(content.splitlines(keepends=True))
    assert error.facts["line"] == line
    assert why in str(error)


Change = Callable[[dict[str, Any]], object]

DAMAGE: dict[str, tuple[str, Change, str]] = {
    "a status of its own": ("session", lambda line: line.update(status="busy"), "`status`"),
    "a key that is none": ("session", lambda line: line.update(key="ada"), "`key`"),
    "an id that is none": ("session", lambda line: line.update(id="../../etc"), "`id`"),
    "another key in the line": ("session", lambda line: line.update(extra=1), "`extra`"),
    "tokens that are not the sum": ("session", lambda line: line.update(totalInputTokens=1), "not the sum"),
    "an end before its messages": ("session", lambda line: line.update(updatedAt=5), "after `updatedAt`"),
    "a compaction that never was": ("session", lambda line: line.update(lastCompactionAt=None), "lastCompactionAt"),
    "a person of whom nothing is known": ("session", lambda line: line.update(person=UUID), "no line"),
    "a number as a text": ("turn", lambda line: line.update(attempts="1"), "`attempts`"),
    "a turn of another number": ("turn", lambda line: line.update(seq=7), "turn 1 is missing"),
    "a turn beyond its end": ("turn", lambda line: line.update(lastMessage=99), "more messages than there are"),
    "a role of its own": ("message", lambda line: line.update(role="assistant"), "`role`"),
    "content that is none": ("message", lambda line: line.update(content={"type": "text"}), "none of a message"),
    "content without a type": ("message", lambda line: line.update(content={}), "none of a message"),
    "a text that still grows": ("message", lambda line: line["content"].update(partial=True), "cannot grow"),
    "a message of no turn": ("message", lambda line: line.update(turn=3), "no turn 3"),
    "a message of another turn": ("message", lambda line: line.update(turn=2), "does not lie in turn 2"),
    "a time that goes back": ("message", lambda line: line.update(timestamp=1, changedAt=1), "time is not after"),
    "a change before the message": ("message", lambda line: line.update(changedAt=1), "before `timestamp`"),
    "a compaction that grows": ("compaction", lambda line: line.update(tokensAfter=999), "not less"),
    "a compaction of the future": ("compaction", lambda line: line.update(throughSeq=99), "more messages than there"),
    "another type": ("person", lambda line: line.update(type="pet"), "`type` is not known"),
    "a type that is a list": ("person", lambda line: line.update(type=[]), "`type` is not known"),
}
UUID = "00000000-0000-7000-8000-000000000099"


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_line_is_refused_with_its_number(lines: list[bytes], name: str) -> None:
    kind, change, why = DAMAGE[name]
    kinds = [json.loads(line)["type"] for line in lines]
    # The second message, so that there is one before it.
    at = kinds.index(kind) + (kind == "message")
    value = json.loads(lines[at])
    change(value)
    error = refused([*lines[:at], json.dumps(value).encode(), *lines[at + 1 :]])
    assert why in str(error)
    assert error.facts["line"] in {at + 1, 2}
    assert "It's a" not in str(error), "what people said stays out of the message"


@settings(deadline=None, max_examples=400)
@given(data=st.data())
def test_whatever_is_changed_is_refused_or_sound(data: st.DataObject) -> None:
    """One value of one line is replaced by anything: the import stores a sound session, or nothing."""
    with fresh() as here, fresh() as there:
        run(here, fill)
        [public_id] = here.execute("SELECT public_id FROM sessions").fetchone()
        lines = exchange.export(here, public_id)
        at = data.draw(st.integers(1, len(lines) - 1))
        value = json.loads(lines[at])
        # Values that stand elsewhere in the file are the ones that nearly fit.
        others = [other for line in lines for other in json.loads(line).values()]
        near = [other + 1 for other in others if isinstance(other, int)] + others
        value[data.draw(st.sampled_from(sorted(value)))] = data.draw(JSON | st.sampled_from(near))
        before = dump(there)
        try:
            bring(there, [*lines[:at], json.dumps(value).encode(), *lines[at + 1 :]])
        except BadImport:
            assert dump(there) == before
        else:
            sound(there)
            there.execute("PRAGMA integrity_check")
