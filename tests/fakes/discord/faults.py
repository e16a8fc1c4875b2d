"""What goes wrong with calls to REST: told one by one, or by a seeded dice; and the buckets that limit rates."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    #: The connection is cut before anything happens.
    CUT_BEFORE = "cut_before"
    #: It happens, but the answer is lost.
    CUT_AFTER = "cut_after"
    #: 429 with `retry_after`; nothing happens.
    RATE_LIMIT = "rate_limit"
    #: A JSON error with `status`; nothing happens.
    ERROR = "error"
    #: It happens, and the answer is an error with `status` all the same.
    ERROR_AFTER = "error_after"
    #: A page of a proxy in front, in HTML.
    HTML = "html"
    #: No answer, ever; nothing happens.
    HOLE = "hole"
    #: It happens, but there is no answer, ever.
    HOLE_AFTER = "hole_after"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    #: The calls it waits for, by name ("send", "edit", "history" …); empty for any.
    calls: frozenset[str] = frozenset()
    status: int = 500
    code: int = 0
    retry_after: float = 0.05

    def fits(self, call: str) -> bool:
        return not self.calls or call in self.calls


@dataclass(slots=True)
class Faults:
    """`plan` is used up in order, one per fitting call; then the dice, if there is one."""

    plan: list[Fault] = field(default_factory=list)
    dice: random.Random | None = None
    rate: float = 0.3
    of: Sequence[Fault] = ()
    #: While set, every call and every connection is cut.
    down: bool = False

    def next(self, call: str) -> Fault | None:
        if self.down:
            return Fault(Kind.CUT_BEFORE)
        for fault in self.plan:
            if fault.fits(call):
                self.plan.remove(fault)
                return fault
        if self.dice is None or self.dice.random() >= self.rate:
            return None
        fitting = [fault for fault in self.of if fault.fits(call)]
        return self.dice.choice(fitting) if fitting else None


@dataclass(slots=True)
class _Bucket:
    opened: float
    used: int = 0


@dataclass(slots=True)
class Buckets:
    """So many calls of a name in so many seconds, for each channel by itself."""

    limits: dict[str, tuple[int, float]] = field(default_factory=lambda: {"send": (5, 5.0), "edit": (5, 5.0)})
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[tuple[str, str], _Bucket] = field(default_factory=dict)

    def take(self, call: str, place: str) -> tuple[Mapping[str, str], float | None]:
        """The headers of the answer, and the seconds to wait if it was one too many."""
        if call not in self.limits:
            return {}, None
        limit, seconds = self.limits[call]
        now = self.clock()
        bucket = self._buckets.get((call, place))
        if bucket is None or now >= bucket.opened + seconds:
            bucket = self._buckets[call, place] = _Bucket(now)
        left = bucket.opened + seconds - now
        refused = bucket.used >= limit
        bucket.used += not refused
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(limit - bucket.used),
            "X-RateLimit-Reset": f"{time.time() + left:.3f}",
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": f"bucket-of-{call}",
        }
        return headers, left if refused else None
