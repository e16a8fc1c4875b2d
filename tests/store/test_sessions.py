"""Sessions: one live per key, every status change of the one table, agents apart, moves and merges."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import FunctionType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import ForbiddenTransition, SessionEnded, UnknownSession, WrongAgent
from routing.keys import PeerKind, SessionKey
from store import compactions, inbox, messages, outbox, sessions, turns
from store.content import Text
from store.filters import Order
from store.ids import to_datetime
from store.records import InboxState, NewMessage, OutboxState, Role, Session, Status, Usage
from store.sessions import SessionFilter, SessionPatch
from tests.store.rows import arrive, ask, begin, count, dump, fresh, make_address, make_key, run, say

KEY = make_key()
OTHER = make_key("bob")
LIVE = [Status.ACTIVE, Status.IDLE, Status.COMPACTED]
ENDED = [Status.COMPLETED, Status.CANCELLED, Status.ERROR, Status.ARCHIVED]
LATER = 10**18


def make(db: sqlite3.Connection, key: SessionKey = KEY, now: int = 1) -> Session:
    return run(db, sessions.get_or_create, key.agent_id, key, now)


def compact(db: sqlite3.Connection, session: int) -> None:
    run(db, compactions.record, session, strategy="window", through_seq=0, summary="so far", tokens=(9, 1), now=1)


def make_in(db: sqlite3.Connection, status: Status, key: SessionKey = KEY) -> Session:
    """A session that came to a status by the ways that lead there."""
    session = make(db, key)
    match status:
        case Status.ACTIVE:
            pass
        case Status.IDLE:
            run(db, sessions.rest, LATER)
        case Status.COMPACTED:
            compact(db, session.id)
        case _:
            run(db, sessions.end, session, status, "test", 2)
    return sessions.by_number(db, session.id)


def status_of(db: sqlite3.Connection, session: Session) -> Status:
    return sessions.by_number(db, session.id).status


@pytest.mark.req("S000-03", "S000-14", "S001-14", "S001-15", "S001-41", "S001-42", "S001-43")
def test_new_session_is_active_and_empty(db: sqlite3.Connection) -> None:
    session = make(db, now=1_700_000_000_000_000)
    assert session == Session(
        id=session.id,
        public_id=session.public_id,
        key=KEY,
        status=Status.ACTIVE,
        person=None,
        predecessor=None,
        title=None,
        last_model=None,
        last_seq=0,
        message_count=0,
        turn_count=0,
        total_input_tokens=0,
        total_output_tokens=0,
        compaction_count=0,
        last_compaction_at=None,
        reason=None,
        custom={},
        created_at=1_700_000_000_000_000,
        updated_at=1_700_000_000_000_000,
    )
    assert to_datetime(session.created_at).utcoffset() == timedelta(0)


@pytest.mark.req("S001-01", "S001-38", "S001-64")
def test_get_or_create_makes_one_per_key(db: sqlite3.Connection) -> None:
    keys = [make_key(agent, peer, kind) for agent in "ab" for peer in "12" for kind in PeerKind]
    first = {key: make(db, key) for key in keys}
    assert [make(db, key, now=9) for key in keys * 5] == list(first.values()) * 5
    assert len({session.id for session in first.values()}) == len(keys) == count(db, "sessions")


@pytest.mark.req("S001-38")
@pytest.mark.parametrize("status", LIVE)
def test_the_database_refuses_a_second_live_session_of_a_key(db: sqlite3.Connection, status: Status) -> None:
    first = make_in(db, status)
    with pytest.raises(sqlite3.IntegrityError, match=r"sessions\.key"):
        run(db, sessions.create, KEY, 5)
    run(db, sessions.end, first, Status.COMPLETED, "user", 6)
    assert run(db, sessions.create, KEY, 7).key == first.key


@pytest.mark.req("S000-05", "S000-10")
def test_found_by_public_id_number_and_key(db: sqlite3.Connection) -> None:
    one, two = make(db), make(db, OTHER)
    for session in (one, two):
        assert sessions.get(db, session.public_id) == session
        assert sessions.by_number(db, session.id) == session
        assert sessions.live(db, session.key) == session
        assert sessions.for_agent(db, session.key.agent_id, session.key) == session


@pytest.mark.req("S001-08")
def test_unknown_sessions_are_typed_errors(db: sqlite3.Connection) -> None:
    calls: list[Callable[[], object]] = [
        lambda: sessions.get(db, "no such id"),
        lambda: sessions.by_number(db, 7),
        lambda: sessions.for_agent(db, "ada", KEY),
        lambda: run(db, sessions.patch, "ada", KEY, SessionPatch(title="x")),
        lambda: run(db, sessions.delete, "ada", KEY),
        lambda: run(db, sessions.remove, 7),
        lambda: run(db, sessions.advance, 7, 1, 1),
        lambda: run(db, sessions.start_turn, 7, 1, 1),
        lambda: run(db, messages.append_messages, "ada", KEY, [say("x")], 1),
        lambda: messages.get_history(db, "ada", KEY),
    ]
    for call in calls:
        with pytest.raises(UnknownSession):
            call()
    assert sessions.live(db, KEY) is None
    assert count(db, "sessions") == 0


@pytest.mark.req("S000-25")
def test_successor_of_an_error_points_to_it(db: sqlite3.Connection) -> None:
    failed = make_in(db, Status.ERROR)
    successor = make(db, now=5)
    assert successor.id != failed.id
    assert successor.predecessor == failed.id
    assert status_of(db, failed) is Status.ERROR


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED, Status.ARCHIVED])
def test_after_other_ends_a_session_starts_empty(db: sqlite3.Connection, status: Status) -> None:
    ended = make_in(db, status)
    run(db, messages.append, ended.id, [say("old")], 3)
    session = make(db, now=5)
    assert session.id != ended.id
    assert session.predecessor is None
    assert messages.get_history(db, "ada", KEY) == []


@pytest.mark.req("S001-60")
def test_same_peer_two_agents_two_histories(db: sqlite3.Connection) -> None:
    for agent in ("ada", "bob"):
        key = make_key(agent)
        make(db, key)
        run(db, messages.append_messages, agent, key, [say(f"for {agent}")], 2)
    for agent in ("ada", "bob"):
        (message,) = messages.get_history(db, agent, make_key(agent))
        assert message.content == Text(f"for {agent}")


#: Every function that takes an agent, called by `agent` with `key`.
AGENT_FACING: dict[str, Callable[[sqlite3.Connection, str, SessionKey], object]] = {
    "get_or_create": lambda db, agent, key: sessions.get_or_create(db, agent, key, 9),
    "for_agent": sessions.for_agent,
    "patch": lambda db, agent, key: sessions.patch(db, agent, key, SessionPatch(title="stolen")),
    "delete": sessions.delete,
    "list_for": lambda db, agent, key: sessions.list_for(db, agent, SessionFilter(agent_id=key.agent_id)),
    "append_messages": lambda db, agent, key: messages.append_messages(db, agent, key, [say("forged")], 9),
    "get_history": messages.get_history,
    "begin": lambda db, agent, key: turns.begin(db, agent, inbox.waiting(db, key)[:1], ask("forged"), 9),
    "begin, for one session": lambda db, agent, key: turns.begin(
        db, agent, inbox.waiting(db, key)[1:], ask("forged"), 9
    ),
}


@pytest.mark.req("S001-71", "S001-08")
@pytest.mark.parametrize("name", AGENT_FACING)
@pytest.mark.parametrize("exists", [True, False], ids=["live", "absent"])
def test_another_agents_key_is_refused(db: sqlite3.Connection, name: str, exists: bool) -> None:
    target = make(db)
    run(db, messages.append, target.id, [say("secret")], 2)
    arrive(db, "by key")
    arrive(db, "by session", session=target.id)
    if not exists:
        run(db, sessions.end, target, Status.COMPLETED, "user", 50)
    before = dump(db)
    with pytest.raises(WrongAgent):
        run(db, AGENT_FACING[name], "bob", KEY)
    assert dump(db) == before


def test_every_agent_facing_function_is_in_the_table() -> None:
    modules = (sessions, messages, turns, inbox, outbox, compactions)
    taking = {
        name
        for module in modules
        for name, function in vars(module).items()
        if isinstance(function, FunctionType)
        and function.__module__ == module.__name__
        and "agent" in function.__annotations__
        and not name.startswith("_")
    }
    taking -= {"move"}  # for administrators: `agent` is where the session goes
    assert taking == {name.partition(",")[0] for name in AGENT_FACING}


@pytest.mark.req("S001-05", "S001-18", "S001-19", "S001-21", "S001-67")
@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        (SessionPatch(title="New"), "title", "New"),
        (SessionPatch(title=None), "title", None),
        (SessionPatch(title="half \ud83d"), "title", "half \ufffd"),
        (SessionPatch(last_model="m-2"), "last_model", "m-2"),
        (SessionPatch(last_model=None), "last_model", None),
        (SessionPatch(custom={"a": [1, {"b": None}]}), "custom", {"a": [1, {"b": None}]}),
        (SessionPatch(custom=None), "custom", None),
        (SessionPatch(custom=[]), "custom", []),
    ],
)
def test_patch_changes_only_what_is_given(
    db: sqlite3.Connection, change: SessionPatch, field: str, value: object
) -> None:
    make(db)
    run(db, sessions.patch, "ada", KEY, SessionPatch(title="Old", last_model="m-1", custom={"kept": True}))
    begin(db, arrive(db, "x"))
    before = sessions.for_agent(db, "ada", KEY)
    after = run(db, sessions.patch, "ada", KEY, change)
    assert after == sessions.for_agent(db, "ada", KEY)
    assert after == replace(before, updated_at=after.updated_at, **{field: value})  # type: ignore[arg-type]
    assert after.updated_at > before.updated_at


def test_an_empty_patch_changes_nothing(db: sqlite3.Connection) -> None:
    session = make(db)
    before = dump(db)
    assert run(db, sessions.patch, "ada", KEY, SessionPatch()) == session
    assert dump(db) == before


def fill(db: sqlite3.Connection, key: SessionKey, name: str) -> Session:
    """A session with a row in every table that belongs to one."""
    address = make_address()
    session, turn = begin(db, arrive(db, f"{name} 1", key))
    run(db, turns.complete, turn.id, None, say("done", Role.AGENT), turns.Ending(answer_summary="done"), 30)
    draft = outbox.Draft(address=address, text="done", turn=turn.id)
    run(db, outbox.put, draft, OutboxState.READY, 31)
    compact(db, session.id)
    arrive(db, f"{name} 2", key)
    arrive(db, f"{name} 3", key, session=session.id)
    begin(db, inbox.waiting(db, key)[0])
    return session


@pytest.mark.req("S001-06", "S001-69")
def test_delete_takes_all_that_belongs_to_it_and_nothing_else(db: sqlite3.Connection) -> None:
    gone, kept = fill(db, KEY, "gone"), fill(db, OTHER, "kept")
    run(db, sessions.end, kept, Status.ERROR, "crash", 90)
    heir = make(db, OTHER, now=100)
    others = {
        table: db.execute(f"SELECT * FROM {table} WHERE {column} IS NOT ?", (gone.id,)).fetchall()
        for table, column in OWNED.items()
    }
    run(db, sessions.delete, "ada", KEY)
    assert {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in OWNED} == others
    assert sessions.live(db, KEY) is None
    assert [one.id for one in sessions.list_all(db, SessionFilter())[0]] == [heir.id, kept.id]
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []


OWNED = {
    "sessions": "id",
    "turns": "session",
    "messages": "session",
    "compactions": "session",
    "outbox": "turn >> 32",
}


@pytest.mark.req("S001-69")
def test_delete_leaves_no_text_and_no_message_running_for_ever(db: sqlite3.Connection) -> None:
    fill(db, KEY, "gone")
    run(db, sessions.delete, "ada", KEY)
    rows = db.execute("SELECT external_id, state, text, turn FROM inbox ORDER BY id").fetchall()
    # The third was for this session alone; the others are kept without text, to recognise them.
    assert rows == [("gone 1", "done", "", None), ("gone 2", "cancelled", "", None)]


def test_what_waits_for_the_key_survives_its_session(db: sqlite3.Connection) -> None:
    session = make(db)
    item = arrive(db, "waits")
    run(db, sessions.remove, session.id)
    assert inbox.waiting(db, KEY) == [item]


def test_a_number_never_comes_back(db: sqlite3.Connection) -> None:
    session = make(db)
    run(db, sessions.remove, session.id)
    assert make(db).id > session.id


def test_removing_a_predecessor_leaves_its_successor(db: sqlite3.Connection) -> None:
    failed = make_in(db, Status.ERROR)
    successor = make(db)
    run(db, sessions.remove, failed.id)
    assert sessions.by_number(db, successor.id).predecessor is None


# The status machine


def do_wake(db: sqlite3.Connection, session: Session) -> None:
    run(db, sessions.wake, session.key)


def do_accept(db: sqlite3.Connection, session: Session) -> None:
    arrive(db, "a message", session.key)


def do_rest(db: sqlite3.Connection, session: Session) -> None:
    run(db, sessions.rest, LATER)


def do_compact(db: sqlite3.Connection, session: Session) -> None:
    compact(db, session.id)


def do_undo(db: sqlite3.Connection, session: Session) -> None:
    status = status_of(db, session)
    compact(db, session.id)
    if status is not Status.ACTIVE:
        assert status_of(db, session) is status
    run(db, compactions.undo, session.id, 5)


def do_turn(db: sqlite3.Connection, session: Session) -> None:
    """A message that waited since before the session came to its status."""
    item = run(db, inbox.insert, WAITED, InboxState.WAITING, 1)
    assert item is not None
    begin(db, replace(item, session=session.id))


WAITED = inbox.Arrival(external_id="waited", key=KEY, address=make_address(), text="hello")


#: What each way does to (active, idle, compacted).
CHANGES: dict[Callable[[sqlite3.Connection, Session], None], tuple[Status, Status, Status]] = {
    do_wake: (Status.ACTIVE, Status.ACTIVE, Status.ACTIVE),
    do_accept: (Status.ACTIVE, Status.ACTIVE, Status.ACTIVE),
    do_rest: (Status.IDLE, Status.IDLE, Status.IDLE),
    do_compact: (Status.COMPACTED, Status.IDLE, Status.COMPACTED),
    do_undo: (Status.ACTIVE, Status.IDLE, Status.ACTIVE),
    do_turn: (Status.ACTIVE, Status.ACTIVE, Status.ACTIVE),
}


@pytest.mark.req("S001-22", "S001-23", "S001-24")
@pytest.mark.parametrize("way", CHANGES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("status", LIVE)
def test_ways_between_live_statuses(
    db: sqlite3.Connection, way: Callable[[sqlite3.Connection, Session], None], status: Status
) -> None:
    session = make_in(db, status)
    way(db, session)
    after = sessions.by_number(db, session.id)
    assert after.status is CHANGES[way][LIVE.index(status)]
    assert after.reason == ("idle_timeout" if after.status is Status.IDLE else None)


@pytest.mark.req("S000-18", "S000-25", "S001-22", "S001-25")
@pytest.mark.parametrize("way", CHANGES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("status", ENDED)
def test_no_way_back_to_life(
    db: sqlite3.Connection, way: Callable[[sqlite3.Connection, Session], None], status: Status
) -> None:
    session = make_in(db, status)
    if way is do_turn:
        with pytest.raises(SessionEnded) as caught:
            way(db, session)
        assert caught.value.status == status
        assert count(db, "turns") == count(db, "messages") == 0
        with pytest.raises(SessionEnded):
            run(db, turns.add, session.id, ask(), 5)
    else:
        way(db, session)
    after = sessions.by_number(db, session.id)
    assert (after.status, after.reason) == (status, "test")


@pytest.mark.req("S000-17", "S000-20", "S000-23", "S001-22", "S001-25")
@pytest.mark.parametrize("old", Status)
@pytest.mark.parametrize("new", Status)
def test_ends(db: sqlite3.Connection, old: Status, new: Status) -> None:
    session = make_in(db, old)
    if (old.live and not new.live) or (old is not Status.ARCHIVED and new is Status.ARCHIVED):
        after = run(db, sessions.end, session, new, "why", LATER)
        assert (after.status, after.reason, after.updated_at) == (new, "why", LATER)
        assert after == sessions.by_number(db, session.id)
    else:
        expected: type[Exception] = ForbiddenTransition if old.live else SessionEnded
        with pytest.raises(expected):
            run(db, sessions.end, session, new, "why", LATER)
        assert sessions.by_number(db, session.id) == session


@pytest.mark.req("S000-19")
def test_the_end_time_stays_after_refused_prompts(db: sqlite3.Connection) -> None:
    session = make_in(db, Status.COMPLETED)
    with pytest.raises(SessionEnded):
        arrive(db, "late", session=session.id)
    with pytest.raises(SessionEnded):
        run(db, turns.add, session.id, ask(), 99)
    assert sessions.by_number(db, session.id) == session


def test_end_looks_at_the_row_not_at_the_callers_copy(db: sqlite3.Connection) -> None:
    stale = make(db)
    run(db, sessions.end, stale, Status.COMPLETED, "user", 5)
    with pytest.raises(SessionEnded):
        run(db, sessions.end, stale, Status.CANCELLED, "too late", 6)
    assert status_of(db, stale) is Status.COMPLETED


@pytest.mark.req("S001-23")
def test_rest_takes_only_sessions_without_work(db: sqlite3.Connection) -> None:
    quiet, running, waiting, young = (make(db, make_key(peer=peer)) for peer in ("quiet", "run", "wait", "young"))
    begin(db, arrive(db, "1", running.key))
    arrive(db, "2", waiting.key)
    run(db, sessions.advance, young.id, 0, LATER)
    border = sessions.by_number(db, young.id).updated_at
    assert run(db, sessions.rest, quiet.updated_at) == []
    assert run(db, sessions.rest, border) == [quiet.public_id]
    assert run(db, sessions.rest, border) == []
    rested = sessions.by_number(db, quiet.id)
    assert (rested.status, rested.reason) == (Status.IDLE, "idle_timeout")
    assert {status_of(db, one) for one in (running, waiting, young)} == {Status.ACTIVE}


@pytest.mark.req("S001-23")
def test_a_message_wakes_only_its_own_session(db: sqlite3.Connection) -> None:
    mine, other = make(db), make(db, OTHER)
    run(db, sessions.rest, LATER)
    arrive(db, "hello", KEY)
    woken = sessions.by_number(db, mine.id)
    assert (woken.status, woken.reason) == (Status.ACTIVE, None)
    assert status_of(db, other) is Status.IDLE


# Listing

AGENTS, CHANNELS, ACCOUNTS, PEERS = ("ada", "bob"), ("telegram", "web"), ("main", "second"), ("1", "2", "3")
KEYS = st.builds(
    SessionKey,
    st.sampled_from(AGENTS),
    st.sampled_from(CHANNELS),
    st.sampled_from(ACCOUNTS),
    st.sampled_from(PeerKind),
    st.sampled_from(PEERS),
)
FILTERS = st.builds(
    SessionFilter,
    agent_id=st.none() | st.sampled_from(AGENTS),
    channel=st.none() | st.sampled_from(CHANNELS),
    account_id=st.none() | st.sampled_from(ACCOUNTS),
    peer_kind=st.none() | st.sampled_from(PeerKind),
    peer_id=st.none() | st.sampled_from(PEERS),
    key=st.none() | KEYS.map(str),
    statuses=st.lists(st.sampled_from([Status.ACTIVE, *ENDED]), max_size=3, unique=True).map(tuple),
    created_after=st.none() | st.integers(0, 10),
    created_before=st.none() | st.integers(0, 10),
    updated_after=st.none() | st.integers(0, 25),
    updated_before=st.none() | st.integers(0, 25),
    person=st.sampled_from([None, None, None, "nobody"]),
)


def naive(session: Session, which: SessionFilter) -> bool:
    wanted = {name: getattr(which, name) for name in ("agent_id", "channel", "account_id", "peer_kind", "peer_id")}
    return (
        (which.key is None or str(session.key) == which.key)
        and all(value is None or getattr(session.key, name) == value for name, value in wanted.items())
        and (not which.statuses or session.status in which.statuses)
        and (which.created_after is None or session.created_at > which.created_after)
        and (which.created_before is None or session.created_at < which.created_before)
        and (which.updated_after is None or session.updated_at > which.updated_after)
        and (which.updated_before is None or session.updated_at < which.updated_before)
        and which.person is None
    )


@pytest.mark.req("S001-02", "S001-63", "S001-68")
@settings(deadline=None, max_examples=60)
@given(
    data=st.lists(st.tuples(KEYS, st.integers(0, 10), st.none() | st.sampled_from(ENDED)), max_size=15),
    which=FILTERS,
    page=st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_listing_equals_a_naive_filter(
    data: list[tuple[SessionKey, int, Status | None]], which: SessionFilter, page: tuple[int, int]
) -> None:
    with fresh() as db:
        for key, created, end in data:
            session = make(db, key, created)
            if end is not None:
                run(db, sessions.end, session, end, "test", 20)
        numbers = [number for (number,) in db.execute("SELECT id FROM sessions").fetchall()]
        everything = [sessions.by_number(db, number) for number in numbers]
        everything.sort(key=lambda one: (one.created_at, one.id), reverse=True)
        expected = [one for one in everything if naive(one, which)]
        limit, offset = page
        assert sessions.list_all(db, which) == (expected, len(expected))
        assert sessions.list_all(db, which, limit, offset) == (expected[offset : offset + limit], len(expected))
        for agent in AGENTS:
            if which.agent_id in {None, agent}:
                own = [one for one in expected if one.key.agent_id == agent]
                assert sessions.list_for(db, agent, which) == own
                assert sessions.list_for(db, agent, which, limit) == own[:limit]
            else:
                with pytest.raises(WrongAgent):
                    sessions.list_for(db, agent, which)


def test_listing_by_activity(db: sqlite3.Connection) -> None:
    first, second, third = (make(db, make_key(peer=peer), now) for peer, now in (("1", 1), ("2", 2), ("3", 3)))
    run(db, messages.append, first.id, [say("x")], 100)
    assert [one.id for one in sessions.list_all(db, SessionFilter())[0]] == [third.id, second.id, first.id]
    page, total = sessions.list_all(db, SessionFilter(), 2, 0, order=Order.UPDATED)
    assert ([one.id for one in page], total) == ([first.id, third.id], 3)


@pytest.mark.req("S001-02")
def test_times_of_a_filter_are_exclusive(db: sqlite3.Connection) -> None:
    for created in (1, 2, 3):
        make(db, make_key(peer=str(created)), created)

    def found(which: SessionFilter) -> list[int]:
        return [session.created_at for session in sessions.list_all(db, which)[0]]

    assert found(SessionFilter(created_after=1)) == [3, 2]
    assert found(SessionFilter(created_before=3)) == [2, 1]
    assert found(SessionFilter(created_after=1, created_before=3)) == [2]


# Moving


@pytest.mark.req("S001-61", "S001-62")
def test_move_takes_the_history_along(db: sqlite3.Connection) -> None:
    session = fill(db, KEY, "x")
    session = sessions.by_number(db, session.id)
    rows = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in ("messages", "turns", "compactions")}
    moved = run(db, sessions.move, session, "bob", 50)
    assert moved.key == OTHER
    assert moved == replace(session, key=OTHER, updated_at=moved.updated_at)
    assert sessions.live(db, KEY) is None
    assert {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in rows} == rows
    assert messages.get_history(db, "bob", OTHER)
    with pytest.raises(WrongAgent):
        messages.get_history(db, "ada", moved.key)
    columns = "agent_id, channel, account_id, peer_kind, peer_id"
    assert db.execute(f"SELECT {columns} FROM sessions").fetchall() == [("bob", "telegram", "main", "group", "1")]


def test_what_is_meant_for_a_session_follows_it(db: sqlite3.Connection) -> None:
    session = make(db)
    mine, by_key = arrive(db, "for the session", session=session.id), arrive(db, "for the key")
    run(db, sessions.move, session, "bob", 50)
    assert inbox.waiting(db, OTHER) == [replace(mine, key=OTHER)]
    assert inbox.waiting(db, KEY) == [by_key]
    assert begin(db, *inbox.waiting(db, OTHER))[0].id == session.id


def test_move_to_the_same_agent_changes_nothing_but_the_time(db: sqlite3.Connection) -> None:
    session = make(db)
    moved = run(db, sessions.move, session, "ada", 50)
    assert moved == replace(session, updated_at=moved.updated_at)


@pytest.mark.parametrize("moved_is_newer", [True, False])
def test_where_two_sessions_meet_the_newer_stays_live(db: sqlite3.Connection, moved_is_newer: bool) -> None:
    here, there = make(db, KEY), make(db, OTHER)
    newer, older = (here, there) if moved_is_newer else (there, here)
    run(db, messages.append, older.id, [say("long ago")], 100)
    run(db, messages.append, newer.id, [say("just now")], 200)
    # The older one fell idle last: that is no activity.
    run(db, sessions.rest, LATER)
    run(db, sessions.patch, older.key.agent_id, older.key, SessionPatch(title="renamed"))
    moved = run(db, sessions.move, sessions.by_number(db, here.id), "bob", 300)
    assert moved.id == here.id
    live = sessions.for_agent(db, "bob", OTHER)
    archived = sessions.by_number(db, older.id)
    assert (live.id, live.predecessor) == (newer.id, older.id)
    assert (archived.status, archived.reason, archived.key) == (Status.ARCHIVED, "merged", OTHER)
    assert [m.content for m in messages.every(db, older.id)] == [Text("long ago")]


def test_a_merge_keeps_the_chain_of_predecessors(db: sqlite3.Connection) -> None:
    failed = make_in(db, Status.ERROR)
    here, there = make(db, KEY), make(db, OTHER)
    run(db, messages.append, there.id, [say("old")], 100)
    run(db, messages.append, here.id, [say("new")], 200)
    run(db, sessions.move, sessions.by_number(db, here.id), "bob", 300)
    assert sessions.by_number(db, here.id).predecessor == there.id
    assert sessions.by_number(db, there.id).predecessor == failed.id


def test_an_ended_session_moves_without_touching_the_live_one(db: sqlite3.Connection) -> None:
    ended = make_in(db, Status.COMPLETED)
    live = make(db, OTHER)
    assert run(db, sessions.move, ended, "bob", 50).status is Status.COMPLETED
    assert sessions.for_agent(db, "bob", OTHER) == live


# Counters


@pytest.mark.req("S000-16", "S001-16", "S001-17", "S001-19")
def test_counters_and_the_last_activity(db: sqlite3.Connection) -> None:
    session, seen = make(db), [1]

    def look(expected: dict[str, Any]) -> None:
        now = sessions.by_number(db, session.id)
        assert {name: getattr(now, name) for name in expected} == expected
        assert now.updated_at > seen[-1]
        seen.append(now.updated_at)

    turn = run(db, turns.add, session.id, ask(), 1)
    look({"message_count": 1, "last_seq": 1, "turn_count": 1, "total_input_tokens": 0})
    row = run(db, turns.progress, turn.id, None, Role.AGENT, Text("a", partial=True), 1)
    look({"message_count": 2, "last_seq": 2})
    run(db, turns.progress, turn.id, row, Role.AGENT, Text("ab", partial=True), 1)
    look({"message_count": 2, "last_seq": 2})
    answer = NewMessage(role=Role.AGENT, content=Text("abc", partial=False))
    ending = turns.Ending(answer_summary="abc", model="m-1", usage=Usage(input=7, output=5, source="provider"))
    run(db, turns.complete, turn.id, row, answer, ending, 1)
    look({"message_count": 2, "total_input_tokens": 7, "total_output_tokens": 5, "last_model": "m-1"})
    turn = run(db, turns.add, session.id, ask(), 1)
    run(db, turns.fail, turn.id, "stopped", turns.Ending(errors=("stopped",), usage=Usage(input=1)), 1)
    look({"turn_count": 2, "total_input_tokens": 8, "total_output_tokens": 5, "last_model": "m-1"})


def test_reserved_numbers_and_times(db: sqlite3.Connection) -> None:
    session = make(db)
    assert run(db, sessions.advance, session.id, 3, 100) == (3, 100)
    assert run(db, sessions.advance, session.id, 2, 50) == (5, 102)
    assert run(db, sessions.advance, session.id, 0, 50) == (5, 103)
    assert run(db, sessions.start_turn, session.id, 2, 50) == (1, 7, 105, session.public_id)
    assert run(db, sessions.close_turn, session.id, 0, Usage(), None, 50) == (7, 106)
    assert run(db, sessions.close_turn, session.id, 2, Usage(), None, 50) == (9, 108)
    assert run(db, sessions.close_turn, session.id, 1, Usage(), None, 500) == (10, 500)


# A group with another id


@pytest.mark.req("P16")
def test_the_conversations_of_a_group_follow_it(db: sqlite3.Connection) -> None:
    keys = {peer: make_key(peer=peer) for peer in ("-5", "-5/7", "-5@p", "-55", "-6")}
    made = {peer: make(db, key) for peer, key in keys.items()}
    other = make(db, make_key("bob", peer="-5"))
    direct = make(db, make_key(peer="-5", kind=PeerKind.DM))
    waits = arrive(db, "for one", keys["-5/7"], session=made["-5/7"].id)
    run(db, sessions.move_chat, "telegram", "main", "-5", "-1005", 50)
    now = {peer: sessions.by_number(db, one.id).key.peer_id for peer, one in made.items()}
    assert now == {"-5": "-1005", "-5/7": "-1005/7", "-5@p": "-1005@p", "-55": "-55", "-6": "-6"}
    assert sessions.by_number(db, other.id).key == make_key("bob", peer="-1005")
    assert sessions.by_number(db, direct.id) == direct
    assert [item.key for item in inbox.all_waiting(db)] == [make_key(peer="-1005/7")], waits
    row = db.execute("SELECT key, peer_id FROM sessions WHERE id = ?", (made["-5"].id,)).fetchone()
    assert row == (str(make_key(peer="-1005")), "-1005")


@pytest.mark.req("P16")
def test_a_conversation_that_began_under_the_new_id_becomes_one_with_the_old(db: sqlite3.Connection) -> None:
    """A message under the new id may come before anybody says that the group has moved."""
    old, new = make(db, make_key(peer="-5")), make(db, make_key(peer="-1005"), now=10)
    run(db, messages.append, new.id, [say("newest")], 20)
    run(db, sessions.move_chat, "telegram", "main", "-5", "-1005", 50)
    live = sessions.live(db, make_key(peer="-1005"))
    assert live is not None
    assert (live.id, live.predecessor) == (new.id, old.id)
    assert status_of(db, old) is Status.ARCHIVED


def test_moving_twice_or_an_unknown_group_changes_nothing(db: sqlite3.Connection) -> None:
    make(db, make_key(peer="-5"))
    run(db, sessions.move_chat, "telegram", "main", "-5", "-1005", 50)
    before = dump(db)
    run(db, sessions.move_chat, "telegram", "main", "-5", "-1005", 60)
    run(db, sessions.move_chat, "telegram", "main", "-1005", "-1005", 60)
    run(db, sessions.move_chat, "telegram", "second", "-1005", "-7", 60)
    assert dump(db) == before
