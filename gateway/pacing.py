"""Pacing: so many messages per chat as its platform likes, before it has to say so."""

from __future__ import annotations

from dataclasses import dataclass

from channels.base import Channel, Pace, Paced
from gateway.clock import Clock
from routing.messages import Address

#: Places that are remembered; one that was not used for so long has rested anyway.
_MOST = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Pacing:
    """A bucket per place: it fills with time, and every call takes one out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def wait(self, channel: Channel, address: Address, *, spare: int = 0) -> float:
        """Seconds until a call may be made; `spare` of them are left to others."""
        if not isinstance(channel, Paced):
            return 0.0
        pace = channel.pace(address)
        missing = 1 + spare - self._filled(address.place, pace).left
        return max(0.0, missing * pace.every)

    def took(self, channel: Channel, address: Address) -> None:
        if isinstance(channel, Paced):
            self._filled(address.place, channel.pace(address)).left -= 1

    def _filled(self, place: str, pace: Pace) -> _Bucket:
        now = self._clock.monotonic()
        bucket = self._buckets.pop(place, None) or _Bucket(pace.burst, now)
        bucket.left = min(pace.burst, bucket.left + (now - bucket.at) / pace.every)
        bucket.at = now
        self._buckets[place] = bucket
        if len(self._buckets) > _MOST:
            del self._buckets[next(iter(self._buckets))]
        return bucket
