"""Commands in one session over HTTP, and strangers who wait to be let in."""

from __future__ import annotations

import pytest

from routing.keys import PeerKind
from routing.messages import Address, Inbound, Sender
from store import people
from tests.fakes.api import Client, Live


async def make(client: Client) -> str:
    return str((await client.post("/api/sessions", expect=201))["id"])


async def test_a_command_is_answered_and_leaves_no_turn(client: Client) -> None:
    session = await make(client)
    answer = await client.post(f"/api/sessions/{session}/command", {"text": "/status"})
    assert answer == {
        "text": "Agent main, 0 messages in this conversation, 0 waiting. Nothing is running.",
        "file": None,
    }
    assert await client.get(f"/api/sessions/{session}/turns") == []
    unknown = await client.post(f"/api/sessions/{session}/command", {"text": "/sttatus now"})
    assert unknown["text"] == "There is no command /sttatus. Did you mean /status? /help lists them all."


@pytest.mark.parametrize(("text", "status"), [("hello", 400), ("/etc/passwd", 400), ("", 400)])
async def test_what_is_no_command(client: Client, text: str, status: int) -> None:
    session = await make(client)
    assert (await client.ask("POST", f"/api/sessions/{session}/command", json={"text": text})).status == status


async def test_a_session_that_is_over_or_not_there(client: Client) -> None:
    session = await make(client)
    await client.ask("DELETE", f"/api/sessions/{session}")
    assert (await client.ask("POST", f"/api/sessions/{session}/command", json={"text": "/status"})).status == 409
    assert (await client.ask("POST", "/api/sessions/nothing/command", json={"text": "/status"})).status == 404


async def test_a_stranger_is_let_in_and_put_out(live: Live, client: Client) -> None:
    message = Inbound(
        external_id="1:1",
        address=Address(channel="memory", account="main", chat="77"),
        peer_kind=PeerKind.DM,
        sender=Sender(id="77", name="Eve"),
        text="let me in",
    )
    await live.running.intake.take(message)
    [waiting] = (await client.get("/api/admin/pairings"))["pairings"]
    assert (waiting["channel"], waiting["sender"], waiting["name"], waiting["text"]) == (
        "memory",
        "77",
        "Eve",
        "let me in",
    )
    done = await client.post(f"/api/admin/pairings/{waiting['code'].lower()}/approve")
    assert done["code"] == waiting["code"]
    assert (await client.ask("POST", f"/api/admin/pairings/{waiting['code']}/approve")).status == 404
    person = await live.running.store.read(lambda db: people.find(db, "memory", "77"))
    assert person is not None
    assert person.known
    revoked = await client.post("/api/admin/people/memory:77/revoke")
    assert revoked == {"person": person.public_id, "name": "Eve", "known": False}


async def test_the_owner_is_not_put_out(live: Live, client: Client) -> None:
    owner = await live.running.store.read(people.owner)
    assert owner is not None
    assert (await client.ask("POST", f"/api/admin/people/{owner.public_id}/revoke")).status == 409
