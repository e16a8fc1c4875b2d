"""What was overheard: the newest lines of a conversation, told once, and never somebody else's."""

import sqlite3

from hypothesis import given, settings
from hypothesis import strategies as st

from store import overheard
from store.overheard import Line
from tests.store.rows import count, fresh, make_key, run

HERE, THERE = make_key(peer="-100"), make_key(peer="-200")


def note(db: sqlite3.Connection, text: str, key: object = HERE, keep: int = 3, now: int = 10) -> None:
    assert key in {HERE, THERE}
    run(db, overheard.note, HERE if key == HERE else THERE, Line("telegram:7", "Eve", text), keep, now)


def texts(db: sqlite3.Connection) -> list[str]:
    return [line.text for line in run(db, overheard.take, HERE)]


def test_the_newest_lines_oldest_first_and_once(db: sqlite3.Connection) -> None:
    for text in "abcde":
        note(db, text)
    note(db, "elsewhere", THERE)
    assert texts(db) == ["c", "d", "e"]
    assert texts(db) == []
    assert count(db, "overheard") == 1


def test_a_line_is_short_and_can_be_stored(db: sqlite3.Connection) -> None:
    note(db, "x" * 10_000)
    note(db, "half \ud83d")
    long, half = texts(db)
    assert len(long) == 500
    assert half == "half \ufffd"


def test_what_nobody_came_back_to_goes(db: sqlite3.Connection) -> None:
    note(db, "old", now=10)
    note(db, "new", now=20)
    assert run(db, overheard.prune, 20) == 1
    assert texts(db) == ["new"]


def test_it_follows_its_group_to_another_id(db: sqlite3.Connection) -> None:
    note(db, "here")
    note(db, "there", THERE)
    run(db, overheard.move_chat, "telegram", "main", "-100", "-1009")
    assert texts(db) == []
    assert [line.text for line in run(db, overheard.take, make_key(peer="-1009"))] == ["here"]
    assert [line.text for line in run(db, overheard.take, THERE)] == ["there"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from([0, 1, 2, "take"]), max_size=40), st.integers(1, 4))
def test_never_more_than_is_kept_and_nothing_twice(events: list[int | str], keep: int) -> None:
    with fresh() as db:
        model: list[str] = []
        for number, event in enumerate(events):
            if event == "take":
                assert texts(db) == model
                model = []
            else:
                note(db, str(number), keep=keep)
                model = [*model, str(number)][-keep:]
