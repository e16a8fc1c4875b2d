"""Flood limits as the platform has them: so many calls per chat and time, then 429 until a moment passed."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field

Window = tuple[int, float]


@dataclass(slots=True)
class Limits:
    """How many sends and edits within how many seconds; None is no limit. Asking too early starts the wait again."""

    private: Window | None = (8, 4.0)
    group: Window | None = (20, 60.0)
    #: Least seconds of a 429.
    penalty: float = 1.0
    #: (when, chat) of every call that came before its chat was free again.
    early: list[tuple[float, int]] = field(default_factory=list)
    _calls: defaultdict[int, deque[float]] = field(default_factory=lambda: defaultdict(deque))
    _free: dict[int, float] = field(default_factory=dict)

    def wait(self, chat: int, at: float) -> int:
        """Whole seconds to wait before this call may be made; 0 if it may now, which counts it."""
        window = self.private if chat > 0 else self.group
        if window is None:
            return 0
        if at < self._free.get(chat, 0.0):
            self.early.append((at, chat))
            return self._close(chat, at, self._free[chat] - at)
        count, seconds = window
        calls = self._calls[chat]
        while calls and calls[0] <= at - seconds:
            calls.popleft()
        if len(calls) >= count:
            return self._close(chat, at, calls[0] + seconds - at)
        calls.append(at)
        return 0

    def _close(self, chat: int, at: float, seconds: float) -> int:
        wait = math.ceil(max(seconds, self.penalty))
        self._free[chat] = at + wait
        return wait
