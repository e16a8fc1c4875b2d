"""Content: what goes in comes out, in the literal shapes of the API, whatever a platform or a tool puts in."""

import json
import math
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.content import Content, Plan, Text, Tool, clean, decode, encode, to_json

#: Half surrogates are characters of Python's and of no database's.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
LONE = st.integers(0xD800, 0xDFFF).map(chr)
SOUND = st.text(st.characters(codec="utf-8"))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | SOUND,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SOUND, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(SOUND, JSON, max_size=4)
CONTENT = (
    st.builds(Text, SOUND, st.none() | st.booleans())
    | st.builds(Plan, st.lists(OBJECTS, max_size=4).map(tuple))
    | st.builds(Tool, SOUND, OBJECTS, OBJECTS)
)


def in_sqlite(stored: str) -> Any:
    """What SQLite itself makes of the text: it must be storable, and JSON in its eyes as well."""
    with closing(sqlite3.connect(":memory:")) as db:
        return db.execute("SELECT ?1, json_valid(?1)", (stored,)).fetchone()


@pytest.mark.req("S000-09", "S001-35")
@given(CONTENT)
@example(Text(""))
@example(Text("a\0b\u2028\U0001f600", partial=True))
@example(Text('{"type":"plan"}', partial=False))
@example(Plan(()))
@example(Tool("", {}, {}))
def test_every_member_of_the_union_comes_back_as_the_same_value(content: Content) -> None:
    stored = encode(content)
    assert in_sqlite(stored) == (stored, 1)
    assert decode(stored) == content


@pytest.mark.parametrize(
    ("content", "literal"),
    [
        pytest.param(Text("hi"), '{"type":"text","text":"hi"}', marks=pytest.mark.req("S000-44")),
        pytest.param(
            Text("hi", partial=True), '{"type":"text","text":"hi","partial":true}', marks=pytest.mark.req("S000-45")
        ),
        pytest.param(
            Text("hi", partial=False),
            '{"type":"text","text":"hi","partial":false}',
            marks=pytest.mark.req("S000-45", "S000-46"),
        ),
        pytest.param(
            Plan(({"content": "look", "status": "pending"}, {"content": "leap"})),
            '{"type":"plan","steps":[{"content":"look","status":"pending"},{"content":"leap"}]}',
            marks=pytest.mark.req("S000-47"),
        ),
        pytest.param(
            Tool("grep", {"for": "é"}, {"found": 2}),
            '{"type":"tool","tool":"grep","args":{"for":"é"},"result":{"found":2}}',
            marks=pytest.mark.req("S000-48"),
        ),
    ],
)
def test_stored_json_is_the_literal_shape(content: Content, literal: str) -> None:
    assert encode(content) == literal
    assert decode(literal) == content


@given(ANY_TEXT)
@example("\ud800")
@example("\udc00")
@example("\udc00\ud800")
@example("\ufeff\ud800")
@example('\ud83d"}')
def test_clean_text_can_always_be_stored(text: str) -> None:
    cleaned = clean(text)
    assert in_sqlite(cleaned)[0] == cleaned
    assert clean(cleaned) == cleaned


@given(SOUND)
def test_clean_leaves_sound_text_alone(text: str) -> None:
    assert clean(text) == text


@given(SOUND, LONE, SOUND)
def test_half_a_character_becomes_the_replacement_character_and_nothing_else_changes(
    before: str, lone: str, after: str
) -> None:
    assert clean(before + lone + after) == f"{before}\ufffd{after}"


@given(st.characters(min_codepoint=0x10000, exclude_categories=()))
def test_two_halves_of_a_character_become_whole(character: str) -> None:
    high, low = (chr(half) for half in memoryview(character.encode("utf-16-le")).cast("H"))
    assert clean(f"a{high}{low}b") == f"a{character}b"


@pytest.mark.req("S000-09")
@given(ANY_TEXT, ANY_TEXT)
def test_content_with_half_characters_is_stored_without_an_error(one: str, two: str) -> None:
    for content in (Text(one), Plan(({one: two},)), Tool(one, {two: one}, {one: [two]})):
        stored = encode(content)
        assert in_sqlite(stored) == (stored, 1)
        decode(stored)
    assert decode(encode(Text(one))) == Text(clean(one))


@pytest.mark.req("S000-09", "S000-88")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, json.loads("1e999")])
def test_a_number_that_json_does_not_have_becomes_null(value: float) -> None:
    content = Tool("measure", {"limits": [0.5, value], "steps": ({"x": value}, True)}, {"value": value})
    stored = encode(content)
    assert in_sqlite(stored) == (stored, 1)
    assert decode(stored) == Tool("measure", {"limits": [0.5, None], "steps": [{"x": None}, True]}, {"value": None})


@given(JSON)
def test_json_is_compact_and_not_escaped(value: Any) -> None:
    assert to_json(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
