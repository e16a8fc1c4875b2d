"""What our turns add up to is what the server has charged, whatever went wrong on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agents.openai.agent import ModelAgent
from routing.errors import ModelFailed
from store.records import Usage
from tests.fakes.model.script import Refuse, Reply, Step, Tokens
from tests.fakes.model.server import FakeModel
from tests.fakes.model.turns import hear, table, turn_of

HURRY = {"retry-after-ms": "1"}


@st.composite
def tokens(draw: st.DrawFn) -> Tokens:
    read, written = draw(st.integers(1, 5000)), draw(st.integers(1, 900))
    return Tokens(read=read, cached=draw(st.integers(0, read)), written=written, thought=draw(st.integers(0, written)))


CHARGED = [
    st.builds(Reply, tokens=tokens(), growing=st.booleans()),
    st.builds(Reply, tokens=tokens(), pieces=st.just(())),
    st.builds(Reply, tokens=tokens(), finish=st.sampled_from(["length", "content_filter"])),
    st.builds(Reply, tokens=tokens(), refusal=st.just("no")),
    st.builds(Reply, tokens=tokens(), calls=st.just((("c", "search", "{}"),))),
]
#: The server charges nothing, or does not say what.
FREE = [
    st.builds(Refuse, status=st.sampled_from([429, 500, 503]), headers=st.just(HURRY)),
    st.builds(Refuse, status=st.sampled_from([400, 401, 404])),
    st.builds(Reply, tokens=st.none(), finish=st.none(), pieces=st.sampled_from([(), ("So",)])),
    st.builds(Reply, tokens=st.none(), drop=st.just(True), pieces=st.sampled_from([(), ("So",)])),
    st.builds(Reply, tokens=st.none()),
]
#: Responses only: a failure that is charged for, also under an id that comes again when it is repeated.
FAILED = st.builds(
    Reply,
    tokens=st.just(Tokens(read=70, cached=20, written=9, thought=4)),
    pieces=st.just(()),
    error=st.just(("server_error", "oops")),
    id=st.sampled_from([None, "again"]),
)


def schedules(api: str) -> st.SearchStrategy[list[tuple[list[Step], str | None]]]:
    """Turns: what the server does in each, request by request, and the answer that it is to follow."""
    steps = st.one_of(*CHARGED, *FREE, *([FAILED] if api == "responses" else []))
    turn = st.tuples(st.lists(steps, max_size=9), st.sampled_from([None, "answer-1", "lost"]))
    return st.lists(turn, min_size=1, max_size=4)


async def play(api: str, turns: Sequence[tuple[list[Step], str | None]]) -> tuple[list[Usage], list[Tokens]]:
    """Our row for every turn, and the server's for every answer."""
    rows: list[Usage] = []
    charged: list[Tokens] = []
    async with FakeModel() as server:
        agent = ModelAgent(table(server.url, api=api, fallback_models=["middle", "small"]), Path("/nowhere"))
        for steps, previous in turns:
            server.script = list(steps)
            server.ledger = {}
            try:
                rows.append((await hear(agent, turn_of(previous_response_id=previous))).done.usage)
            except ModelFailed as failed:
                rows.append(Usage(**failed.spent))
            charged += server.ledger.values()
        await agent.close()
    return rows, charged


@pytest.mark.req("P27")
@pytest.mark.parametrize("api", ["responses", "chat"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_sum_of_our_rows_is_the_servers_ledger(api: str, data: st.DataObject) -> None:
    rows, charged = asyncio.run(play(api, data.draw(schedules(api))))
    assert sum(row.input or 0 for row in rows) == sum(one.read - one.cached for one in charged)
    assert sum(row.cached or 0 for row in rows) == sum(one.cached for one in charged)
    assert sum(row.output or 0 for row in rows) == sum(one.written - one.thought for one in charged)
    assert sum(row.reasoning or 0 for row in rows) == sum(one.thought for one in charged)
    for row in rows:
        known = [count is not None for count in (row.input, row.cached, row.output, row.reasoning)]
        assert all(known) if row.source == "provider" else not any(known)


@pytest.mark.req("P27")
def test_one_answer_that_comes_twice_is_counted_once() -> None:
    cost = Tokens(read=70, cached=20, written=9, thought=4)
    twice: list[Step] = [
        Reply(id="same", pieces=(), error=("server_error", "oops"), tokens=cost),
        Reply(id="same", tokens=cost),
    ]
    rows, charged = asyncio.run(play("responses", [(twice, None)]))
    assert charged == [cost]
    assert rows == [Usage(input=50, cached=20, output=5, reasoning=4, source="provider")]
