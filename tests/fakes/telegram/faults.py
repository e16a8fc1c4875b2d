"""What goes wrong with a call: planned in order, for ever, or by a seeded schedule."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    #: The connection is cut before the server looked at the request.
    CUT_BEFORE = "cut_before"
    #: The request is carried out, and the connection cut instead of an answer.
    CUT_AFTER = "cut_after"
    #: An answer that says no; nothing is carried out.
    ERROR = "error"
    #: A page by a proxy in between, which is not JSON and repeats the path of the request.
    HTML = "html"
    #: The request is taken and nothing ever comes back.
    HANG = "hang"
    #: The same, but the request is carried out.
    HANG_AFTER = "hang_after"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    code: int = 500
    description: str = "Internal Server Error"
    parameters: Mapping[str, int] | None = None


CUT_BEFORE = Fault(Kind.CUT_BEFORE)
CUT_AFTER = Fault(Kind.CUT_AFTER)
HANG = Fault(Kind.HANG)
HANG_AFTER = Fault(Kind.HANG_AFTER)
HTML = Fault(Kind.HTML, 502, "Bad Gateway")
CONFLICT = Fault(
    Kind.ERROR,
    409,
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
)


def error(code: int, description: str, **parameters: int) -> Fault:
    return Fault(Kind.ERROR, code, description, parameters or None)


def retry_after(seconds: int) -> Fault:
    return error(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


@dataclass(slots=True)
class Chaos:
    """Faults by chance: the same seed and the same calls, the same faults. It ends when `left` is used up."""

    seed: int
    rate: float = 0.2
    left: int = 20
    kinds: Sequence[Fault] = (CUT_BEFORE, CUT_AFTER, HTML, error(500, "Internal Server Error"), retry_after(1))
    #: None: every method.
    methods: frozenset[str] | None = frozenset({"sendMessage", "editMessageText", "sendDocument", "getUpdates"})
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def next(self, method: str) -> Fault | None:
        if self.left <= 0 or (self.methods is not None and method not in self.methods):
            return None
        if self._random.random() >= self.rate:
            return None
        self.left -= 1
        return self._random.choice(self.kinds)


@dataclass(slots=True)
class _Planned:
    method: str
    chat: int | None
    fault: Fault
    for_ever: bool


@dataclass(slots=True)
class Faults:
    """A method is a Bot API method, `file` for a download, or `*` for any."""

    chaos: Chaos | None = None
    _plan: list[_Planned] = field(default_factory=list)

    def add(self, method: str, *faults: Fault, chat: int | None = None, for_ever: bool = False) -> None:
        self._plan += [_Planned(method, chat, fault, for_ever) for fault in faults]

    def clear(self, method: str = "*") -> None:
        """Forget what is still planned, of this method or at all."""
        self._plan = [one for one in self._plan if method not in ("*", one.method)]

    def next(self, method: str, params: Mapping[str, Any]) -> Fault | None:
        chat = params.get("chat_id")
        for one in self._plan:
            if one.method in ("*", method) and one.chat in (None, chat):
                if not one.for_ever:
                    self._plan.remove(one)
                return one.fault
        return self.chaos.next(method) if self.chaos else None

    @property
    def waiting(self) -> int:
        """How many planned faults nobody met yet."""
        return sum(not one.for_ever for one in self._plan)
