"""What the model behind a coding agent says: by what it is asked, because agents ask more than a test does."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What a test says, and what comes of it.
HELLO = "Say hello"
TOOL = "Use the tool to write"
SLOW = "Take your time"
WORD = "My word is"
ASK = "Which word was it?"

#: What the model says.
GREETING = "Hello from the model."
DONE = "The tool has run."
REFUSED = "Then I will not."
BEGUN = "Let me think about it"

_WORD = re.compile(rf"{WORD} (\w+)")
_TOOL = re.compile(rf"{TOOL} (\w+) to ([\w.]+)")


@dataclass(frozen=True, slots=True)
class Said:
    """One entry of what an agent sends: who, what, and whether it is what a tool gave."""

    role: str
    text: str
    result: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """What the model does next."""

    text: str = ""
    #: A command for the shell.
    command: str | None = None
    #: Goes on only when the agent hangs up.
    slow: bool = False


def think(said: list[Said]) -> Thought:
    """By the newest request; what an agent asks for itself, such as a title, gets a greeting."""
    last = said[-1] if said else Said("user", "")
    if last.result:
        refused = re.search(r"reject|denied|declin|cancel|not allowed", last.text, re.IGNORECASE)
        return Thought(text=REFUSED if refused else DONE)
    if found := _TOOL.search(last.text):
        return Thought(text="I will. ", command=f"echo {found[1]} > {found[2]}")
    if SLOW in last.text:
        return Thought(text=BEGUN, slow=True)
    if ASK in last.text:
        words = [word for one in said for word in _WORD.findall(one.text)]
        return Thought(text=f"It was {words[-1]}." if words else "I know of no word.")
    if found := _WORD.search(last.text):
        return Thought(text=f"I will remember {found[1]}.")
    return Thought(text=GREETING)
