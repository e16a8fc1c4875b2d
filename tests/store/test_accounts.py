"""What accounts keep: facts, how far a room was read, and the agents chosen for chats."""

import sqlite3

from hypothesis import given, settings
from hypothesis import strategies as st

from store import accounts
from tests.store.rows import fresh, make_address, run

MAIN = ("telegram", "main")


def test_facts_belong_to_one_account(db: sqlite3.Connection) -> None:
    assert accounts.recall(db, *MAIN, "menu") is None
    run(db, accounts.remember, *MAIN, "menu", "v1")
    run(db, accounts.remember, *MAIN, "menu", "v2")
    run(db, accounts.remember, *MAIN, "offset", "7")
    assert (accounts.recall(db, *MAIN, "menu"), accounts.recall(db, *MAIN, "offset")) == ("v2", "7")
    assert accounts.recall(db, "telegram", "second", "menu") is None
    assert accounts.recall(db, "discord", "main", "menu") is None


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2**63 - 1)), min_size=1, max_size=20))
def test_what_was_read_never_goes_back(messages: list[tuple[str, int]]) -> None:
    with fresh() as db:
        model: dict[str, int] = {}
        for room, message in messages:
            run(db, accounts.saw, *MAIN, room, str(message))
            model[room] = max(model.get(room, 0), message)
            assert accounts.seen(db, *MAIN) == {name: str(last) for name, last in model.items()}
        assert accounts.seen(db, "telegram", "second") == {}


def test_an_agent_is_chosen_for_one_chat_and_thread(db: sqlite3.Connection) -> None:
    chat, thread = make_address("-1", reply_to="9"), make_address("-1", thread="7")
    assert accounts.chosen(db, chat) is None
    run(db, accounts.choose, chat, "ada")
    run(db, accounts.choose, thread, "bob")
    assert accounts.chosen(db, make_address("-1", reply_to="10")) == "ada"
    assert (accounts.chosen(db, thread), accounts.chosen(db, make_address("-2"))) == ("bob", None)
    run(db, accounts.choose, chat, "eve")
    assert accounts.chosen(db, chat) == "eve"
    run(db, accounts.choose, chat, None)
    run(db, accounts.choose, chat, None)
    assert (accounts.chosen(db, chat), accounts.chosen(db, thread)) == (None, "bob")


def test_what_was_chosen_goes_with_its_chat(db: sqlite3.Connection) -> None:
    for chat, agent in (("-1", "ada"), ("-1001", "bob"), ("-2", "eve")):
        run(db, accounts.choose, make_address(chat), agent)
    run(db, accounts.choose, make_address("-1", thread="7"), "dan")
    run(db, accounts.move_chat, *MAIN, "-1", "-1001")
    assert accounts.chosen(db, make_address("-1")) is None
    assert accounts.chosen(db, make_address("-1001")) == "ada"
    assert accounts.chosen(db, make_address("-1001", thread="7")) == "dan"
    assert accounts.chosen(db, make_address("-2")) == "eve"
