"""Seeded schedules: what people say in many chats, and what the platform does to each of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from gateway import phrases

#: Messages of one person.
SAID = 3


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    answer: str
    #: Seconds after the beginning.
    at: float


def lines(chance: random.Random, chat: int, within: float) -> list[Line]:
    """What one person says, in order; every answer is another one, some of them grow while they are shown."""
    times = sorted(chance.uniform(0, within) for _ in range(SAID))
    made: list[Line] = []
    for number, at in enumerate(times):
        if chance.random() < 0.2:
            count = 3 + number
            made.append(Line(f"count {count}", " ".join(map(str, range(1, count + 1))) + " done.", at))
        else:
            text = f"message {number} of {chat}"
            made.append(Line(text, f"You said: {text}", at))
    return made


def missing(expected: Sequence[str], shown: Sequence[str]) -> list[str]:
    """The answers that nobody sees yet, whole."""
    return [answer for answer in expected if not any(text.startswith(answer) for text in shown)]


def wrong(expected: Sequence[str], shown: Sequence[str], *, marked: bool) -> str | None:
    """What is shown once too often, or should not be there. `marked`: a repeat that says so is allowed."""
    for answer in expected:
        found = [text for text in shown if text.startswith(answer)]
        repeats = [text for text in found if phrases.MAYBE_REPEAT in text]
        if len(found) - len(repeats) > 1 or (repeats and not marked):
            return f"{answer!r} is there {len(found)} times: {found}"
    others = [text for text in shown if text != phrases.ANSWERED_BELOW]
    strange = [text for text in others if not any(text.startswith(answer) for answer in expected)]
    for text in strange:
        # What a preview had shown when its id was lost; the whole answer says that it may be a repeat.
        torso = marked and any(answer.startswith(text) for answer in expected)
        if not torso:
            return f"nobody asked for {text!r}"
    whole = [text for text in others if text not in strange]
    order = [next(at for at, answer in enumerate(expected) if text.startswith(answer)) for text in whole]
    return None if order == sorted(order) else f"in the wrong order: {shown}"
