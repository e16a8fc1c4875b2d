"""Sums over turns: what was used, what is held back, and what was allowed on top. No counter to be left wrong."""

import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import people, reports, sessions, spending, turns
from store.records import Session, Turn, Usage
from store.spending import Amount, Whose
from store.turns import Ending
from tests.store.rows import ask, fresh, make_key, run

NOW = 1_700_000_000_000_000


def meet(db: sqlite3.Connection, user: str) -> int:
    return run(db, people.meet, "telegram", user, user, NOW).id


def begin(db: sqlite3.Connection, session: Session, now: int = NOW, **more: Any) -> Turn:
    return run(db, turns.add, session.id, ask(**more), now)


def end(db: sqlite3.Connection, turn: Turn, **more: Any) -> Turn:
    return run(db, turns.complete, turn.id, None, None, Ending(**more), turn.created_at + 1)


def everything(tokens: int | None) -> Usage:
    return Usage() if tokens is None else Usage(input=tokens, cached=1, output=2, reasoning=3, source="provider")


@pytest.mark.req("P28")
def test_a_pending_turn_counts_with_what_is_held_back_and_then_with_what_it_used(db: sqlite3.Connection) -> None:
    session = run(db, sessions.create, make_key(), NOW)
    turn = begin(db, session, reserved_tokens=900, reserved_cost=50)
    assert spending.amount(db, Whose(), NOW) == Amount(tokens=900, cost=50)
    end(db, turn, usage=everything(10), cost=7)
    assert spending.amount(db, Whose(), NOW) == Amount(tokens=16, cost=7)


@pytest.mark.req("P27")
def test_unknown_stays_unknown_and_adds_nothing(db: sqlite3.Connection) -> None:
    session = run(db, sessions.create, make_key(), NOW)
    ended = end(db, begin(db, session, reserved_tokens=900))
    assert (ended.usage, ended.cost) == (Usage(), None)
    assert spending.amount(db, Whose(), NOW) == Amount()
    [row] = db.execute(
        "SELECT input_tokens, cached_tokens, output_tokens, reasoning_tokens, cost FROM turns"
    ).fetchall()
    assert row == (None,) * 5
    sums = reports.total(db)
    assert (sums.unknown, sums.cost, sums.unpriced, sums.total) == (1, None, 1, 0)


@pytest.mark.req("P27", "S001-17")
def test_the_totals_of_a_session_are_the_sums_of_the_buckets(db: sqlite3.Connection) -> None:
    session = run(db, sessions.create, make_key(), NOW)
    end(db, begin(db, session), usage=Usage(input=10, cached=5, output=3, reasoning=2, source="provider"))
    end(db, begin(db, session), usage=Usage(input=1, output=1, source="estimated"))
    found = sessions.by_number(db, session.id)
    assert (found.total_input_tokens, found.total_output_tokens) == (16, 6)
    sums = spending.of_session(db, session.id)
    assert (sums.input, sums.cached, sums.output, sums.reasoning, sums.estimated) == (11, 5, 4, 2, 2)


@pytest.mark.req("P27")
def test_one_response_is_counted_once(db: sqlite3.Connection) -> None:
    session = run(db, sessions.create, make_key(), NOW)
    usage = Usage(input=10, cached=5, output=3, source="provider")
    for _ in range(3):
        end(db, begin(db, session), usage=usage, cost=9, response_id="r")
    assert spending.amount(db, Whose(), NOW) == Amount(tokens=18, cost=9)
    # A server with few ids may give one twice: other counts are another answer.
    end(db, begin(db, session), usage=Usage(input=1, output=1, source="provider"), response_id="r")
    assert spending.amount(db, Whose(), NOW).tokens == 20
    other = run(db, sessions.create, make_key(peer="2"), NOW)
    end(db, begin(db, other), usage=usage, cost=9, response_id="r")
    assert spending.amount(db, Whose(), NOW).tokens == 38


def test_people_who_became_one_spend_together(db: sqlite3.Connection) -> None:
    session = run(db, sessions.create, make_key(), NOW)
    first, second = meet(db, "1"), meet(db, "2")
    for person in (first, second):
        end(db, begin(db, session, created_by=person), usage=everything(10))
    db.execute("UPDATE people SET merged_into = ? WHERE id = ?", (second, first))
    who, rows = spending.survivor(db, first)
    assert (who.id, set(rows)) == (second, {first, second})
    assert spending.amount(db, Whose(people=rows), NOW).tokens == 32


def test_an_allowance_holds_for_its_period_and_renews_the_warning(db: sqlite3.Connection) -> None:
    assert spending.warn_once(db, "b", "s", NOW)
    assert not spending.warn_once(db, "b", "s", NOW)
    run(db, spending.allow, "b", "s", Amount(tokens=5), NOW + 1)
    assert spending.warn_once(db, "b", "s", NOW)
    assert spending.allowed(db, "b", "s", NOW) == Amount(tokens=5)
    assert spending.allowed(db, "b", "s", NOW + 2) == Amount()
    assert spending.allowed(db, "b", "other", NOW) == Amount()
    assert spending.warn_once(db, "b", "s", NOW + 2)


CHOICES = st.tuples(
    st.sampled_from(["ada", "ben"]),
    st.sampled_from(["1", "2", None]),
    st.sampled_from(["telegram:-1", None]),
    st.one_of(st.none(), st.integers(0, 1000)),
    st.booleans(),
    st.integers(0, 5),
)


@pytest.mark.req("P27", "P28")
@given(st.lists(CHOICES, max_size=15))
def test_every_sum_is_the_sum_of_its_turns(
    made: list[tuple[str, str | None, str | None, int | None, bool, int]],
) -> None:
    """By person, agent, chat and time, in any combination."""
    with fresh() as db:
        ledger: list[tuple[str, int | None, str | None, int, int]] = []
        for number, (agent, user, chat, tokens, ends, at) in enumerate(made):
            session = run(db, sessions.create, make_key(agent, str(number)), NOW)
            person = None if user is None else meet(db, user)
            turn = begin(db, session, NOW + at * 10, created_by=person, chat=chat, reserved_tokens=77)
            if ends:
                end(db, turn, usage=everything(tokens))
            counts = (0 if tokens is None else tokens + 6) if ends else 77
            ledger.append((agent, person, chat, turn.created_at, counts))
        for who in ("ada", "ben", None):
            for user in ("1", None):
                for place in ("telegram:-1", None):
                    for since in (NOW, NOW + 25):
                        person = None if user is None else meet(db, user)
                        whose = Whose(people=None if person is None else (person,), agent=who, chat=place)
                        expected = sum(
                            counts
                            for one, somebody, where, at, counts in ledger
                            if at >= since
                            and who in {None, one}
                            and person in {None, somebody}
                            and place in {None, where}
                        )
                        assert spending.amount(db, whose, since).tokens == expected


@pytest.mark.req("P27")
def test_an_ended_turn_keeps_its_numbers(db: sqlite3.Connection) -> None:
    session = run(db, sessions.create, make_key(), NOW)
    ended = end(db, begin(db, session), usage=everything(1), cost=1, response_id="r", chain_expires_at=5)
    columns = ("agent", "chat", "cached_tokens", "reasoning_tokens", "cost", "response_id", "previous_response_id")
    for column in (*columns, "chain_expires_at", "reserved_tokens", "reserved_cost"):
        with pytest.raises(sqlite3.IntegrityError, match="never changes"):
            db.execute(f"UPDATE turns SET {column} = 99 WHERE id = ?", (ended.id,))
