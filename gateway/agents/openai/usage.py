"""Tokens as providers report them, sorted into buckets that share nothing, and each answer counted once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from store.records import Usage

PROVIDER = "provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an answer cost, in the provider's own sums; None where it did not say."""

    read: int | None
    cached: int | None
    written: int | None
    thought: int | None
    total: int | None


def of_chat(usage: object) -> Usage:
    return _usage(usage, "prompt_tokens", "completion_tokens")


def of_response(usage: object) -> Usage:
    return _usage(usage, "input_tokens", "output_tokens")


def _usage(usage: object, read: str, written: str) -> Usage:
    return buckets(
        Report(
            read=_count(usage, read),
            cached=_count(getattr(usage, f"{read}_details", None), "cached_tokens"),
            written=_count(usage, written),
            thought=_count(getattr(usage, f"{written}_details", None), "reasoning_tokens"),
            total=_count(usage, "total_tokens"),
        )
    )


def buckets(report: Report) -> Usage:
    """Nobody reads and writes nothing: a report of zeros is none."""
    if not report.read and not report.written:
        return Usage()
    fresh, output = _apart(report)
    return Usage(input=fresh, cached=report.cached, output=output, reasoning=report.thought, source=PROVIDER)


def _apart(report: Report) -> tuple[int | None, int | None]:
    """Input without the cached part and output without the thoughts.

    OpenAI counts both inside its sums, some servers count one or the other beside them; their total tells.
    """
    read, written = report.read, report.written
    if read is None or written is None:
        return read, written
    cached, thought = report.cached or 0, report.thought or 0
    ways = [(read - cached, written - thought), (read - cached, written), (read, written - thought), (read, written)]
    possible = [way for way in ways if min(way) >= 0]
    for fresh, output in possible:
        if fresh + cached + output + thought == report.total:
            return fresh, output
    return possible[0]


def _count(holder: object, name: str) -> int | None:
    """The SDK takes what servers send as it comes: a count may be missing, null or anything else."""
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


class Ledger:
    """What the attempts of one turn cost together.

    A later report on the same answer replaces the one before, because reports grow and are repeated.
    """

    def __init__(self) -> None:
        self._answers: dict[Hashable, Usage] = {}

    def note(self, answer: Hashable, usage: Usage) -> None:
        if usage.source is not None:
            self._answers[answer] = usage

    def total(self) -> Usage:
        noted = list(self._answers.values())
        return Usage(
            input=_sum(one.input for one in noted),
            cached=_sum(one.cached for one in noted),
            output=_sum(one.output for one in noted),
            reasoning=_sum(one.reasoning for one in noted),
            source=PROVIDER if noted else None,
        )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
