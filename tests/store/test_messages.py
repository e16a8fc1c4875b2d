"""Messages: read as written, appended all or none, paged by number, in times that only go forward."""

import sqlite3
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import UnknownMessage, UnknownSession
from store import messages, sessions, turns
from store.content import Content, Plan, Text, Tool
from store.ids import pack, span
from store.messages import HistoryOptions
from store.records import Message, NewMessage, Role, Session
from store.sessions import SessionPatch
from tests.store.rows import ask, count, dump, fresh, make_key, run, say, text_of

KEY = make_key()
OTHER = make_key("bob")

WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers(-(10**15), 10**15)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
CONTENT: st.SearchStrategy[Content] = st.one_of(
    st.builds(Text, WORDS, st.none() | st.booleans()),
    st.builds(Plan, st.lists(OBJECTS, max_size=3).map(tuple)),
    st.builds(Tool, WORDS, OBJECTS, OBJECTS),
)
NEW = st.builds(
    NewMessage,
    role=st.sampled_from(Role),
    content=CONTENT,
    tool_calls=st.none() | st.lists(JSON, max_size=3),
    tool_call_id=st.none() | WORDS,
    token_count=st.none() | st.integers(0, 10**9),
    metadata=st.none() | OBJECTS,
)


def make(db: sqlite3.Connection, texts: int = 0) -> Session:
    session = run(db, sessions.get_or_create, "ada", KEY, 1)
    run(db, messages.append, session.id, [say(str(number)) for number in range(1, texts + 1)], 2)
    return session


def numbers(page: list[Message]) -> list[int]:
    return [message.seq for message in page]


@pytest.mark.req("S000-07", "S000-09", "S001-26", "S001-28", "S001-29", "S001-30", "S001-32", "S001-33", "S001-65")
@settings(deadline=None, max_examples=80)
@given(written=st.lists(NEW, max_size=6), now=st.integers(0, 10**16))
def test_read_equals_written(written: list[NewMessage], now: int) -> None:
    with fresh() as db:
        session = run(db, sessions.get_or_create, "ada", KEY, 1)
        stored = run(db, messages.append_messages, "ada", KEY, written, now)
        assert messages.get_history(db, "ada", KEY) == stored
        assert messages.every(db, session.id) == stored
        assert [messages.by_public_id(db, one.public_id) for one in stored] == stored
        names = ("role", "content", "tool_calls", "tool_call_id", "token_count")
        assert [[getattr(m, n) for n in names] for m in stored] == [[getattr(m, n) for n in names] for m in written]
        assert [m.metadata for m in stored] == [m.metadata or {} for m in written]
        assert [m.id for m in stored] == [pack(session.id, seq + 1) for seq in range(len(written))]
        assert len({m.public_id for m in stored}) == len(written)


def test_a_promised_id_is_kept(db: sqlite3.Connection) -> None:
    make(db)
    new = NewMessage(role=Role.USER, content=Text("x"), public_id="promised")
    (message,) = run(db, messages.append_messages, "ada", KEY, [new], 5)
    assert messages.by_public_id(db, "promised") == message


def test_half_characters_are_replaced(db: sqlite3.Connection) -> None:
    make(db)
    new = NewMessage(
        role=Role.AGENT,
        content=Text("a\ud83d"),
        tool_call_id="b\udc00",
        tool_calls=["c\ud83d"],
        metadata={"d": "\ud83d"},
    )
    run(db, messages.append_messages, "ada", KEY, [new], 5)
    (read,) = messages.get_history(db, "ada", KEY)
    assert read.content == Text("a\ufffd")
    assert (read.tool_call_id, read.tool_calls, read.metadata) == ("b\ufffd", ["c\ufffd"], {"d": "\ufffd"})


@pytest.mark.req("S001-04", "S000-11")
def test_append_keeps_the_order(db: sqlite3.Connection) -> None:
    session = make(db)
    for batch in (["a", "b", "c"], [], ["d"], ["e", "f"]):
        run(db, messages.append_messages, "ada", KEY, [say(text) for text in batch], 5)
    history = messages.get_history(db, "ada", KEY)
    assert [text_of(m) for m in history] == list("abcdef")
    assert numbers(history) == [1, 2, 3, 4, 5, 6]
    assert sessions.by_number(db, session.id).message_count == 6


@pytest.mark.req("S001-04")
@pytest.mark.parametrize(
    "bad",
    [
        NewMessage(role=Role.USER, content=Text("taken"), public_id="taken"),
        NewMessage(role=Role.USER, content=Text("negative"), token_count=-1),
        NewMessage(role=Role.USER, content=Tool("no JSON", {"set": {1, 2}}, {})),
    ],
    ids=lambda bad: str(bad.content)[:20],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_bad_message_and_none_is_stored(db: sqlite3.Connection, bad: NewMessage, place: int) -> None:
    make(db)
    run(db, messages.append_messages, "ada", KEY, [NewMessage(role=Role.USER, content=Text("x"), public_id="taken")], 3)
    before = dump(db)
    batch = [say("good"), say("also good")]
    batch.insert(place, bad)
    with pytest.raises((sqlite3.IntegrityError, TypeError)):
        run(db, messages.append_messages, "ada", KEY, batch, 5)
    assert dump(db) == before


@pytest.mark.req("S001-03")
def test_pages(db: sqlite3.Connection) -> None:
    make(db, texts=10)

    def page(**options: int) -> list[int]:
        return numbers(messages.get_history(db, "ada", KEY, HistoryOptions(**options)))

    assert page() == list(range(1, 11))
    assert page(limit=3) == [8, 9, 10]
    assert page(limit=3, before=8) == [5, 6, 7]
    assert page(limit=3, before=3) == [1, 2]
    assert page(limit=3, after=5) == [6, 7, 8]
    assert page(limit=3, after=8) == [9, 10]
    assert page(before=1) == page(before=0) == page(after=10) == page(after=99) == page(limit=0) == []
    assert page(before=11) == page(before=99) == page(after=0) == list(range(1, 11))


def test_the_default_page_is_the_newest_fifty(db: sqlite3.Connection) -> None:
    make(db, texts=60)
    assert numbers(messages.get_history(db, "ada", KEY)) == list(range(11, 61))


@pytest.mark.req("S001-71")
@pytest.mark.parametrize("number", [-(10**30), -(2**33), -(2**32), -1, 0, 2**32 - 1, 2**32, 2**33, 2**62, 10**30])
@pytest.mark.parametrize("side", ["before", "after"])
def test_no_number_leads_into_another_session(db: sqlite3.Connection, side: str, number: int) -> None:
    keys = [make_key(agent) for agent in ("a", "b", "c", "d", "e")]
    for key in keys:
        run(db, sessions.get_or_create, key.agent_id, key, 1)
        run(db, messages.append_messages, key.agent_id, key, [say(key.agent_id)], 2)
    for key in keys:
        options = HistoryOptions(before=number) if side == "before" else HistoryOptions(after=number)
        expected = [key.agent_id] if (number > 0) == (side == "before") else []
        assert [text_of(m) for m in messages.get_history(db, key.agent_id, key, options)] == expected


def forwards(db: sqlite3.Connection, session: int, size: int) -> Iterator[list[Message]]:
    at = 0
    while page := messages.page(db, session, HistoryOptions(limit=size, after=at)):
        yield page
        at = page[-1].seq


def backwards(db: sqlite3.Connection, session: int, size: int) -> Iterator[list[Message]]:
    at: int | None = None
    while page := messages.page(db, session, HistoryOptions(limit=size, before=at)):
        yield page
        at = page[0].seq


@pytest.mark.req("S001-66")
@settings(deadline=None, max_examples=40)
@given(start=st.integers(0, 30), size=st.integers(1, 7), appends=st.lists(st.integers(0, 4), max_size=6))
def test_walking_while_appends_go_on_gives_each_once(start: int, size: int, appends: list[int]) -> None:
    with fresh() as db:
        session = make(db, texts=start)
        seen, growth = list[int](), iter(appends)
        for page in forwards(db, session.id, size):
            seen += numbers(page)
            run(db, messages.append, session.id, [say("more")] * next(growth, 0), 5)
        total = sessions.by_number(db, session.id).last_seq
        assert seen == list(range(1, total + 1))

        seen, growth = [], iter(appends)
        for page in backwards(db, session.id, size):
            seen = numbers(page) + seen
            run(db, messages.append, session.id, [say("more")] * next(growth, 0), 5)
        assert seen == list(range(1, total + 1))


def test_between_is_inclusive(db: sqlite3.Connection) -> None:
    session = make(db, texts=6)
    assert numbers(messages.between(db, session.id, 2, 4)) == [2, 3, 4]
    assert messages.between(db, session.id, 5, 4) == []


@pytest.mark.req("S001-08")
def test_unknown_messages_are_typed_errors(db: sqlite3.Connection) -> None:
    session = make(db, texts=1)
    with pytest.raises(UnknownMessage):
        messages.by_public_id(db, "no such id")
    with pytest.raises(UnknownMessage):
        run(db, messages.replace, pack(session.id, 2), Text("x"), 9)
    with pytest.raises(UnknownSession):
        run(db, messages.append, 99, [say("x")], 9)


def test_replace_keeps_what_is_not_given(db: sqlite3.Connection) -> None:
    make(db)
    new = NewMessage(role=Role.AGENT, content=Text("a", partial=True), token_count=3, metadata={"k": 1})
    (first,) = run(db, messages.append_messages, "ada", KEY, [new], 5)
    run(db, messages.replace, first.id, Text("ab", partial=True), 9)
    second = messages.by_public_id(db, first.public_id)
    assert second.content == Text("ab", partial=True)
    assert (second.token_count, second.metadata, second.timestamp, second.changed_at) == (3, {"k": 1}, 5, 9)
    run(db, messages.replace, first.id, Text("abc", partial=False), 10, token_count=4, metadata={})
    third = messages.by_public_id(db, first.public_id)
    assert (third.token_count, third.metadata, third.timestamp) == (4, {}, 5)


def test_changed_since_gives_what_is_new_and_what_changed(db: sqlite3.Connection) -> None:
    session = make(db, texts=3)
    other = run(db, sessions.get_or_create, "bob", OTHER, 1)
    run(db, messages.append, other.id, [say("not ours")], 10**6)
    mark = messages.every(db, session.id)[-1].changed_at
    assert numbers(messages.changed_since(db, session.id, mark)) == []
    assert numbers(messages.changed_since(db, session.id, mark - 1)) == [3]
    assert numbers(messages.changed_since(db, session.id, 0)) == [1, 2, 3]
    run(db, messages.append, session.id, [say("4")], 5)
    _, when = run(db, sessions.advance, session.id, 0, 5)
    run(db, messages.replace, pack(session.id, 2), Text("2, changed"), when)
    assert numbers(messages.changed_since(db, session.id, mark)) == [2, 4]


@settings(deadline=None, max_examples=40)
@given(steps=st.lists(st.tuples(st.sampled_from(["append", "grow", "poll"]), st.integers(0, 3)), max_size=20))
def test_a_poller_ends_with_the_whole_history(steps: list[tuple[str, int]]) -> None:
    """Whoever asks again and again since the newest change he has seen misses nothing."""
    with fresh() as db:
        session = make(db, texts=1)
        mirror, mark = dict[int, Message](), 0

        def poll() -> bool:
            nonlocal mark
            page = messages.changed_since(db, session.id, mark)
            mirror.update((message.seq, message) for message in page)
            mark = max([mark, *(message.changed_at for message in page)])
            return bool(page)

        for step, number in steps:
            if step == "append":
                run(db, messages.append, session.id, [say("more")] * number, 5)
            elif step == "grow":
                seq, when = run(db, sessions.advance, session.id, 0, 5)
                run(db, messages.replace, pack(session.id, 1 + number % seq), Text(f"state {when}"), when)
            else:
                poll()
        while poll():
            pass
        assert list(dict(sorted(mirror.items())).values()) == messages.every(db, session.id)


CLOCK = st.sampled_from([0, 0, 3, 5, 7, 100, 10**15, 4 * 10**15])


@pytest.mark.req("S001-31", "S000-11", "S000-16")
@settings(deadline=None, max_examples=60)
@given(steps=st.lists(st.tuples(st.sampled_from(["append", "turn", "progress", "end", "patch"]), CLOCK), max_size=25))
def test_times_strictly_increase_whatever_the_clock_does(steps: list[tuple[str, int]]) -> None:
    with fresh() as db:
        session = make(db)
        for step, now in steps:
            before = sessions.by_number(db, session.id).updated_at
            pending = turns.pending_of(db, session.id)
            if step == "append":
                run(db, messages.append, session.id, [say("x"), say("y")], now)
            elif step == "patch":
                run(db, sessions.patch, "ada", KEY, SessionPatch(title=str(now)))
            elif pending is None:
                run(db, turns.add, session.id, ask(), now)
            elif step == "progress":
                grown = turns.growing(db, pending.id)
                row = grown[0].id if grown else None
                run(db, turns.progress, pending.id, row, Role.AGENT, Text("x", partial=True), now)
            else:
                run(db, turns.fail, pending.id, "stopped", turns.Ending(errors=("stopped",)), now)
            assert sessions.by_number(db, session.id).updated_at > before
        history = messages.every(db, session.id)
        assert all(one.timestamp < two.timestamp for one, two in pairwise(history))
        assert len({message.changed_at for message in history}) == len(history)
        assert all(message.timestamp <= message.changed_at for message in history)
        by_time = db.execute("SELECT id FROM messages WHERE session = ? ORDER BY timestamp", (session.id,)).fetchall()
        assert [number for (number,) in by_time] == [message.id for message in history]


def test_a_clock_that_goes_on_is_believed(db: sqlite3.Connection) -> None:
    session = make(db)
    stored = run(db, messages.append, session.id, [say("x"), say("y")], 1000)
    assert [message.timestamp for message in stored] == [999, 1000]


@pytest.mark.req("S001-36")
def test_by_time_is_a_range_search(db: sqlite3.Connection) -> None:
    plans = [
        db.execute("EXPLAIN QUERY PLAN SELECT * FROM messages WHERE id BETWEEN ? AND ? ORDER BY id", span(1)),
        db.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM messages WHERE session = 1 AND changed_at > 2 ORDER BY changed_at"
        ),
    ]
    for plan in plans:
        (row,) = plan.fetchall()
        assert row[3].startswith("SEARCH messages USING")


def test_rows_of_one_session_lie_together(db: sqlite3.Connection) -> None:
    one, two = make(db, texts=2), run(db, sessions.get_or_create, "bob", OTHER, 1)
    run(db, messages.append, two.id, [say("x")], 5)
    run(db, messages.append, one.id, [say("y")], 6)
    rows = db.execute("SELECT session FROM messages ORDER BY id").fetchall()
    assert [session for (session,) in rows] == [one.id] * 3 + [two.id]
    assert count(db, "messages") == 4
