"""No call without a result, no result without a call, whatever a history lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.openai.conversation import prompt
from gateway.agents.openai.pairing import Call, Item, Result, Said, paired
from store.content import Plan
from store.records import Role
from tests.fakes.harness import Journal
from tests.fakes.model.turns import agent, note, row, tool, turn_of, user

IDS = st.sampled_from(["a", "b", "c"])
ITEMS = st.lists(
    st.builds(Call, IDS, st.just("grep"), st.just("{}"))
    | st.builds(Result, IDS, st.text(max_size=3))
    | st.builds(Said, st.sampled_from(["user", "assistant", "note"]), st.text(max_size=3)),
    max_size=12,
)


@pytest.mark.req("P17")
@given(ITEMS)
def test_every_half_gets_its_other_half_and_a_second_repair_changes_nothing(items: list[Item]) -> None:
    once, repairs = paired(items)
    again, more = paired(once)
    assert (again, more) == (once, 0)
    for position, item in enumerate(once):
        if isinstance(item, Call):
            following = once[position + 1]
            assert isinstance(following, Result)
            assert following.call_id == item.id
        if isinstance(item, Result):
            assert isinstance(once[position - 1], Call)
    ids = [item.id for item in once if isinstance(item, Call)]
    assert len(ids) == len(set(ids)) == sum(isinstance(item, Call) for item in items)
    # Nothing that was said or found is lost.
    told = [item.text for item in once if not isinstance(item, Call)]
    for item in items:
        assert isinstance(item, Call) or any(item.text in text for text in told)
    if once == items:
        assert repairs == 0


@pytest.mark.req("P17", "R-13")
def test_rows_with_the_columns_of_seed_001(journal: Journal) -> None:
    calls = [
        {"id": "call-1", "name": "grep", "arguments": {"for": "x"}},
        {"id": "call-2", "type": "function", "function": {"name": "read it", "arguments": '{"file": "y"}'}},
        {"id": "call-3", "name": "wait", "args": "nonsense"},
        "no call at all",
        {"id": "call-4"},
    ]
    history = (
        user("Look"),
        agent("I look.", calls=calls),
        tool("grep", {}, {"found": 1}, call_id="call-1"),
        row(Role.SYSTEM, "the file's text", call_id="call-2"),
        row(Role.SYSTEM, "too late", call_id="call-0"),
        agent("There."),
    )
    given = prompt(turn_of(history=history), "", {})
    assert given.history[2:-1] == (
        Call("call-1", "grep", '{"for":"x"}'),
        Result("call-1", '{"found":1}'),
        Call("call-2", "read_it", '{"file":"y"}'),
        Result("call-2", "the file's text"),
        Call("call-3", "wait", '{"unreadable":"nonsense"}'),
        Result("call-3", "No result: the call was interrupted, and it is not known whether it took effect."),
        Said("note", "Result of an earlier tool call that is no longer shown: too late"),
    )
    assert [line for line, _ in journal.lines] == ["repaired 2 tool calls of session s that had lost their other half"]


@pytest.mark.req("P17", "R-13")
def test_rows_as_a_run_leaves_them(journal: Journal) -> None:
    """A call and its result are one row; a crash between the two leaves an empty result."""
    history = (
        user("Look"),
        tool("Read File", {"path": "a"}, {"text": "b"}, seq=2),
        tool("run", {}, {}, seq=3),
        row(Role.SYSTEM, Plan(({"content": "look", "status": "completed"},))),
        note("The request above failed and was not finished: it broke off."),
    )
    given = prompt(turn_of(history=history), "", {})
    assert given.history == (
        Said("user", "Look"),
        Call("call_2", "Read_File", '{"path":"a"}'),
        Result("call_2", '{"text":"b"}'),
        Call("call_3", "run", "{}"),
        Result("call_3", "No result: the call was interrupted, and it is not known whether it took effect."),
        Said("note", 'Plan: [{"content":"look","status":"completed"}]'),
        Said("note", "The request above failed and was not finished: it broke off."),
    )
    assert len(journal.lines) == 1


def test_ids_that_a_model_uses_again(journal: Journal) -> None:
    again = tool("grep", {}, {"found": 2}, call_id="call_0")
    history = (
        agent("", calls=[{"id": "call_0", "name": "grep"}]),
        tool("grep", {}, {"found": 1}, call_id="call_0"),
        user("Again"),
        again,
    )
    given = prompt(turn_of(history=history), "", {})
    assert given.history[:2] == (Call("call_0", "grep", "{}"), Result("call_0", '{"found":1}'))
    assert given.history[3:] == (Call("call_0_2", "grep", "{}"), Result("call_0_2", '{"found":2}'))
    assert journal.lines == []


def test_a_whole_history_is_not_mentioned(journal: Journal) -> None:
    prompt(turn_of(history=(user("a"), tool("b", {}, {"c": 1}), agent("d"))), "", {})
    assert journal.lines == []
