"""`trunkline pair`: who waits is listed, let in, kept out, and put out again."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from routing.keys import PeerKind
from routing.messages import Address, Inbound, Sender
from store import pairings, people
from store.ids import now
from tests.gateway.cli.conftest import Place


def knock(place: Place, user: str, code: str) -> None:
    """A stranger wrote to a bot of this daemon, which is down."""
    place("sessions", "list")  # makes the database
    message = Inbound(
        external_id=f"9:{user}",
        address=Address(channel="memory", account="main", chat=user),
        peer_kind=PeerKind.DM,
        sender=Sender(id=user, name="Eve\nadmin"),
        text="let me in",
    )
    with closing(sqlite3.connect(place.data / "trunkline.db")) as db, db:
        pairings.ask(db, message, code, now())


def test_nobody_waits(place: Place) -> None:
    assert place("pair", "list").out == "Nobody waits to be let in.\n"
    assert place("pair", "list", "--json").json == {"pairings": []}


def test_let_in_and_put_out(place: Place) -> None:
    knock(place, "77", "ABCD2345")
    listed = place("pair", "list")
    assert "ABCD2345  memory:77  Eve admin  let me in" in listed.out
    done = place("pair", "approve", "abcd2345")
    assert done.out == "Eve admin (memory:77) is let in, and what they wrote is answered.\n"
    assert "no open pairing" in place("pair", "approve", "ABCD2345", expect=1).sentence
    assert _known(place) is True
    assert place("pair", "revoke", "memory:77").out == "Eve admin has to be let in again.\n"
    assert _known(place) is False


def test_kept_out(place: Place) -> None:
    knock(place, "78", "WXYZ2345")
    assert place("pair", "refuse", "WXYZ2345").out == "Eve admin (memory:78) is not let in.\n"
    assert place("pair", "list").out == "Nobody waits to be let in.\n"


@pytest.mark.parametrize("person", ["nobody", "memory:1"])
def test_nobody_of_that_name(place: Place, person: str) -> None:
    assert place("pair", "revoke", person, expect=1).sentence == f"There is no person {person}."


def _known(place: Place) -> bool:
    with closing(sqlite3.connect(place.data / "trunkline.db")) as db:
        found = people.find(db, "memory", "77")
    assert found is not None
    return found.known
