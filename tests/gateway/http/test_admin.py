"""For operators: health, explanations, parked deliveries, refusals; and the door of the web channel."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from channels.base import Host
from channels.memory import Fault, MemoryChannel
from routing.keys import PeerKind
from routing.messages import Address, Addressed, Inbound, Sender
from store.database import Database
from tests.fakes.api import PATIENCE, Client, Live, configure, connected, eventually, started, texts

OWNER = "main:*:*:dm:main"


class Falling(MemoryChannel):
    """A channel whose library raises what it should not say, until the test lets it live."""

    fell = 0

    async def run(self, host: Host) -> None:
        if not self.go_on.is_set():
            type(self).fell += 1
            raise RuntimeError("the token `123:SECRET` was rejected by the server")
        await super().run(host)


@pytest.fixture
async def chatty(tmp_path: Path) -> AsyncIterator[tuple[Live, Client, MemoryChannel]]:
    """A channel with an open account, and a group in which the bot answers."""
    account = {"dm": "open", "groups": ["77"], "streaming": False}
    config = configure(tmp_path, memory={"m": account}, web={"main": {}, "shut": {"dm": "off"}})
    async with started(config) as live, connected(live) as client:
        channel = live.running.channels["memory", "m"]
        assert isinstance(channel, MemoryChannel)
        await channel.started.wait()
        yield live, client, channel


def written(text: str, number: int = 1, **more: Any) -> Inbound:
    address = Address(channel="memory", account="m", chat=more.pop("chat", "5"))
    facts = {"peer_kind": PeerKind.DM, "sender": Sender(id="5"), **more}
    return Inbound(external_id=f"m/{number}", address=address, text=text, **facts)


def counts(db: Database) -> dict[str, int]:
    tables = ("people", "identities", "sessions", "inbox", "outbox", "refusals", "messages", "turns")
    return {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}


# Health


@pytest.mark.req("CARD-27")
async def test_health(client: Client) -> None:
    assert await client.get("/healthz") == {"status": "ok"}
    body = await client.get("/readyz")
    assert body["status"] == "ready"
    assert {"store", "channel web.main", "intake"} <= body["components"].keys()
    assert all(component == {"ok": True, "detail": ""} for component in body["components"].values())


@pytest.mark.req("CARD-27")
async def test_a_fallen_channel_is_seen_and_tells_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    channel = Falling("f")
    async with started(configure(tmp_path), channels=[channel]) as live, connected(live) as client:
        answer = await eventually(lambda: client.ask("GET", "/readyz"), lambda answer: answer.status != 200)
        assert answer.status == 503
        assert answer.json["status"] == "not_ready"
        assert answer.json["components"]["channel memory.f"] == {"ok": False, "detail": "RuntimeError, see the log"}
        assert answer.json["components"]["channel web.main"]["ok"] is True
        assert "SECRET" not in "".join(answer.text for answer in client.seen)
        [failed] = [record for record in caplog.records if record.getMessage() == "channel_failed"]
        assert failed.exc_info is not None
        # The rest serves, and the channel comes back by itself.
        session = await client.create()
        await client.say(session, "hello")
        await live.ended(session)
        channel.go_on.set()
        async with asyncio.timeout(PATIENCE):
            await channel.started.wait()
        assert (await client.get("/readyz"))["status"] == "ready"


# Explanations


@pytest.mark.req("CARD-27")
async def test_explain(chatty: tuple[Live, Client, MemoryChannel]) -> None:
    live, client, _ = chatty
    before = await live.running.store.read(counts)
    asked = {"channel": "memory", "account": "m", "chat": "5", "sender": "5"}

    async def explained(**more: Any) -> dict[str, Any]:
        return dict(await client.post("/api/admin/explain", {**asked, **more}))

    allowed = await explained()
    assert (allowed["allowed"], allowed["agent"], allowed["matchedBy"]) == (True, "main", "default")
    assert (allowed["rule"], allowed["reason"], allowed["explanation"]) == ("dm=open", None, None)
    assert allowed["key"].startswith("main:*:*:dm:")
    assert allowed["person"] is None
    refused = await explained(peerKind="group", chat="78")
    assert (refused["allowed"], refused["reason"]) == (False, "group_not_listed")
    assert refused["explanation"] == "the group is not in `groups`"
    assert (await explained(peerKind="group", chat="77"))["allowed"] is True
    assert (await explained(peerKind="group", chat="77", addressed="not"))["reason"] == "not_addressed"
    assert (await explained(bot=True))["reason"] == "bot"
    assert (await explained(text=" "))["reason"] == "empty"
    assert (await explained(channel="web", account="shut"))["reason"] == "dm_off"
    owner = await explained(channel="web", account="main", chat="owner", sender="owner")
    assert owner["key"] == OWNER
    assert owner["person"] is not None
    error = await client.refused(404, "POST", "/api/admin/explain", json={**asked, "account": "other"})
    assert error["code"] == "unknown_account"
    assert "[memory.m]" in error["message"]
    assert await live.running.store.read(counts) == before


# Deliveries


@pytest.mark.req("CARD-27")
async def test_a_parked_delivery_is_shown_and_sent_again(chatty: tuple[Live, Client, MemoryChannel]) -> None:
    live, client, channel = chatty
    assert await client.get("/api/admin/outbox") == {"parked": []}
    channel.faults.append(Fault.REFUSE)
    await channel.receive(written("hello"))
    found = await eventually(lambda: client.get("/api/admin/outbox"), lambda found: bool(found["parked"]))
    [parked] = found["parked"]
    assert (parked["state"], parked["kind"], parked["text"]) == ("parked", "final", "You said: hello")
    assert (parked["channel"], parked["account"], parked["chat"], parked["thread"]) == ("memory", "m", "5", None)
    assert parked["error"] == "refused"
    assert channel.shown == []
    channel.called.clear()
    sent = await client.post(f"/api/admin/outbox/{parked['id']}/resend")
    assert (sent["id"], sent["state"]) == (parked["id"], "ready")
    async with asyncio.timeout(PATIENCE):
        await channel.called.wait()
    assert [shown.text for shown in channel.shown] == ["You said: hello"]
    assert await client.get("/api/admin/outbox") == {"parked": []}
    # It is parked no more, so it cannot be sent a third time.
    error = await client.refused(404, "POST", f"/api/admin/outbox/{parked['id']}/resend")
    assert (error["code"], error["message"]) == ("unknown_delivery", f"There is no parked delivery {parked['id']}.")


@pytest.mark.parametrize("number", ["1", "0", "999999999999999"])
async def test_an_unknown_delivery(client: Client, number: str) -> None:
    error = await client.refused(404, "POST", f"/api/admin/outbox/{number}/resend")
    assert error["code"] == "unknown_delivery"


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 16, "٣"])
async def test_a_delivery_has_a_number(client: Client, number: str) -> None:
    assert (await client.refused(404, "POST", f"/api/admin/outbox/{number}/resend"))["code"] == "not_found"


# Refusals


@pytest.mark.req("CARD-27")
async def test_refusals_are_listed_newest_first(chatty: tuple[Live, Client, MemoryChannel]) -> None:
    _, client, channel = chatty
    assert await client.get("/api/admin/refusals") == {"refusals": []}
    group = {"peer_kind": PeerKind.GROUP, "addressed": Addressed.MENTION}
    await channel.receive(written("let me in", 1, chat="78", **group))
    await channel.receive(written("I am a bot", 2, sender=Sender(id="6", is_bot=True)))
    newest, oldest = (await client.get("/api/admin/refusals"))["refusals"]
    assert (oldest["reason"], oldest["channel"], oldest["account"], oldest["chat"], oldest["sender"]) == (
        "group_not_listed",
        "memory",
        "m",
        "78",
        "5",
    )
    assert (newest["reason"], newest["sender"]) == ("bot", "6")
    assert newest["at"] > oldest["at"]
    assert "let me in" not in "".join(answer.text for answer in client.seen)


# The web channel


async def test_a_message_on_the_page_is_answered_in_the_owners_session(live: Live, client: Client) -> None:
    body = {"text": "hello", "id": "1"}
    first = await client.post("/api/web/main/messages", body, expect=202)
    assert first == {"messageId": first["messageId"], "key": OWNER, "duplicate": False}
    again = await client.post("/api/web/main/messages", body, expect=202)
    assert again == {**first, "duplicate": True}
    found = await eventually(lambda: client.get("/api/sessions", key=OWNER), lambda found: bool(found["total"]))
    [session] = found["sessions"]
    await live.ended(session["id"])
    messages = await client.messages(session["id"])
    assert texts(messages) == ["hello", "You said: hello"]
    assert messages[0]["id"] == first["messageId"]
    assert messages[0]["metadata"]["sender"]["name"] == "owner"


async def test_a_prompt_to_the_owners_session_joins_it(live: Live, client: Client) -> None:
    await client.post("/api/web/main/messages", {"text": "hello", "id": "1"}, expect=202)
    found = await eventually(lambda: client.get("/api/sessions", key=OWNER), lambda found: bool(found["total"]))
    session = found["sessions"][0]["id"]
    await client.say(session, "and more")
    await live.ended(session, 2)
    assert texts(await client.messages(session))[2:] == ["and more", "You said: and more"]


async def test_a_command_on_the_page_takes_effect(tmp_path: Path) -> None:
    config = configure(tmp_path, gateway={"default_agent": "puppet"})
    async with started(config) as live, connected(live) as client:
        await client.post("/api/web/main/messages", {"text": "hello", "id": "1"}, expect=202)
        await live.puppet.asked.get()
        await client.post("/api/web/main/messages", {"text": "wait for me", "id": "2"}, expect=202)
        [session] = (await client.get("/api/sessions"))["sessions"]
        answer = await client.post("/api/web/main/messages", {"text": "/new", "id": "3"}, expect=202)
        assert answer == {"messageId": None, "key": None, "duplicate": False}
        assert (await client.get(f"/api/sessions/{session['id']}"))["status"] == "completed"
        # What waited is for the new session, and is shown there alone.
        assert (await live.puppet.asked.get()).text == "wait for me"
        live.puppet.answer("here I am")
        new, old = (await client.get("/api/sessions", key="puppet:*:*:dm:main"))["sessions"]
        assert old["id"] == session["id"]
        await live.ended(new["id"])
        assert "wait for me" not in texts(await client.messages(old["id"]))
        assert texts(await client.messages(new["id"])) == ["wait for me", "here I am"]


async def test_what_waits_is_not_shown_in_a_session_that_has_ended(tmp_path: Path) -> None:
    agents = {"puppet": {"kind": "builtin", "max_turns": 1}}
    config = configure(tmp_path, agents=agents, gateway={"default_agent": "puppet"})
    async with started(config) as live, connected(live) as client:
        await client.post("/api/web/main/messages", {"text": "hello", "id": "1"}, expect=202)
        await live.puppet.asked.get()
        live.puppet.answer("hi")
        [session] = (await client.get("/api/sessions"))["sessions"]
        await live.ended(session["id"])
        # The agent has its only turn elsewhere, so that what comes now has to wait.
        busy = await client.create("puppet")
        await client.say(busy, "keep busy")
        await live.puppet.asked.get()
        await client.post("/api/web/main/messages", {"text": "wait for me", "id": "2"}, expect=202)
        assert texts(await client.messages(session["id"])) == ["hello", "hi", "wait for me"]
        await client.post("/api/web/main/messages", {"text": "/new", "id": "3"}, expect=202)
        assert texts(await client.messages(session["id"])) == ["hello", "hi"]
        live.puppet.answer("free")
        assert (await live.puppet.asked.get()).text == "wait for me"


async def test_a_message_that_is_not_taken_says_why(chatty: tuple[Live, Client, MemoryChannel]) -> None:
    live, client, _ = chatty
    body = {"text": "hello", "id": "1"}
    error = await client.refused(403, "POST", "/api/web/shut/messages", json=body)
    assert (error["code"], error["message"]) == (
        "dm_off",
        "Not taken: direct messages are switched off for this account.",
    )
    [refusal] = (await client.get("/api/admin/refusals"))["refusals"]
    assert (refusal["reason"], refusal["account"]) == ("dm_off", "shut")
    before = await live.running.store.read(counts)
    for account in ("other", "m", "%00", "🎉"):
        error = await client.refused(404, "POST", f"/api/web/{account}/messages", json=body)
        assert error["code"] == "unknown_account"
        assert "Configured: [web.main], [web.shut]." in error["message"]
    assert await live.running.store.read(counts) == before


async def test_a_full_lane_says_so_on_the_page_too(tmp_path: Path) -> None:
    agents = {"puppet": {"kind": "builtin", "max_waiting": 1}}
    config = configure(tmp_path, agents=agents, gateway={"default_agent": "puppet"})
    async with started(config) as live, connected(live) as client:
        await client.post("/api/web/main/messages", {"text": "1", "id": "1"}, expect=202)
        await live.puppet.asked.get()
        await client.post("/api/web/main/messages", {"text": "2", "id": "2"}, expect=202)
        answer = await client.ask("POST", "/api/web/main/messages", json={"text": "3", "id": "3"})
        assert (answer.status, answer.error["code"]) == (429, "lane_full")
        assert int(answer.headers["Retry-After"]) > 0
        # Commands do not queue.
        await client.post("/api/web/main/messages", {"text": "/stop", "id": "4"}, expect=202)
        assert (await live.puppet.asked.get()).text == "2"
