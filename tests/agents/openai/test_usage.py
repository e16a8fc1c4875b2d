"""Buckets that share nothing, whichever way a server counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.openai.usage import Ledger, Report, buckets, of_chat, of_response
from store.records import Usage

COUNTS = st.integers(0, 10_000)


@pytest.mark.req("P27")
@given(COUNTS, COUNTS, COUNTS, COUNTS, st.booleans(), st.booleans())
def test_the_total_tells_what_is_counted_inside_what(
    fresh: int, cached: int, output: int, thought: int, cached_apart: bool, thought_apart: bool
) -> None:
    """The sum of the buckets is what the invoice says, wherever a server puts the cached part and the thoughts."""
    report = Report(
        read=fresh + (0 if cached_apart else cached),
        cached=cached,
        written=output + (0 if thought_apart else thought),
        thought=thought,
        total=fresh + cached + output + thought,
    )
    found = buckets(report)
    if not report.read and not report.written:
        assert found == Usage()
        return
    parts = (found.input, found.cached, found.output, found.reasoning)
    assert all(part is not None and part >= 0 for part in parts)
    assert sum(part or 0 for part in parts) == report.total
    if not cached_apart and not thought_apart:
        assert parts == (fresh, cached, output, thought)


@pytest.mark.req("P27")
@pytest.mark.parametrize(
    ("report", "usage"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4}, Usage(input=9, output=4, source="provider")),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": None,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input=9, output=1, reasoning=3, source="provider"),
        ),
        ({"prompt_tokens": 9}, Usage(input=9, source="provider")),
        ({"prompt_tokens": "9", "completion_tokens": None}, Usage()),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage()),
        ({"prompt_tokens": -1, "completion_tokens": True}, Usage()),
        # More cached than read: it is counted beside it.
        (
            {"prompt_tokens": 2, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 7}},
            Usage(input=2, cached=7, output=4, source="provider"),
        ),
        (None, Usage()),
    ],
)
def test_what_is_not_told_stays_unknown(report: Any, usage: Usage) -> None:
    assert of_chat(_namespace(report)) == usage


def test_both_names_of_the_counts() -> None:
    report = {
        "input_tokens": 5,
        "output_tokens": 3,
        "input_tokens_details": {"cached_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    assert of_response(_namespace(report)) == Usage(input=3, cached=2, output=2, reasoning=1, source="provider")


@pytest.mark.req("P27")
def test_a_later_report_on_one_answer_replaces_the_one_before() -> None:
    ledger = Ledger()
    assert ledger.total() == Usage()
    for output in (1, 2, 3):
        ledger.note("a", Usage(input=10, output=output, source="provider"))
    ledger.note("b", Usage(input=1, output=1, cached=4, source="provider"))
    ledger.note("a", Usage())
    assert ledger.total() == Usage(input=11, cached=4, output=4, source="provider")


def _namespace(value: Any) -> Any:
    return (
        SimpleNamespace(**{name: _namespace(one) for name, one in value.items()}) if isinstance(value, dict) else value
    )
