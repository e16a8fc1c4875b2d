"""Pairings: a code is good for one hour and one use; one per sender, three per account, the oldest gives way."""

import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import UnknownPairing
from routing.keys import PeerKind
from routing.messages import Address, Addressed, Attachment, AttachmentKind, Inbound, Quote, Sender
from store import pairings
from store.pairings import VALID
from tests.store.rows import count, fresh, run

HOUR = 3600 * 1_000_000


def knock(sender: str, *, account: str = "main", text: str = "let me in") -> Inbound:
    return Inbound(
        external_id=f"{account}:{sender}",
        address=Address(channel="telegram", account=account, chat=sender, reply_to="5"),
        peer_kind=PeerKind.DM,
        sender=Sender(id=sender, name=f"Person {sender}"),
        text=text,
    )


def codes(db: sqlite3.Connection, now: int = 10) -> list[str]:
    return [one.code for one in pairings.waiting(db, now)]


def test_the_whole_message_waits(db: sqlite3.Connection) -> None:
    message = Inbound(
        external_id="x\ud83d",
        address=Address(channel="telegram", account="main", chat="1", thread="2", reply_to="3"),
        peer_kind=PeerKind.DM,
        sender=Sender(id="1", name="A\nda 😀", is_bot=True),
        text="hello",
        guild="4",
        roles=frozenset({"5", "6"}),
        addressed=Addressed.MENTION,
        attachments=(Attachment(kind=AttachmentKind.AUDIO, ref="r", name="../n", mime="m", size=None),),
        quote=Quote(text="q", sender=Sender(id="7", name="Eve")),
        forwarded_from="somebody",
        open=True,
        seen=("1", "99"),
        former_chats=frozenset({"8"}),
    )
    asked = run(db, pairings.ask, message, "AAAA2222", 10)
    assert asked is not None
    assert (asked.code, asked.sender, asked.name) == ("AAAA2222", "1", "A\nda 😀")
    assert (asked.created_at, asked.expires_at) == (10, 10 + HOUR)
    taken = run(db, pairings.take, "AAAA2222", 11)
    assert taken == asked
    assert taken.message == replace(message, external_id="x\ufffd")


def test_a_message_without_a_quote_waits_too(db: sqlite3.Connection) -> None:
    run(db, pairings.ask, knock("1"), "AAAA2222", 10)
    assert run(db, pairings.take, "AAAA2222", 11).message == knock("1")


def test_a_code_is_good_for_an_hour_and_for_one_use(db: sqlite3.Connection) -> None:
    assert VALID == HOUR
    run(db, pairings.ask, knock("1"), "AAAA2222", 10)
    run(db, pairings.ask, knock("2"), "BBBB2222", 11)
    assert run(db, pairings.take, " aaaa2222\n", 9 + HOUR).sender == "1"
    for code, now in (("AAAA2222", 9 + HOUR), ("BBBB2222", 11 + HOUR), ("", 11), ("CCCC2222", 11)):
        with pytest.raises(UnknownPairing):
            run(db, pairings.take, code, now)
    assert codes(db, 10 + HOUR) == ["BBBB2222"], "a refused code that was still good stays"
    assert codes(db, 11 + HOUR) == []
    assert run(db, pairings.expire, 11 + HOUR) == 1
    assert count(db, "pairings") == 0


def test_one_per_sender_until_it_is_over(db: sqlite3.Connection) -> None:
    run(db, pairings.ask, knock("1", text="first"), "AAAA2222", 10)
    assert run(db, pairings.ask, knock("1", text="second"), "BBBB2222", 9 + HOUR) is None
    assert codes(db) == ["AAAA2222"]
    again = run(db, pairings.ask, knock("1", text="third"), "CCCC2222", 10 + HOUR)
    assert again is not None
    assert (again.code, again.message.text) == ("CCCC2222", "third")


def test_at_most_three_per_account_and_the_oldest_gives_way(db: sqlite3.Connection) -> None:
    run(db, pairings.ask, knock("9", account="other"), "OTHER222", 5)
    for number in range(5):
        run(db, pairings.ask, knock(str(number)), f"CODE{number}", 10 + number)
    assert codes(db) == ["CODE4", "CODE3", "CODE2", "OTHER222"]
    assert run(db, pairings.ask, knock("0"), "AGAIN", 20) is not None, "who gave way may ask again"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["one", "two"]), st.integers(0, HOUR)), max_size=30)
)
def test_whatever_comes_the_limits_hold(events: list[tuple[str, str, int]]) -> None:
    with fresh() as db:
        now = 0
        model: dict[tuple[str, str], tuple[str, int]] = {}
        for number, (sender, account, pause) in enumerate(events):
            now += pause
            model = {who: given for who, given in model.items() if now < given[1] + HOUR}
            asked = run(db, pairings.ask, knock(sender, account=account), f"C{number}", now)
            assert (asked is None) == ((account, sender) in model)
            model.setdefault((account, sender), (f"C{number}", now))
            mine = [who for who in model if who[0] == account]
            for who in mine[:-3]:
                del model[who]
            assert set(codes(db, now)) == {code for code, _ in model.values()}
