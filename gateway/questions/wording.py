"""Questions in words. What comes from an agent is cut and shown as code: no markup, no mentions."""

from __future__ import annotations

from collections.abc import Sequence

from channels.base import Button
from gateway import phrases
from gateway.agents.protocol import Option, OptionKind, Permission
from store.content import to_json
from store.questions import Choice, Question

#: Characters of what an agent wrote.
_TITLE = 300
_ARGUMENTS = 500
_NAME = 60
_PATHS = 5
#: Options that are offered; protocols have four kinds.
MOST_OPTIONS = 8
_PREFIX = "q"


def line(text: str, most: int) -> str:
    """On one line of visible characters, and no longer than that."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def code(text: str, most: int = _NAME) -> str:
    """As inline code, which no platform looks into."""
    shown = line(text, most) or "…"
    fence = "`" * (_longest_run(shown) + 1)
    return f"{fence} {shown} {fence}" if "`" in shown else f"`{shown}`"


def block(lines: Sequence[str]) -> str:
    """As a block of code."""
    fence = "`" * max(3, *(_longest_run(one) + 1 for one in lines))
    return "\n".join([fence, *lines, fence])


def question(agent: str, permission: Permission, minutes: float) -> str:
    """What is asked, and what happens if nobody answers."""
    call = permission.call
    lines = [line(call.tool, _TITLE) or phrases.UNNAMED_TOOL]
    if call.args:
        lines.append(line(to_json(call.args), _ARGUMENTS))
    lines += [line(diff.path, _TITLE) for diff in call.diffs[:_PATHS]]
    ask = phrases.ASKS_PERMISSION.format(agent=code(agent))
    return f"{ask}\n{block(lines)}\n{phrases.ASKED_UNTIL.format(minutes=f'{minutes:g}')}"


def choices(options: Sequence[Option]) -> tuple[Choice, ...]:
    return tuple(Choice(one.id, label(one), one.kind) for one in options[:MOST_OPTIONS])


def label(option: Option) -> str:
    """The agent's words behind a sign of ours: they cannot make a yes look like a no."""
    return f"{phrases.OPTION_SIGNS[option.kind]} {line(option.name, _NAME) or option.kind}"


def numbered(options: Sequence[Choice]) -> str:
    """The same where there are no buttons."""
    lines = [f"{number}. {code(one.label, _NAME + 4)}" for number, one in enumerate(options, 1)]
    return "\n".join([*lines, phrases.CHOOSE_BY_NUMBER])


def buttons(question: Question | None) -> tuple[Button, ...]:
    """None once it is decided."""
    if question is None or not question.open:
        return ()
    return tuple(
        Button(one.label, f"{_PREFIX}:{question.token}:{number}") for number, one in enumerate(question.options, 1)
    )


def read(data: str) -> tuple[str, int] | None:
    """The token and the number that a button carries; None if it is none of ours."""
    match data.split(":"):
        case [prefix, token, number] if prefix == _PREFIX and number.isascii() and number.isdecimal():
            return token, int(number[:4])
        case _:
            return None


def decided(question: Question) -> str:
    """The message of a question that is over."""
    return f"{question.text}\n\n{question.outcome}"


def rejecting(options: Sequence[Choice]) -> Choice | None:
    """What a question without an answer chooses: a rejection of this one call, and nothing that lasts."""
    return next((one for one in options if one.kind == OptionKind.REJECT_ONCE), None)


def _longest_run(text: str) -> int:
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest
