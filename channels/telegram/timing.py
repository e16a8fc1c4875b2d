"""How long to wait for what, and how long between two tries."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds. A dead connection is noticed after `poll` + `answer` at the latest, which has to be within a minute."""

    #: How long Telegram holds a poll that has nothing to say.
    poll: float = 25.0
    connect: float = 10.0
    #: How long an answer may take beyond that; also for every other call.
    answer: float = 15.0
    upload: float = 60.0
    #: Between two tries after a failure: doubled from the first to the longest.
    first_pause: float = 1.0
    longest_pause: float = 30.0
    #: While another program has the line. A restart elsewhere is over in less.
    conflict_pause: float = 5.0
    #: While Telegram does not know the token, which only an operator can mend.
    refused_pause: float = 60.0
    #: How long calls under way may take to end when the channel is closed.
    farewell: float = 3.0


class Pauses:
    """Growing pauses, none like the other, so that a thousand bots do not come back in step."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.failures = 0

    def next(self) -> float:
        self.failures += 1
        # The exponent is bounded because an outage may last for weeks.
        grown = self._timing.first_pause * 2.0 ** min(self.failures - 1, 16)
        return min(grown, self._timing.longest_pause) * random.uniform(0.75, 1.0)

    def reset(self) -> None:
        self.failures = 0
