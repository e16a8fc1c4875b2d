"""Refusals: kept with their reason, the newest first, never more than a bound."""

import sqlite3

from routing.access import Reason
from routing.keys import PeerKind
from routing.messages import Address, Inbound, Sender
from store import refusals
from store.refusals import KEPT, Refusal
from tests.store.rows import count, run


def message(sender: str = "7", **address: str) -> Inbound:
    where = {"channel": "telegram", "account": "main", "chat": "1", **address}
    return Inbound(
        external_id="x", address=Address(**where), peer_kind=PeerKind.GROUP, sender=Sender(id=sender), text="secret"
    )


def test_recorded_as_it_was(db: sqlite3.Connection) -> None:
    run(db, refusals.record, message("007", thread="4", reply_to="9"), Reason.BOT, 5)
    assert refusals.newest(db) == [
        Refusal(
            channel="telegram",
            account="main",
            chat="1",
            thread="4",
            sender="7",
            message_id="9",
            reason="bot",
            at=5,
        )
    ]


def test_the_text_is_not_kept(db: sqlite3.Connection) -> None:
    run(db, refusals.record, message(), Reason.STRANGER, 5)
    (row,) = db.execute("SELECT * FROM refusals").fetchall()
    assert "secret" not in row


def test_half_characters_are_replaced(db: sqlite3.Connection) -> None:
    run(db, refusals.record, message("x\ud83d"), Reason.STRANGER, 5)
    assert refusals.newest(db)[0].sender == "x\ufffd"


def test_newest_first(db: sqlite3.Connection) -> None:
    for sender in ("1", "2", "3"):
        run(db, refusals.record, message(sender), Reason.BOT, 5)
    assert [one.sender for one in refusals.newest(db)] == ["3", "2", "1"]
    assert [one.sender for one in refusals.newest(db, limit=2)] == ["3", "2"]


def test_a_flood_is_bounded(db: sqlite3.Connection) -> None:
    for number in range(KEPT + 20):
        refusals.record(db, message(str(number)), Reason.BOT, number)
    assert count(db, "refusals") == KEPT
    kept = refusals.newest(db, limit=KEPT + 20)
    assert [one.at for one in kept] == list(range(KEPT + 19, 19, -1))
