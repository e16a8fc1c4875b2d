"""Aliases of chats: however they chain, an old id leads to today's."""

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store import places
from tests.store.rows import count, fresh, run

WHERE = ("telegram", "main")


def alias(db: sqlite3.Connection, old: str, new: str) -> None:
    run(db, places.set_alias, *WHERE, old, new, 5)


def test_an_unknown_chat_is_itself(db: sqlite3.Connection) -> None:
    assert places.current(db, *WHERE, "-100") == "-100"


def test_an_alias_belongs_to_one_account(db: sqlite3.Connection) -> None:
    alias(db, "-5", "-1005")
    assert places.current(db, *WHERE, "-5") == "-1005"
    assert places.current(db, "telegram", "second", "-5") == "-5"
    assert places.current(db, "discord", "main", "-5") == "-5"


@pytest.mark.parametrize("order", [[("a", "b"), ("b", "c")], [("b", "c"), ("a", "b")]])
def test_aliases_chain(db: sqlite3.Connection, order: list[tuple[str, str]]) -> None:
    for old, new in order:
        alias(db, old, new)
    assert [places.current(db, *WHERE, chat) for chat in "abc"] == ["c", "c", "c"]


def test_a_circle_does_not_close(db: sqlite3.Connection) -> None:
    for old, new in (("a", "b"), ("b", "c"), ("c", "a")):
        alias(db, old, new)
    assert [places.current(db, *WHERE, chat) for chat in "abc"] == ["c", "c", "c"]
    alias(db, "c", "c")
    assert count(db, "aliases", "old_chat = new_chat") == 0


def test_a_newer_alias_replaces_an_older_one(db: sqlite3.Connection) -> None:
    alias(db, "a", "b")
    alias(db, "a", "c")
    assert places.current(db, *WHERE, "a") == "c"
    assert places.current(db, *WHERE, "b") == "b"


def test_any_spelling_of_an_id(db: sqlite3.Connection) -> None:
    alias(db, " -007 ", "+0100")
    assert places.current(db, *WHERE, "-7") == "100"
    assert places.current(db, *WHERE, "-0007") == "100"


@settings(deadline=None, max_examples=60)
@given(steps=st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde")), max_size=12))
def test_every_alias_leads_straight_to_the_end(steps: list[tuple[str, str]]) -> None:
    """Against a model: walk the newest links to their end; a link that would close a circle is not taken."""
    with fresh() as db:
        links: dict[str, str] = {}

        def end(chat: str) -> str:
            while chat in links:
                chat = links[chat]
            return chat

        for old, new in steps:
            alias(db, old, new)
            target = end(new)
            if target != old:
                # Whoever was led to `new` through `old` keeps going there; `old` itself has a new target.
                for chat in [chat for chat in links if links[chat] == old]:
                    links[chat] = target
                links[old] = target
            assert {chat: places.current(db, *WHERE, chat) for chat in "abcde"} == {c: end(c) for c in "abcde"}
        assert count(db, "aliases", "new_chat IN (SELECT old_chat FROM aliases)") == 0


def test_the_ids_that_a_chat_had_before(db: sqlite3.Connection) -> None:
    assert places.former(db, *WHERE, "c") == frozenset()
    for old, new in (("a", "b"), ("b", "c"), ("x", "y")):
        alias(db, old, new)
    assert places.former(db, *WHERE, "c") == {"a", "b"}
    assert places.former(db, *WHERE, "b") == frozenset(), "it is no chat any more"
    assert places.former(db, "telegram", "second", "c") == frozenset()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde")), max_size=12))
def test_former_is_the_inverse_of_current(moves: list[tuple[str, str]]) -> None:
    with fresh() as db:
        for old, new in moves:
            alias(db, old, new)
        for chat in "abcde":
            today = places.current(db, *WHERE, chat)
            assert (chat in places.former(db, *WHERE, today)) == (chat != today)
            assert places.current(db, *WHERE, today) == today
