"""The list of sessions: every filter against a naive one, by people and places that were seen, page by page."""

import base64
import sqlite3
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.keys import ANY, PeerKind, SessionKey
from routing.messages import Address
from store import inbox, people, sessions, turns
from store.filters import Cursor, Order, SessionFilter
from store.inbox import Arrival
from store.records import Session, Status
from store.turns import Ending
from tests.store.rows import fresh, instruct, make_key, run
from tests.store.scale import build

AGENTS = ("ada", "bob")
CHANNELS = ("telegram", "discord")
ACCOUNTS = ("main", "second")
USERS = ("1", "2", "3")
REPOS = ("r1", "r2")
#: A key of one place, or one that collapses direct messages of all places.
KEYS = st.builds(
    SessionKey, st.sampled_from(AGENTS), st.just(ANY), st.just(ANY), st.just(PeerKind.DM), st.just("p")
) | (
    st.builds(
        SessionKey,
        st.sampled_from(AGENTS),
        st.sampled_from(CHANNELS),
        st.sampled_from(ACCOUNTS),
        st.sampled_from([PeerKind.GROUP, PeerKind.CHANNEL]),
        st.sampled_from(["-1", "-2"]),
    )
)


@dataclass(frozen=True)
class Said:
    """Somebody writes in a conversation, from somewhere, at some time."""

    key: SessionKey
    user: str | None
    channel: str
    account: str
    now: int
    end: Status | None
    repo: str | None


SAID = st.builds(
    Said,
    KEYS,
    st.none() | st.sampled_from(USERS),
    st.sampled_from(CHANNELS),
    st.sampled_from(ACCOUNTS),
    st.integers(1, 9),
    st.none() | st.sampled_from([Status.COMPLETED, Status.ARCHIVED]),
    st.none() | st.sampled_from(REPOS),
)


class World:
    """The database, and what a naive list needs to know about it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.serial = 0
        #: Session → who wrote from where; who it belongs to stands under the place None.
        self.seen: dict[int, set[tuple[str | None, str | None, str | None]]] = {}
        for repo in REPOS:
            db.execute(
                "INSERT INTO repos (public_id, name, path, created_at, scanned_at) VALUES (?1, ?1, ?1, 1, 1)", (repo,)
            )

    def say(self, said: Said) -> None:
        self.serial += 1
        person = None if said.user is None else run(self.db, people.meet, "telegram", said.user, said.user, said.now)
        arrival = Arrival(
            external_id=str(self.serial),
            key=said.key,
            address=Address(channel=said.channel, account=said.account, chat="1"),
            text="x",
            person=None if person is None else person.id,
        )
        item = run(self.db, inbox.accept, arrival, said.now).item
        session, turn = run(self.db, turns.begin, said.key.agent_id, [item], instruct(item), said.now)
        run(self.db, turns.complete, turn.id, None, None, Ending(), said.now)
        known = self.seen.setdefault(session.id, {(said.user, None, None)})
        known.add((said.user, said.channel, said.account))
        if said.repo is not None and session.repo_id is None:
            run(self.db, sessions.bind, session.id, said.repo)
        if said.end is not None:
            run(self.db, sessions.end, sessions.by_number(self.db, session.id), said.end, "x", said.now)

    def sessions(self, order: Order) -> list[Session]:
        found = [sessions.by_number(self.db, number) for number in self.seen]
        return sorted(found, key=lambda one: (getattr(one, order.column), one.id), reverse=True)

    def is_seen(self, session: Session, which: SessionFilter) -> bool:
        places = {(session.key.channel, session.key.account_id)} | {place[1:] for place in self.seen[session.id]}
        return any(
            (which.channel is None or channel == which.channel)
            and (which.account_id is None or account == which.account_id)
            for channel, account in places
        )

    def is_persons(self, session: Session, person: str | None) -> bool:
        if person is None:
            return True
        return any(user is not None and self.public_id(user) == person for user, _, _ in self.seen[session.id])

    def public_id(self, user: str) -> str:
        found = people.find(self.db, "telegram", user)
        assert found is not None
        return found.public_id

    def naive(self, session: Session, which: SessionFilter) -> bool:
        return (
            (which.key is None or str(session.key) == which.key)
            and which.agent_id in {None, session.key.agent_id}
            and which.peer_kind in {None, session.key.peer_kind}
            and which.peer_id in {None, session.key.peer_id}
            and which.repo_id in {None, session.repo_id}
            and (not which.statuses or session.status in which.statuses)
            and (which.created_after is None or session.created_at > which.created_after)
            and (which.created_before is None or session.created_at < which.created_before)
            and (which.updated_after is None or session.updated_at > which.updated_after)
            and (which.updated_before is None or session.updated_at < which.updated_before)
            and self.is_seen(session, which)
            and self.is_persons(session, which.person)
        )


TIMES = st.none() | st.integers(0, 12)
FILTERS = st.builds(
    SessionFilter,
    key=st.none() | KEYS.map(str),
    agent_id=st.none() | st.sampled_from(AGENTS),
    channel=st.none() | st.sampled_from((*CHANNELS, ANY)),
    account_id=st.none() | st.sampled_from((*ACCOUNTS, ANY)),
    peer_kind=st.none() | st.sampled_from(PeerKind),
    peer_id=st.none() | st.sampled_from(["p", "-1"]),
    repo_id=st.none() | st.sampled_from(REPOS),
    statuses=st.lists(st.sampled_from([Status.ACTIVE, Status.COMPLETED, Status.ARCHIVED]), max_size=2).map(tuple),
    created_after=TIMES,
    created_before=TIMES,
    updated_after=TIMES,
    updated_before=TIMES,
)


@pytest.mark.req("S001-02", "S001-63", "S001-68", "S000-31")
@settings(deadline=None, max_examples=120)
@given(
    history=st.lists(SAID, max_size=15),
    which=FILTERS,
    user=st.none() | st.sampled_from(USERS),
    order=st.sampled_from(Order),
    page=st.integers(1, 4),
)
def test_listing_equals_a_naive_filter(
    history: list[Said], which: SessionFilter, user: str | None, order: Order, page: int
) -> None:
    with fresh() as db:
        world = World(db)
        for said in history:
            world.say(said)
        if user is not None:
            run(db, people.meet, "telegram", user, user, 1)
            which = replace(which, person=world.public_id(user))
        expected = [one for one in world.sessions(order) if world.naive(one, which)]
        assert sessions.list_all(db, which, order=order) == (expected, len(expected))
        assert walk(db, which, order, page) == expected


def test_the_naive_filter_knows_every_field() -> None:
    assert {field.name for field in fields(SessionFilter)} == {
        "key",
        "agent_id",
        "channel",
        "account_id",
        "peer_kind",
        "peer_id",
        "person",
        "repo_id",
        "statuses",
        "created_after",
        "created_before",
        "updated_after",
        "updated_before",
    }


def walk(db: sqlite3.Connection, which: SessionFilter, order: Order, size: int) -> list[Session]:
    """Page by page with the cursor."""
    found: list[Session] = []
    after: Cursor | None = None
    while True:
        rows, _ = sessions.list_all(db, which, size, order=order, after=after)
        if not rows:
            return found
        found += rows
        after = Cursor.parse(str(Cursor.behind(rows[-1], order)))


@pytest.mark.req("S001-02")
def test_times_of_activity_are_exclusive(db: sqlite3.Connection) -> None:
    for created in (1, 2, 3):
        run(db, sessions.create, make_key(peer=str(created)), created)

    def found(**which: Any) -> list[int]:
        return [one.updated_at for one in sessions.list_all(db, SessionFilter(**which), order=Order.UPDATED)[0]]

    assert found(updated_after=1) == [3, 2]
    assert found(updated_before=3) == [2, 1]
    assert found(updated_after=1, updated_before=3) == [2]


def write(db: sqlite3.Connection, key: SessionKey, external_id: str, person: int, channel: str = "telegram") -> Session:
    address = Address(channel=channel, account="main", chat="1")
    arrival = Arrival(external_id=external_id, key=key, address=address, text="x", person=person)
    item = run(db, inbox.accept, arrival, 5).item
    session, turn = run(db, turns.begin, key.agent_id, [item], instruct(item), 5)
    run(db, turns.complete, turn.id, None, None, Ending(), 6)
    return session


def test_a_collapsed_conversation_is_found_under_every_channel_it_was_held_on(db: sqlite3.Connection) -> None:
    person = run(db, people.meet, "telegram", "1", "Ada", 1)
    key = SessionKey("ada", ANY, ANY, PeerKind.DM, person.public_id)
    session = write(db, key, "a", person.id, "telegram")
    write(db, key, "b", person.id, "discord")

    def found(**which: Any) -> list[int]:
        return [one.id for one in sessions.list_all(db, SessionFilter(**which))[0]]

    assert found(channel="telegram") == found(channel="discord") == found(channel=ANY) == [session.id]
    assert found(channel="discord", account_id="main") == [session.id]
    assert found(channel="discord", account_id="second") == found(channel="web") == []


def test_people_who_turned_out_to_be_one_are_one_in_lists(db: sqlite3.Connection) -> None:
    one, two = (run(db, people.meet, channel, "1", "Ada", 1) for channel in CHANNELS)
    mine = write(db, make_key(peer="g1"), "a", one.id)
    also = write(db, make_key(peer="g2"), "b", two.id)
    run(db, people.link, "discord", "1", one.id, 9)
    for person in (one, two):
        found = sessions.list_all(db, SessionFilter(person=person.public_id))[0]
        assert {session.id for session in found} == {mine.id, also.id}
    assert sessions.list_all(db, SessionFilter(person="nobody")) == ([], 0)


def test_the_owner_of_a_session_need_not_have_written_in_it(db: sqlite3.Connection) -> None:
    person = run(db, people.meet, "telegram", "1", "Ada", 1)
    session = run(db, sessions.create, make_key(), 5, person=person.id)
    assert sessions.list_all(db, SessionFilter(person=person.public_id))[0] == [session]


# Cursors


@given(text=st.text(max_size=40) | st.binary(max_size=30).map(lambda raw: raw.hex()))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except ValueError:
        return
    assert str(cursor) == text


@given(order=st.sampled_from(Order), at=st.integers(-(2**62), 2**62), number=st.integers(1, 2**40))
def test_a_cursor_is_read_back(order: Order, at: int, number: int) -> None:
    cursor = Cursor(order, at, number)
    assert Cursor.parse(str(cursor)) == cursor
    assert str(cursor).replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "raw", ["[]", "{}", '["created"]', '["created",1,1,1]', '["other",1,1]', '["created",1e400,1]']
)
def test_a_forged_cursor_is_refused(raw: str) -> None:
    with pytest.raises(ValueError, match="cursor|valid Order|values to unpack|integer"):
        Cursor.parse(base64.urlsafe_b64encode(raw.encode()).decode().rstrip("="))


# Cost


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "many.db"
    build(path, messages=20_000, sessions=10_000)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE sessions SET created_at = created_at + id, updated_at = updated_at + id")
    return path


@pytest.mark.req("S001-37", "S000-28")
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize(
    "which",
    [SessionFilter(), SessionFilter(agent_id="ada"), SessionFilter(statuses=(Status.ACTIVE,), peer_kind="group")],
    ids=["all", "one agent", "one status"],
)
def test_a_deep_page_costs_what_the_first_costs(many: Path, order: Order, which: SessionFilter) -> None:
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    with closing(sqlite3.connect(many, isolation_level=None)) as db:
        total = steps = 0
        costs = []
        after: Cursor | None = None
        for depth in (0, 50, 5_000, 9_900):
            rows, total = sessions.list_all(db, which, 1, depth, order=order)
            after = Cursor.behind(rows[0], order)
            counted = 0
            db.set_progress_handler(count, 1)
            page = sessions._select(db, which, which.agent_id, (20, 0), order, after)
            db.set_progress_handler(None, 0)
            assert len(page) == 20
            costs.append(counted)
            steps += counted
        assert total == 10_000
        assert max(costs) <= min(costs) * 1.1
        assert steps < 10_000


@pytest.mark.req("S001-37")
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("theirs", [0, 1, 150])
@pytest.mark.parametrize(
    "which",
    [SessionFilter(agent_id="rare"), SessionFilter(statuses=(Status.ERROR, Status.IDLE))],
    ids=["agent", "status"],
)
def test_what_few_sessions_share_is_not_looked_for_among_all(
    many: Path, order: Order, theirs: int, which: SessionFilter
) -> None:
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    with closing(sqlite3.connect(many, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("UPDATE sessions SET agent_id = 'rare', status = 'idle' WHERE id <= ?", (theirs,))
        db.set_progress_handler(count, 1)
        rows, total = sessions.list_all(db, which, 20, order=order)
        db.set_progress_handler(None, 0)
        db.execute("ROLLBACK")
    assert (total, len(rows)) == (theirs, min(theirs, 20))
    assert counted < 10_000 + 60 * theirs  # a step for each session of the others would be more


@pytest.mark.req("S000-28")
def test_a_list_reads_neither_messages_nor_turns(db: sqlite3.Connection) -> None:
    person = run(db, people.meet, "telegram", "1", "Ada", 1)
    write(db, make_key(), "a", person.id)
    said: list[str] = []
    db.set_trace_callback(said.append)
    sessions.list_all(db, SessionFilter(channel="telegram", person=person.public_id, statuses=(Status.ACTIVE,)))
    db.set_trace_callback(None)
    for sql in said:
        plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())
        assert "messages" not in plan
        assert "turns" not in plan
