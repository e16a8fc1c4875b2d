"""Cost by counts: a turn in a long, compacted conversation costs what it costs in a short one."""

import pytest

from benchmarks.compaction import live
from gateway.config import Strategy


@pytest.mark.req("P24")
@pytest.mark.parametrize("strategy", [Strategy.WINDOW, Strategy.SUMMARY])
def test_the_cost_of_a_turn_stays_flat(strategy: Strategy) -> None:
    """`make bench` goes on to ten thousand turns; what grows shows itself here as well."""
    _, (_, some), (_, more) = live(strategy, 1_040)
    assert more < some * 1.01
