"""The inbox: each external id once, in order, and never more than a lane takes."""

import sqlite3
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import LaneFull, SessionEnded, UnknownSession
from routing.keys import PeerKind
from routing.messages import Address, Attachment, AttachmentKind, Quote, Sender
from store import inbox, people, sessions, turns
from store.about import About
from store.inbox import Arrival
from store.records import InboxItem, InboxState, Role, Status
from store.sessions import SessionFilter
from tests.store.rows import arrive, begin, count, dump, fresh, make_address, make_key, run, say

KEY = make_key()
OTHER = make_key("bob")
ARRIVAL = Arrival(external_id="bot:1", key=KEY, address=make_address(), text="hello")


def end_turn(db: sqlite3.Connection, *items: InboxItem) -> None:
    _, turn = begin(db, *items)
    run(db, turns.complete, turn.id, None, say("answer", Role.AGENT), turns.Ending(answer_summary="a"), 30)


def states(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT external_id, state FROM inbox").fetchall())


def test_accepted_as_given(db: sqlite3.Connection) -> None:
    person = run(db, people.meet, "telegram", "7", "Grace", 1)
    address = make_address(thread="4", reply_to="99")
    about = About(
        user="7",
        group=True,
        attachments=(Attachment(kind=AttachmentKind.IMAGE, ref="r", name="../x", mime="image/png", size=3),),
        quote=Quote(text="before", sender=Sender(id="8", name="Eve")),
        forwarded_from="a channel",
    )
    arrival = replace(ARRIVAL, address=address, person=person.id, sender_name="Grace", about=about, open_until=77)
    accepted = run(db, inbox.accept, arrival, 10)
    assert accepted.duplicate is False
    assert accepted.item == InboxItem(
        id=accepted.item.id,
        key=KEY,
        session=None,
        address=address,
        person=person.id,
        sender_name="Grace",
        message_id=accepted.item.message_id,
        text="hello",
        state=InboxState.WAITING,
        turn=None,
        received_at=10,
        about=about,
        thought=None,
        open_until=77,
    )
    assert inbox.waiting(db, KEY) == [accepted.item]
    assert inbox.find(db, "telegram", "bot:1") == accepted.item


def test_half_characters_are_replaced(db: sqlite3.Connection) -> None:
    arrival = replace(ARRIVAL, external_id="x\ud83d", text="a\ud83d", sender_name="b\ud83d")
    first = run(db, inbox.accept, arrival, 10)
    assert (first.item.text, first.item.sender_name) == ("a\ufffd", "b\ufffd")
    assert run(db, inbox.accept, arrival, 11).item == first.item


def test_the_same_external_id_gives_the_same_row(db: sqlite3.Connection) -> None:
    first = run(db, inbox.accept, ARRIVAL, 10)
    before = dump(db)
    again = run(db, inbox.accept, replace(ARRIVAL, text="other", key=OTHER), 11, max_waiting=0)
    assert (again.item, again.duplicate) == (first.item, True)
    assert dump(db) == before


@pytest.mark.parametrize("ended", [False, True])
def test_recognised_while_it_runs_and_after(db: sqlite3.Connection, ended: bool) -> None:
    item = run(db, inbox.accept, ARRIVAL, 10).item
    if ended:
        end_turn(db, item)
    else:
        begin(db, item)
    again = run(db, inbox.accept, ARRIVAL, 11)
    assert (again.duplicate, again.item.message_id) == (True, item.message_id)
    assert again.item.state is (InboxState.DONE if ended else InboxState.RUNNING)


def test_external_ids_are_per_channel(db: sqlite3.Connection) -> None:
    one = run(db, inbox.accept, ARRIVAL, 10)
    discord = Address(channel="discord", account="main", chat="1")
    two = run(db, inbox.accept, replace(ARRIVAL, address=discord), 10)
    assert two.duplicate is False
    assert one.item.message_id != two.item.message_id
    assert inbox.find(db, "discord", "bot:1") == two.item
    assert inbox.find(db, "web", "bot:1") is None


def test_a_full_lane_stores_nothing(db: sqlite3.Connection) -> None:
    session = run(db, sessions.get_or_create, "ada", KEY, 1)
    for name in ("1", "2"):
        run(db, inbox.accept, replace(ARRIVAL, external_id=name), 10, max_waiting=2)
    db.execute("UPDATE sessions SET status = 'idle' WHERE id = ?", (session.id,))
    before = dump(db)
    with pytest.raises(LaneFull, match="2 messages are already waiting"):
        run(db, inbox.accept, replace(ARRIVAL, external_id="3"), 10, max_waiting=2)
    assert dump(db) == before
    assert run(db, inbox.accept, replace(ARRIVAL, external_id="3", key=OTHER), 10, max_waiting=2).duplicate is False
    begin(db, inbox.waiting(db, KEY)[0])
    assert run(db, inbox.accept, replace(ARRIVAL, external_id="4"), 10, max_waiting=2).duplicate is False
    assert inbox.waiting_count(db, KEY) == 2


@pytest.mark.req("S000-15", "S000-18", "S001-08")
def test_for_one_session(db: sqlite3.Connection) -> None:
    session = run(db, sessions.get_or_create, "ada", KEY, 1)
    item = arrive(db, "1", session=session.id)
    assert item.session == session.id
    run(db, sessions.end, session, Status.CANCELLED, "user", 20)
    before = dump(db)
    with pytest.raises(SessionEnded) as caught:
        arrive(db, "2", session=session.id)
    assert caught.value.status == "cancelled"
    with pytest.raises(UnknownSession):
        arrive(db, "3", session=99)
    assert dump(db) == before
    # What was accepted before stays recognised.
    assert arrive(db, "1", session=session.id) == item


def test_a_refused_message_is_remembered_without_its_text(db: sqlite3.Connection) -> None:
    item = run(db, inbox.insert, ARRIVAL, InboxState.CANCELLED, 10)
    assert item is not None
    assert (item.text, item.state) == ("", InboxState.CANCELLED)
    assert run(db, inbox.insert, ARRIVAL, InboxState.CANCELLED, 11) is None
    assert run(db, inbox.accept, ARRIVAL, 12).duplicate is True
    assert inbox.waiting(db, KEY) == []


@settings(deadline=None, max_examples=40)
@given(arrivals=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=25))
def test_first_in_first_out_per_key(arrivals: list[tuple[str, int]]) -> None:
    with fresh() as db:
        expected: dict[str, list[str]] = {agent: [] for agent in "abc"}
        for number, (agent, now) in enumerate(arrivals):
            arrive(db, str(number), make_key(agent), now=now)
            expected[agent].append(str(number))
        for agent, names in expected.items():
            waiting = inbox.waiting(db, make_key(agent))
            assert [item.text for item in waiting] == names
            assert inbox.waiting_count(db, make_key(agent)) == len(names)
        assert [item.text for item in inbox.all_waiting(db)] == [str(number) for number in range(len(arrivals))]


def test_get_gives_those_that_still_wait(db: sqlite3.Connection) -> None:
    items = [arrive(db, name) for name in ("1", "2", "3", "4")]
    end_turn(db, items[0])
    begin(db, items[1])
    assert inbox.get(db, [item.id for item in reversed(items)]) == items[2:]
    assert inbox.get(db, [99]) == inbox.get(db, []) == []


def test_finish_takes_only_that_turns_rows(db: sqlite3.Connection) -> None:
    one, two = arrive(db, "1"), arrive(db, "2", OTHER, sender_name="Grace")
    _, turn = begin(db, one)
    _, other = begin(db, two)
    run(db, inbox.finish, turn.id)
    assert states(db) == {"1": "done", "2": "running"}
    (kept,) = inbox.of_turn(db, other.id)
    assert (kept.text, kept.sender_name) == ("2", "Grace")


def test_cancel_for_session_takes_only_what_was_meant_for_it(db: sqlite3.Connection) -> None:
    session = run(db, sessions.get_or_create, "ada", KEY, 1)
    other = run(db, sessions.get_or_create, "bob", OTHER, 1)
    begin(db, arrive(db, "running", session=session.id))
    arrive(db, "mine", session=session.id, sender_name="Grace")
    arrive(db, "by key")
    arrive(db, "other's", OTHER, session=other.id)
    assert run(db, inbox.cancel_for_session, session.id) == 1
    assert states(db) == {"running": "running", "mine": "cancelled", "by key": "waiting", "other's": "waiting"}
    cancelled = inbox.find(db, "telegram", "mine")
    assert cancelled is not None
    assert (cancelled.text, cancelled.sender_name) == ("", "")
    assert run(db, inbox.cancel_for_session, session.id) == 0


def test_rekey_moves_what_waits(db: sqlite3.Connection) -> None:
    running = arrive(db, "0")
    begin(db, running)
    items = [arrive(db, name) for name in ("1", "2")]
    there = arrive(db, "3", OTHER)
    (session,) = sessions.list_for(db, "ada", SessionFilter())
    meant = arrive(db, "for one session", session=session.id)
    run(db, inbox.rekey, KEY, OTHER)
    assert inbox.waiting(db, KEY) == [meant]
    assert inbox.waiting(db, OTHER) == [*(replace(item, key=OTHER) for item in items), there]
    assert count(db, "inbox", f"key = '{KEY}' AND state = 'running'") == 1


def test_rekey_moves_one_persons_messages(db: sqlite3.Connection) -> None:
    grace = run(db, people.meet, "telegram", "7", "Grace", 1)
    hers, other, another = (arrive(db, "1", person=grace.id), arrive(db, "2"), arrive(db, "3"))
    run(db, inbox.rekey, KEY, OTHER, person=grace.id)
    assert inbox.waiting(db, OTHER) == [replace(hers, key=OTHER)]
    assert inbox.waiting(db, KEY) == [other, another]


def test_prune_forgets_only_what_has_ended(db: sqlite3.Connection) -> None:
    for name, now in (("old", 10), ("young", 20)):
        end_turn(db, arrive(db, f"done, {name}", now=now))
        run(db, inbox.insert, replace(ARRIVAL, external_id=f"cancelled, {name}"), InboxState.CANCELLED, now)
        arrive(db, f"waiting, {name}", OTHER, now=now)
    begin(db, arrive(db, "running, old", now=10))
    assert run(db, inbox.prune, 10) == 0
    assert run(db, inbox.prune, 20) == 2
    assert set(states(db)) == {
        "done, young",
        "cancelled, young",
        "waiting, old",
        "waiting, young",
        "running, old",
    }
    assert run(db, inbox.accept, replace(ARRIVAL, external_id="done, old"), 30).duplicate is False


def test_prune_looks_at_the_oldest_rows_only(db: sqlite3.Connection) -> None:
    for number in range(3):
        run(db, inbox.insert, replace(ARRIVAL, external_id=str(number)), InboxState.CANCELLED, 10)
    assert run(db, inbox.prune, 20, 2) == 2
    assert run(db, inbox.prune, 20, 2) == 1


@given(
    address=st.builds(
        Address,
        channel=st.text(st.characters(codec="utf-8")),
        account=st.text(st.characters(codec="utf-8")),
        chat=st.text(st.characters(codec="utf-8")),
        thread=st.none() | st.text(st.characters(codec="utf-8")),
        reply_to=st.none() | st.text(st.characters(codec="utf-8")),
    )
)
def test_addresses_come_back_as_they_were(address: Address) -> None:
    assert inbox.decode_address(inbox.encode_address(address)) == address


# Thoughts

SECOND = 1_000_000


@pytest.mark.req("P49")
def test_an_open_message_is_joined_by_what_follows(db: sqlite3.Connection) -> None:
    first = arrive(db, "1", person=None, open_until=1 * SECOND, now=0)
    second = arrive(db, "2", open_until=2 * SECOND, now=SECOND - 1)
    third = arrive(db, "3", now=2 * SECOND - 1)
    fourth = arrive(db, "4", now=2 * SECOND - 1)
    assert [item.thought for item in (first, second, third, fourth)] == [None, first.id, first.id, None]


@pytest.mark.parametrize(
    ("more", "now"),
    [
        ({}, SECOND),
        ({"address": make_address("2")}, 0),
        ({"address": make_address(thread="4")}, 0),
        ({"key": OTHER}, 0),
        ({"person": 2}, 0),
    ],
    ids=["too late", "another chat", "another thread", "another conversation", "another person"],
)
def test_a_thought_is_of_one_person_in_one_place_at_one_time(
    db: sqlite3.Connection, more: dict[str, Any], now: int
) -> None:
    for user in ("7", "8"):
        run(db, people.meet, "telegram", user, "", 1)
    arrive(db, "1", person=1, open_until=SECOND, now=0)
    assert arrive(db, "2", now=now, **{"person": 1, **more}).thought is None


def test_a_thought_that_has_begun_takes_no_more(db: sqlite3.Connection) -> None:
    begin(db, arrive(db, "1", open_until=SECOND, now=0))
    assert arrive(db, "2", now=1).thought is None


def test_whoever_speaks_in_between_ends_a_thought(db: sqlite3.Connection) -> None:
    run(db, people.meet, "telegram", "8", "", 1)
    arrive(db, "1", open_until=SECOND, now=0)
    arrive(db, "2", person=1, now=1)
    assert arrive(db, "3", now=2).thought is None


# Corrections


@pytest.mark.req("P50")
def test_a_message_that_waits_can_be_changed(db: sqlite3.Connection) -> None:
    one, two = (arrive(db, name, address=make_address(reply_to=name)) for name in ("1", "2"))
    assert run(db, inbox.change, KEY, one.address, "corrected \ud83d") is True
    assert [item.text for item in inbox.waiting(db, KEY)] == ["corrected \ufffd", "2"]
    assert run(db, inbox.change, KEY, two.address, "2") is False, "nothing was changed"
    assert run(db, inbox.change, KEY, make_address(reply_to="3"), "x") is False
    assert run(db, inbox.change, OTHER, one.address, "x") is False
    begin(db, one)
    assert run(db, inbox.change, KEY, one.address, "too late") is False
    assert [item.text for item in inbox.waiting(db, KEY)] == ["2"]


@pytest.mark.req("S001-22")
def test_a_message_that_waits_can_be_taken_back(db: sqlite3.Connection) -> None:
    one, two = arrive(db, "1", sender_name="Ada", about=About(user="7")), arrive(db, "2")
    gone = run(db, inbox.cancel, "telegram", "1")
    assert gone is not None
    assert (gone.id, gone.state, gone.text, gone.sender_name, gone.about) == (
        one.id,
        InboxState.CANCELLED,
        "",
        "",
        About(),
    )
    assert run(db, inbox.cancel, "telegram", "1") is None
    assert run(db, inbox.cancel, "discord", "2") is None
    begin(db, two)
    assert run(db, inbox.cancel, "telegram", "2") is None
    assert states(db) == {"1": "cancelled", "2": "running"}
    assert run(db, inbox.accept, replace(ARRIVAL, external_id="1"), 30).duplicate is True, "it does not come again"


@pytest.mark.req("P16")
def test_what_waits_follows_its_group(db: sqlite3.Connection) -> None:
    group, thread = make_key(peer="-5"), make_key(peer="-5/7")
    member, like, dm = make_key(peer="-5@p"), make_key(peer="-55"), make_key(peer="-5", kind=PeerKind.DM)
    for number, key in enumerate((group, thread, member, like, dm)):
        arrive(db, str(number), key)
    run(db, inbox.move_chat, "telegram", "main", "-5", "-1005")
    assert [item.key.peer_id for item in inbox.all_waiting(db)] == ["-1005", "-1005/7", "-1005@p", "-55", "-5"]
