"""Days and months as a time zone has them; wall clock only."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from store.ids import Micros, from_datetime, to_datetime


class Period(StrEnum):
    DAY = "day"
    MONTH = "month"


def start(now: Micros, zone: tzinfo, period: Period) -> Micros:
    """When the day or month began in which it is now."""
    return from_datetime(_first(_day(now, zone), period))


def end(now: Micros, zone: tzinfo, period: Period) -> Micros:
    """When the next one begins."""
    first = _first(_day(now, zone), period)
    # Not by hours: a day on which the clocks change has more or fewer of them.
    after = first + timedelta(days=1) if period is Period.DAY else (first + timedelta(days=32)).replace(day=1)
    return from_datetime(after)


def local(moment: Micros, zone: tzinfo) -> str:
    return to_datetime(moment).astimezone(zone).strftime("%Y-%m-%d %H:%M %Z").strip()


def _day(now: Micros, zone: tzinfo) -> datetime:
    return to_datetime(now).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def _first(day: datetime, period: Period) -> datetime:
    return day if period is Period.DAY else day.replace(day=1)
