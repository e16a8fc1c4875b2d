"""What a model is told of a conversation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.openai import chat, responses
from gateway.agents.openai.conversation import UNANSWERED, prompt
from gateway.agents.protocol import TurnContext
from store.records import Message, Role
from tests.fakes.model.turns import agent, note, row, tool, turn_of, user

FAILED = "The request above failed and was not finished: the model went silent."


def as_chat(turn: TurnContext, instructions: str = "") -> list[Any]:
    return list(chat.messages(prompt(turn, instructions, {})))


def as_responses(turn: TurnContext, instructions: str = "") -> list[Any]:
    return list(responses.items(prompt(turn, instructions, {}), chained=False))


@pytest.mark.req("R-13")
def test_the_roles_of_each_api() -> None:
    history = (user("Find it", 1), tool("grep", {"for": "it"}, {"found": 1}, seq=2), agent("Found.", 1))
    turn = turn_of("Thanks", history=history, summary="They met.")
    summary = "Summary of the earlier part of this conversation, which is left out:\n\nThey met."
    function = {"name": "grep", "arguments": '{"for":"it"}'}
    assert as_chat(turn, "Be kind.") == [
        {"role": "system", "content": f"Be kind.\n\n{summary}"},
        {"role": "user", "content": "Find it"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_2", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": '{"found":1}'},
        {"role": "assistant", "content": "Found."},
        {"role": "user", "content": "Thanks"},
    ]
    assert as_responses(turn) == [
        {"type": "message", "role": "system", "content": summary},
        {"type": "message", "role": "user", "content": "Find it"},
        {"type": "function_call", "call_id": "call_2", **function},
        {"type": "function_call_output", "call_id": "call_2", "output": '{"found":1}'},
        {"type": "message", "role": "assistant", "content": "Found."},
        {"type": "message", "role": "user", "content": "Thanks"},
    ]


@pytest.mark.req("P18")
def test_a_failed_request_is_closed_for_the_model_too() -> None:
    turn = turn_of("hello", history=(user("Reset the password", 1), note(FAILED, 1)))
    assert [(one["role"], one["content"]) for one in as_chat(turn)] == [
        ("user", "Reset the password"),
        ("assistant", f"[Note of the gateway: {FAILED}]"),
        ("user", "hello"),
    ]
    assert [(one["role"], one["content"]) for one in as_responses(turn)] == [
        ("user", "Reset the password"),
        ("system", FAILED),
        ("user", "hello"),
    ]


@pytest.mark.req("P18")
@pytest.mark.parametrize("turns", [(1, 2), (None, None), (None, 2)])
def test_a_request_that_nobody_answered_is_closed_all_the_same(turns: tuple[int | None, int | None]) -> None:
    turn = turn_of("hello", history=(user("Delete all", turns[0]), user("Are you there?", turns[1])))
    assert [one["content"] for one in as_responses(turn)] == [
        "Delete all",
        UNANSWERED,
        "Are you there?",
        UNANSWERED,
        "hello",
    ]


def test_messages_that_were_collected_are_one_request() -> None:
    turn = turn_of("and", "this", history=(user("a", 1), user("b", 1), agent("ok", 1)))
    assert [one["content"] for one in as_chat(turn)] == ["a\n\nb", "ok", "and\n\nthis"]
    assert [one["content"] for one in as_responses(turn)] == ["a\n\nb", "ok", "and\n\nthis"]


def test_who_said_it_is_told() -> None:
    sender = {"id": "p", "name": "Eve", "user": "telegram:7", "group": True}
    [said] = as_chat(turn_of(user("Hi", sender=sender)))
    assert said["content"] == '[from "Eve" (telegram:7)]\nHi'


def test_a_message_without_words_is_not_empty() -> None:
    assert [one["content"] for one in as_chat(turn_of(""))] == ["(no text)"]


ROWS = st.lists(
    st.builds(user, st.sampled_from(["a", "", "b"]), st.integers(1, 3))
    | st.builds(agent, st.sampled_from(["x", "", " "]), st.integers(1, 3))
    | st.builds(note, st.sampled_from(["n", ""]), st.integers(1, 3))
    | st.builds(tool, st.just("t"), st.just({}), st.sampled_from([{}, {"r": 1}]), call_id=st.sampled_from([None, "c"]))
    | st.builds(row, st.just(Role.SYSTEM), st.just("result"), call_id=st.just("c")),
    max_size=10,
)


@pytest.mark.req("P18", "P17")
@given(ROWS)
def test_two_requests_never_stand_side_by_side(rows: list[Message]) -> None:
    """For Chat Completions more: user and assistant take turns, which is all that some templates can render."""
    turn = turn_of("now", history=tuple(rows))
    for rendered in (as_chat(turn), as_responses(turn)):
        roles = [one.get("role", one.get("type")) for one in rendered]
        assert ("user", "user") not in zip(roles, roles[1:], strict=False)
        assert roles[-1] == "user"
        assert rendered[-1]["content"].endswith("now")
    roles = [one["role"] for one in as_chat(turn)]
    assert roles[0] == "user"
    for one, other in zip(as_chat(turn), as_chat(turn)[1:], strict=False):
        if one["role"] == other["role"] == "assistant":
            assert "tool_calls" in other
            assert "tool_calls" not in one
        assert (other["role"] == "tool") == ("tool_calls" in one)
