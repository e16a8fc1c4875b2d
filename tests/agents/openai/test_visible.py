"""Thoughts and control tokens stay out, everything else comes through as it was, wherever the pieces are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.openai.visible import _CONTROL, _THOUGHTS, Visible

WORDS = st.lists(
    st.sampled_from([*_CONTROL, *_THOUGHTS, *_THOUGHTS.values(), "a", " ", "\n", "<", "<|", "|>", "<thi", "words "])
    | st.text(max_size=4),
    max_size=12,
).map("".join)


def shown(*pieces: str) -> str:
    visible = Visible()
    return "".join([*map(visible.feed, pieces), visible.rest()])


@pytest.mark.req("P48", "P37")
@given(text=WORDS, cuts=st.lists(st.integers(0, 200), max_size=20))
def test_the_cuts_make_no_difference(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in zip(places, places[1:], strict=False)]
    assert shown(*pieces) == shown(text) == shown(*text)


@pytest.mark.req("P37")
@given(st.text(st.characters(exclude_characters="<[◁"), max_size=40))
def test_plain_text_is_not_touched(text: str) -> None:
    assert shown(*text) == text


@pytest.mark.req("P48")
@pytest.mark.parametrize("mark", _THOUGHTS)
def test_thoughts_are_not_shown(mark: str) -> None:
    text = f"\n{mark}secret {mark} plan\n{_THOUGHTS[mark]}\n\n  The answer."
    assert shown(*text) == shown(text) == "The answer."


@pytest.mark.req("P48")
@pytest.mark.parametrize("mark", _CONTROL)
def test_control_tokens_are_not_shown(mark: str) -> None:
    assert shown(*f"It is{mark} done.{mark}") == "It is done."


@pytest.mark.parametrize(
    "text",
    [
        "Use <think> tags.",
        "a < b",
        "<",
        "<thi",
        " <b>x</b>",
        "```\n<|pipe|>\n```",
        "<thinker>",
        "x <|im_",
        "[THIN",
        "\n",
    ],
)
def test_what_only_looks_like_them_is(text: str) -> None:
    assert shown(*text) == shown(text) == text


def test_thoughts_without_an_end_are_no_answer() -> None:
    assert shown(*"<think>I wonder", " still") == ""


def test_one_thought_after_another() -> None:
    assert shown("<think>a</think> <think>b</think>\nyes") == "yes"


@pytest.mark.req("P48")
def test_text_is_given_on_as_soon_as_it_can_be() -> None:
    visible = Visible()
    assert [visible.feed(piece) for piece in ("He", "llo <", "b> <|im", "_end|>", "!")] == [
        "He",
        "llo ",
        "<b> ",
        "",
        "!",
    ]
