"""Ids and times: time-ordered UUIDs, microseconds, and the packed integer that clusters a session's rows."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

#: Times are stored as microseconds since 1970, UTC.
Micros = int

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEQ_BITS = 32
_SEQ_MASK = (1 << _SEQ_BITS) - 1


def now() -> Micros:
    return time.time_ns() // 1000


def to_datetime(micros: Micros) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def from_datetime(moment: datetime) -> Micros:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def new_id() -> str:
    """A UUID (version 7): unique, and in the order of time, so that its index grows at one end."""
    clock = f"{time.time_ns() // 1_000_000:012x}"
    chance = os.urandom(10).hex()
    variant = "89ab"[int(chance[3], 16) & 3]
    return f"{clock[:8]}-{clock[8:]}-7{chance[:3]}-{variant}{chance[4:7]}-{chance[7:19]}"


def pack(session: int, seq: int) -> int:
    """The primary key of a message or a turn: rows of one session lie together, in order."""
    return session << _SEQ_BITS | seq


def session_of(packed: int) -> int:
    return packed >> _SEQ_BITS


def seq_of(packed: int) -> int:
    return packed & _SEQ_MASK


def span(session: int) -> tuple[int, int]:
    """First and last packed id that a session can have."""
    return pack(session, 0), pack(session, _SEQ_MASK)
