"""Numbers for operators: tokens by agent, day, person and session; people; counts."""

import sqlite3

import pytest

from routing.keys import SessionKey
from store import outbox, people, reports, sessions, turns
from store.outbox import Draft
from store.people import Configured
from store.records import OutboxState, Status, Usage
from store.reports import By, Tokens
from store.schema import STEPS
from store.sessions import SessionPatch
from store.turns import Ending
from tests.store.rows import arrive, ask, make_address, make_key, run

DAY = 86_400 * 1_000_000


def spend(
    db: sqlite3.Connection, key: SessionKey, usage: Usage, *, person: int | None = None, now: int = 1, ends: bool = True
) -> None:
    session = run(db, sessions.get_or_create, key.agent_id, key, now)
    turn = run(db, turns.add, session.id, ask(created_by=person), now)
    if ends:
        run(db, turns.complete, turn.id, None, None, Ending(usage=usage), now)


def by(db: sqlite3.Connection, what: By, limit: int = 100) -> dict[str | None, tuple[int, int, int, int, int]]:
    return {row.key: numbers(row.tokens) for row in reports.usage(db, what, limit)}


def numbers(tokens: Tokens) -> tuple[int, int, int, int, int]:
    return tokens.turns, tokens.input, tokens.output, tokens.estimated, tokens.unknown


@pytest.fixture
def spent(db: sqlite3.Connection) -> sqlite3.Connection:
    ada, bob = (run(db, people.meet, "telegram", user, name, 1) for user, name in (("1", "Ada"), ("2", "Bob")))
    later = 20_000 * DAY
    spend(db, make_key("main"), Usage(input=10, output=1, source="provider"), person=ada.id, now=later)
    spend(db, make_key("main"), Usage(input=20, output=2, source="estimated"), person=ada.id, now=later + DAY)
    spend(db, make_key("main", "2"), Usage(), person=bob.id, now=later + DAY)
    spend(db, make_key("other", "2"), Usage(input=5, source="provider"), now=later + DAY)
    spend(db, make_key("other", "3"), Usage(), now=later + DAY, ends=False)
    return db


@pytest.mark.req("S001-63")
def test_usage_by_agent(spent: sqlite3.Connection) -> None:
    assert by(spent, By.AGENT) == {"main": (3, 30, 3, 22, 1), "other": (2, 5, 0, 0, 1)}
    assert [row.key for row in reports.usage(spent, By.AGENT, 1)] == ["main"]


def test_usage_by_day_is_in_utc_and_newest_first(spent: sqlite3.Connection) -> None:
    assert by(spent, By.DAY) == {"2024-10-05": (4, 25, 2, 22, 2), "2024-10-04": (1, 10, 1, 0, 0)}
    assert [row.key for row in reports.usage(spent, By.DAY, 9)] == ["2024-10-05", "2024-10-04"]


def test_usage_by_person_names_them_and_counts_merged_ones_once(spent: sqlite3.Connection) -> None:
    ada, bob = (people.find(spent, "telegram", user) for user in "12")
    assert ada is not None
    assert bob is not None
    assert by(spent, By.PERSON) == {
        ada.public_id: (2, 30, 3, 22, 0),
        bob.public_id: (1, 0, 0, 0, 1),
        None: (2, 5, 0, 0, 1),
    }
    assert {row.name for row in reports.usage(spent, By.PERSON, 9)} == {"Ada", "Bob", None}
    run(spent, people.link, "telegram", "2", ada.id, 1)
    assert by(spent, By.PERSON) == {ada.public_id: (3, 30, 3, 22, 1), None: (2, 5, 0, 0, 1)}


def test_usage_by_session(spent: sqlite3.Connection) -> None:
    session = sessions.live(spent, make_key("main"))
    assert session is not None
    run(spent, sessions.patch, "main", session.key, SessionPatch(title="Apples"))
    first = reports.usage(spent, By.SESSION, 2)[0]
    assert (first.key, first.name, numbers(first.tokens)) == (session.public_id, "Apples", (2, 30, 3, 22, 0))
    assert len(reports.usage(spent, By.SESSION, 2)) == 2


def test_the_total_is_the_sum_of_every_grouping(spent: sqlite3.Connection) -> None:
    whole = numbers(reports.total(spent))
    assert whole == (5, 35, 3, 22, 2)
    for what in By:
        rows = by(spent, what).values()
        assert tuple(map(sum, zip(*rows, strict=True))) == whole


def test_the_estimated_share(spent: sqlite3.Connection, db: sqlite3.Connection) -> None:
    assert reports.total(spent).share == pytest.approx(22 / 38)
    assert Tokens(turns=0, input=0, output=0, estimated=0, unknown=0).share == 0


def test_nothing_was_spent(db: sqlite3.Connection) -> None:
    assert reports.usage(db, By.AGENT, 9) == []
    assert numbers(reports.total(db)) == (0, 0, 0, 0, 0)


def test_people(db: sqlite3.Connection) -> None:
    run(db, people.sync, [Configured(name="ada", owner=True, identities={"telegram": "1"})], 1)
    stranger = run(db, people.meet, "telegram", "2", "Bob", 2)
    merged = run(db, people.meet, "discord", "2", "Bobby", 2)
    run(db, people.link, "discord", "2", stranger.id, 3)
    run(db, sessions.create, make_key(), 5, person=stranger.id)
    rows, total = reports.everybody(db, 10, 0)
    owner, other = rows
    assert total == 2
    assert (owner.row.config_name, owner.row.owner, owner.row.known) == ("ada", True, True)
    assert owner.identities == (("telegram", "1"), ("web", "owner"))
    assert (other.row.public_id, other.row.known, other.sessions) == (stranger.public_id, False, 1)
    assert other.identities == (("discord", "2"), ("telegram", "2"))
    assert merged.public_id not in {row.row.public_id for row in rows}
    assert reports.everybody(db, 1, 1) == ([other], 2)


def test_counts(db: sqlite3.Connection) -> None:
    one = run(db, sessions.create, make_key(), 1)
    two = run(db, sessions.create, make_key(peer="2"), 1)
    run(db, sessions.end, two, Status.ERROR, "x", 2)
    run(db, turns.add, one.id, ask(), 3)
    arrive(db, "a")
    arrive(db, "b")
    for state in (OutboxState.READY, OutboxState.READY, OutboxState.PARKED):
        run(db, outbox.put, Draft(address=make_address(), text="x"), state, 1)
    counts = reports.counts(db)
    assert counts.sessions == {"active": 1, "error": 1}
    assert (counts.running, counts.waiting) == (1, 2)
    assert counts.outbox == {"ready": 2, "parked": 1}
    assert counts.schema == tuple(step.name for step in STEPS)
    assert counts.size > 10_000
