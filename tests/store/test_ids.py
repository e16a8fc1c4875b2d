"""Ids and times: unique, in the order of time, and packed so that a session's rows lie together."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import ids
from store.ids import from_datetime, new_id, pack, seq_of, session_of, span, to_datetime

SESSIONS = st.integers(1, 2**31 - 1)
SEQS = st.integers(0, 2**32 - 1)
ZONES = st.timezones() | st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@pytest.mark.req("S000-07", "S000-80", "S000-85")
def test_ids_are_uuids_of_version_7() -> None:
    text = new_id()
    made = uuid.UUID(text)
    assert (made.version, made.variant, str(made)) == (7, uuid.RFC_4122, text)


@pytest.mark.req("S000-80", "S000-85")
def test_ids_are_unique_also_among_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        made = [text for part in pool.map(lambda _: [new_id() for _ in range(5000)], range(4)) for text in part]
    assert len(set(made)) == 20_000


def test_ids_carry_the_time_they_were_made() -> None:
    before = ids.now() // 1000
    millis = uuid.UUID(new_id()).int >> 80
    assert before <= millis <= ids.now() // 1000


@given(SESSIONS, SEQS)
def test_packing_is_reversible_and_fits_an_sqlite_integer(session: int, seq: int) -> None:
    packed = pack(session, seq)
    assert (session_of(packed), seq_of(packed)) == (session, seq)
    assert 0 < packed < 2**63


@given(SESSIONS, SEQS, SESSIONS, SEQS)
def test_packed_ids_are_in_the_order_of_session_and_number(a: int, m: int, b: int, n: int) -> None:
    assert (pack(a, m) < pack(b, n)) == ((a, m) < (b, n))


@given(SESSIONS, SESSIONS, SEQS)
def test_a_span_holds_exactly_the_sessions_own_ids(session: int, other: int, seq: int) -> None:
    first, last = span(session)
    assert (first <= pack(other, seq) <= last) == (session == other)


@given(st.integers(-(10**15), 10**17))
def test_times_survive_the_way_there_and_back(micros: int) -> None:
    moment = to_datetime(micros)
    assert moment.tzinfo is UTC
    assert from_datetime(moment) == micros


@given(st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=ZONES))  # noqa: DTZ001
def test_every_time_zone_names_the_same_moment(moment: datetime) -> None:
    assert from_datetime(moment) == from_datetime(moment.astimezone(UTC))
    assert to_datetime(from_datetime(moment)) == moment.astimezone(UTC)


@pytest.mark.req("S000-89")
def test_now_is_utc_in_microseconds() -> None:
    before = datetime.now(UTC)
    assert before <= to_datetime(ids.now()) <= datetime.now(UTC)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(TypeError):
        from_datetime(datetime(2026, 1, 1))  # noqa: DTZ001
