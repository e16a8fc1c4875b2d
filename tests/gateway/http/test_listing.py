"""The list over HTTP: every filter, both orders, pages by number and by cursor."""

import uuid

import pytest

from routing.keys import PeerKind, SessionKey
from routing.messages import Address, Inbound, Sender
from store import people, sessions
from store.database import Database
from tests.fakes.api import Client, Live, eventually


async def ids(client: Client, **query: str | int) -> list[str]:
    page = await client.get("/api/sessions", **query)
    assert page["total"] == len(page["sessions"])
    return [row["id"] for row in page["sessions"]]


async def walk(client: Client, **query: str | int) -> list[str]:
    found: list[str] = []
    page = await client.get("/api/sessions", **query)
    while True:
        found += [row["id"] for row in page["sessions"]]
        if page["nextCursor"] is None:
            return found
        page = await client.get("/api/sessions", **query, cursor=page["nextCursor"])


@pytest.mark.req("S000-26", "S000-29", "S000-52")
async def test_the_cursor_walks_what_the_offset_counts(client: Client) -> None:
    made = [await client.create() for _ in range(25)]
    first = await client.get("/api/sessions")
    assert (len(first["sessions"]), first["total"], first["limit"], first["offset"]) == (20, 25, 20, 0)
    for limit in (1, 7, 25, 100):
        assert await walk(client, limit=limit) == made[::-1]
    last = await client.get("/api/sessions", limit=25)
    assert last["nextCursor"] is None
    by_offset = await client.get("/api/sessions", limit=10, offset=5)
    following = await client.get("/api/sessions", limit=10, cursor=by_offset["nextCursor"])
    assert [row["id"] for row in following["sessions"]] == made[::-1][15:25]
    assert following["total"] == 25
    assert (await client.get("/api/sessions", limit=0))["nextCursor"] is None


async def test_sorted_by_activity(live: Live, client: Client) -> None:
    one, two, three = [await client.create() for _ in range(3)]
    await client.say(one, "hello")
    await live.ended(one)
    assert await ids(client) == [three, two, one]
    for sort in ("updated", "activity"):
        assert await ids(client, sort=sort) == [one, three, two]
        assert await walk(client, sort=sort, limit=1) == [one, three, two]


@pytest.mark.req("S000-32", "S000-33", "S000-51", "S001-02")
async def test_filters(live: Live, client: Client) -> None:
    def fill(db: Database) -> list[str]:
        ada = people.meet(db, "telegram", "1", "Ada", 1)
        keys = ["main:telegram:bot:group:-1", "puppet:telegram:other:channel:-2", f"main:*:*:dm:{ada.public_id}"]
        rows = [
            sessions.create(db, SessionKey.parse(key), 1_000_000 * at, person=ada.id if at == 3 else None)
            for at, key in enumerate(keys, 1)
        ]
        db.execute("INSERT INTO participants VALUES (?, ?, 'discord', 'bot')", (rows[2].id, ada.id))
        db.execute("INSERT INTO participants VALUES (?, ?, 'telegram', 'bot')", (rows[0].id, ada.id))
        return [row.public_id for row in rows] + [ada.public_id]

    group, channel, direct, ada = await live.running.store.write(fill)
    assert await ids(client) == [direct, channel, group]
    assert await ids(client, agent="puppet") == [channel]
    assert await ids(client, channel="telegram") == [channel, group]
    assert await ids(client, channel="discord") == [direct]
    assert await ids(client, account="bot") == [direct, group]
    assert await ids(client, channel="telegram", account="other") == [channel]
    assert await ids(client, peerKind="dm") == [direct]
    assert await ids(client, person=ada) == [direct, group]
    assert await ids(client, person="nobody") == []
    assert await ids(client, key="main:telegram:bot:group:-1") == [group]
    assert await ids(client, createdAfter="1970-01-01T00:00:01Z") == [direct, channel]
    assert await ids(client, createdBefore="1970-01-01T00:00:02+00:00") == [group]
    assert await ids(client, updatedAfter="1970-01-01T00:00:02Z", updatedBefore="1970-01-01T01:00:00Z") == [direct]
    assert await ids(client, status="active,idle", agent="main", peerKind="group", person=ada) == [group]
    assert await ids(client, repoId=str(uuid.uuid4())) == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"status": "busy"}, "`status` takes active"),
        ({"peerKind": "cat"}, "`peerKind` takes dm, group, channel"),
        ({"peerKind": "dm,group"}, "takes one value"),
        ({"createdAfter": "yesterday"}, "`createdAfter` is a time such as"),
        ({"updatedBefore": "2026-13-01"}, "`updatedBefore` is a time"),
        ({"sort": "size"}, "`sort` is created or updated"),
        ({"limit": "501"}, "`limit`"),
        ({"limit": "-1"}, "`limit`"),
        ({"cursor": "x"}, "`cursor` is the `nextCursor`"),
        ({"cursor": "WyJjcmVhdGVkIiwgMSwgMV0", "offset": "1"}, "not by both"),
        ({"cursor": "WyJjcmVhdGVkIiwgMSwgMV0", "sort": "updated"}, "belongs to a list with sort=created"),
    ],
)
async def test_what_is_no_filter_is_refused(client: Client, query: dict[str, str], words: str) -> None:
    error = await client.refused(400, "GET", "/api/sessions", params=query)
    assert words in error["message"]


@pytest.mark.req("S000-27", "S000-28")
async def test_an_item_carries_no_history(live: Live, client: Client) -> None:
    session = await client.create()
    await client.say(session, "hello")
    await live.ended(session)
    [item] = (await client.get("/api/sessions"))["sessions"]
    assert {"id", "repoId", "status", "createdAt", "updatedAt"} <= item.keys()
    assert not {"messages", "turns"} & item.keys()


async def test_a_direct_conversation_is_found_by_the_channel_it_came_from(live: Live, client: Client) -> None:
    message = Inbound(
        external_id="1",
        address=Address(channel="web", account="main", chat="owner"),
        peer_kind=PeerKind.DM,
        sender=Sender(id="owner"),
        text="hello",
    )
    await live.running.api.receive(message)
    page = await eventually(lambda: client.get("/api/sessions"), lambda page: page["total"] == 1)
    [session] = page["sessions"]
    assert session["channel"] == "*"
    assert await ids(client, channel="web", account="main") == [session["id"]]
    assert await ids(client, channel="api") == []
