"""Operations over HTTP: export, import, removal, moves, backup, forgetting, search, usage, people, status."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.http import operations
from gateway.version import __version__
from routing.keys import SessionKey
from store import people, sessions, turns
from store.database import NAME, Database
from store.schema import STEPS
from tests.fakes.api import PATIENCE, Client, Live, configure, connected, started


async def talked(live: Live, client: Client, *texts: str, agent: str = "main") -> str:
    session = await client.create(agent)
    for number, text in enumerate(texts, 1):
        await client.say(session, text)
        await live.ended(session, number)
    return session


# Export and import


async def export(client: Client, session: str) -> str:
    answer = await client.ask("GET", f"/api/admin/sessions/{session}/export")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/x-ndjson; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="session-{session}.jsonl"'
    return answer.text


async def test_a_session_goes_out_and_comes_back(live: Live, client: Client) -> None:
    session = await talked(live, client, "hello", "Grüße 😀")
    whole = await client.get(f"/api/sessions/{session}")
    lines = await export(client, session)
    assert [json.loads(line)["type"] for line in lines.splitlines()].count("message") == 4
    gone = await client.ask("DELETE", f"/api/admin/sessions/{session}")
    assert gone.json == {"id": session, "removed": {"messages": 4, "turns": 2, "compactions": 0}}
    back = await client.ask("POST", "/api/admin/sessions/import", data=lines.encode())
    assert back.status == 201
    assert back.json["id"] == session
    assert await client.get(f"/api/sessions/{session}") == whole
    assert await export(client, session) == lines
    await client.say(session, "and on")
    await live.ended(session, 3)


async def test_importing_twice(live: Live, client: Client) -> None:
    session = await talked(live, client, "hello")
    lines = (await export(client, session)).encode()
    error = await client.refused(409, "POST", "/api/admin/sessions/import", data=lines)
    assert error["code"] == "session_exists"
    copy = await client.ask("POST", "/api/admin/sessions/import", params={"newIds": "true"}, data=lines)
    assert copy.status == 201
    assert copy.json["id"] != session
    assert (copy.json["status"], copy.json["messageCount"]) == ("archived", 2)
    assert (await client.get("/api/sessions"))["total"] == 2


async def test_a_body_in_small_pieces_and_one_without_its_last_line_end(live: Live, client: Client) -> None:
    session = await talked(live, client, "x" * 200_000)
    lines = (await export(client, session)).encode().rstrip(b"\n")

    async def pieces() -> Any:
        for at in range(0, len(lines), 5_003):
            yield lines[at : at + 5_003]

    answer = await client.ask("POST", "/api/admin/sessions/import", params={"newIds": "1"}, data=pieces())
    assert answer.status == 201, answer


async def test_a_damaged_file_says_which_line(live: Live, client: Client) -> None:
    lines = (await export(client, await talked(live, client, "hello"))).splitlines(keepends=True)
    path = "/api/admin/sessions/import"
    broken = "".join([*lines[:3], '{"type": "turn"\n', *lines[4:]])
    error = await client.refused(400, "POST", path, data=broken.encode())
    assert (error["code"], error["message"]) == ("bad_import", "Line 4: it is not JSON. Nothing was imported.")
    error = await client.refused(400, "POST", path, data="".join(lines[:-1]).encode())
    assert error["message"].startswith(f"Line {len(lines)}: the file ends before")
    error = await client.refused(400, "POST", path, data=b'{"hello": "world"}')
    assert error["message"].startswith("Line 1: this is not an export")
    error = await client.refused(400, "POST", path)
    assert error["message"].startswith("Line 1: there is nothing")
    error = await client.refused(400, "POST", path, params={"newIds": "maybe"}, data=b"")
    assert error["message"] == "`newIds` is true or false, not 'maybe'."
    assert (await client.get("/api/sessions"))["total"] == 1


async def test_what_is_too_large_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "LARGEST_IMPORT", 1000)
    error = await client.refused(413, "POST", "/api/admin/sessions/import", data=b"x" * 2000)
    assert "1000 bytes" in error["message"]

    async def endless() -> Any:
        yield b'{"format": "trunkline-session", "version": 1, "type": "header", "people": 0, "turns": 0,'
        yield b' "messages": 0, "compactions": 0}\n'
        for _ in range(100):
            yield b"y" * 50

    answer = await client.ask("POST", "/api/admin/sessions/import", data=endless())
    assert answer.status == 413


async def test_exporting_nothing(client: Client) -> None:
    assert (await client.refused(404, "GET", "/api/admin/sessions/nothing/export"))["code"] == "unknown_session"


# Removal


@pytest.mark.req("S001-06", "S001-69")
async def test_removal_is_for_good(live: Live, client: Client) -> None:
    session = await client.create("puppet")
    await client.say(session, "go")
    await live.puppet.asked.get()
    answer = await client.ask("DELETE", f"/api/admin/sessions/{session}")
    assert (answer.status, answer.json["removed"]["messages"]) == (200, 1)
    for path in (f"/api/sessions/{session}", f"/api/sessions/{session}/messages"):
        assert (await client.refused(404, "GET", path))["code"] == "unknown_session"
    assert (await client.refused(404, "DELETE", f"/api/admin/sessions/{session}"))["code"] == "unknown_session"
    assert (await client.get("/api/sessions"))["total"] == 0
    # Its agent is free again.
    other = await client.create("puppet")
    await client.say(other, "next")
    async with asyncio.timeout(PATIENCE):
        assert (await live.puppet.asked.get()).text == "next"


async def test_cancelling_still_only_ends(live: Live, client: Client) -> None:
    session = await talked(live, client, "hello")
    answer = await client.ask("DELETE", f"/api/sessions/{session}")
    assert answer.json["status"] == "cancelled"
    assert len(await client.messages(session)) == 3


# Moves


@pytest.mark.req("S001-62")
async def test_migrate(live: Live, client: Client) -> None:
    one, two = await talked(live, client, "hello"), await client.create()
    busy = await client.create("puppet")
    await client.say(busy, "go")
    await live.puppet.asked.get()
    key = (await client.get(f"/api/sessions/{one}"))["key"]
    plan = await client.post("/api/admin/sessions/migrate", {"to": "puppet", "from": "main", "dryRun": True})
    assert (plan["to"], plan["dryRun"], plan["moved"]) == ("puppet", True, 0)
    rows = {row["id"]: row for row in plan["sessions"]}
    assert rows.keys() == {one, two}
    assert rows[one] == {
        "id": one,
        "fromKey": key,
        "toKey": key.replace("main:", "puppet:", 1),
        "movable": True,
        "moved": False,
        "joins": None,
        "reason": None,
        "explanation": None,
    }
    assert (await client.get(f"/api/sessions/{one}"))["agentId"] == "main"
    done = await client.post("/api/admin/sessions/migrate", {"to": "puppet", "sessions": [one, "nothing", two]})
    assert (done["dryRun"], done["moved"]) == (False, 2)
    assert [(row["moved"], row["reason"]) for row in done["sessions"]] == [
        (True, None),
        (False, "unknown_session"),
        (True, None),
    ]
    moved = await client.get(f"/api/sessions/{one}")
    assert (moved["agentId"], len(moved["messages"])) == ("puppet", 2)
    back = await client.post("/api/admin/sessions/migrate", {"to": "main", "from": "puppet", "sessions": [busy]})
    [row] = back["sessions"]
    assert (row["moved"], row["reason"]) == (False, "turn_running")
    assert "being answered" in row["explanation"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"to": "nobody", "from": "main"}, "There is no agent called 'nobody'. Configured: main, puppet."),
        ({"to": "main"}, "Say which sessions"),
        ({"from": "main"}, "`to` is missing."),
        ({"to": "main", "sessions": "all"}, "`sessions`"),
        ({"to": "main", "from": "puppet", "dryRun": "yes"}, "`dryRun`"),
        ({"to": "main", "source": "puppet"}, "`source` is not known here."),
    ],
)
async def test_a_move_that_makes_no_sense_is_refused(client: Client, body: dict[str, Any], words: str) -> None:
    error = await client.refused(400, "POST", "/api/admin/sessions/migrate", json=body)
    assert words in error["message"]


# Backup


async def test_backup(live: Live, client: Client, tmp_path: Path) -> None:
    await talked(live, client, "hello")
    target = tmp_path / "copy.db"
    made = await client.post("/api/admin/backup", {"path": str(target)}, expect=201)
    assert made == {"path": str(target), "bytes": target.stat().st_size}
    error = await client.refused(409, "POST", "/api/admin/backup", json={"path": str(target)})
    assert error["code"] == "backup_exists"
    for path in ("copy.db", "/nowhere/copy.db", "", "a\0b"):
        error = await client.refused(400, "POST", "/api/admin/backup", json={"path": path})
        assert error["code"] in {"backup_refused", "bad_request"}


async def test_a_backup_that_does_not_fit(tmp_path: Path) -> None:
    config = configure(tmp_path, gateway={"data_dir": "data", "default_agent": "main", "disk_reserve_mb": 10**9})
    async with started(config) as live, connected(live) as client:
        error = await client.refused(507, "POST", "/api/admin/backup", json={"path": str(tmp_path / "copy.db")})
        assert error["code"] == "no_room"


# Forgetting


async def test_forget(live: Live, client: Client) -> None:
    def fill(db: Database) -> str:
        person = people.meet(db, "telegram", "55", "Zq7canary", 1)
        key = SessionKey.parse(f"main:*:*:dm:{person.public_id}")
        sessions.create(db, key, 1, person=person.id)
        return person.public_id

    person = await live.running.store.write(fill)
    answer = await client.post("/api/admin/people/telegram:55/forget")
    assert answer == {
        "person": person,
        "removed": {
            "sessions": 1,
            "messages": 0,
            "turns": 0,
            "summaries": 0,
            "inbox": 0,
            "outbox": 0,
            "refusals": 0,
            "identities": 1,
        },
        "scrubbed": True,
        "copies": [],
        "configured": False,
        "remains": answer["remains"],
    }
    assert "cannot be known" in answer["remains"]
    assert b"Zq7canary" not in (live.running.store.path).read_bytes()
    error = await client.refused(404, "POST", "/api/admin/people/telegram:55/forget")
    assert error["code"] == "unknown_person"


async def test_the_owner_is_not_forgotten_by_mistake(client: Client) -> None:
    error = await client.refused(409, "POST", "/api/admin/people/web:owner/forget")
    assert error["code"] == "owner_protected"
    answer = await client.ask("POST", "/api/admin/people/web:owner/forget", params={"really": "true"})
    assert (answer.status, answer.json["removed"]["identities"]) == (200, 1)
    [owner] = (await client.get("/api/admin/people"))["people"]
    assert owner["owner"]


# Search


async def test_search(live: Live, client: Client) -> None:
    one = await talked(live, client, "an apple a day", "<b>apple</b>")
    two = await talked(live, client, "apple pie", agent="main")
    found = await client.get("/api/search", q="apple")
    assert (found["query"], found["limit"], found["indexing"]) == ("apple", 20, False)
    assert {hit["sessionId"] for hit in found["hits"]} == {one, two}
    assert len(found["hits"]) == 6, "the agent repeats what it hears"
    times = [hit["timestamp"] for hit in found["hits"]]
    assert times == sorted(times, reverse=True)
    hits = (await client.get("/api/search", q='"apple a day"', session=one))["hits"]
    first = hits[-1]
    assert first.keys() == {
        "sessionId",
        "agentId",
        "messageId",
        "seq",
        "role",
        "snippet",
        "marks",
        "timestamp",
    }
    message = (await client.messages(one))[0]
    assert (first["messageId"], first["seq"], first["role"]) == (message["id"], 1, "user")
    assert (first["snippet"], first["marks"]) == ("an apple a day", [[3, 14]])
    [plain] = [hit for hit in found["hits"] if hit["snippet"] == "<b>apple</b>"]
    assert plain["marks"] == [[3, 8]]
    assert (await client.get("/api/search", q="apple", agent="puppet"))["hits"] == []
    assert len((await client.get("/api/search", q="apple", limit=2))["hits"]) == 2
    assert (await client.get("/api/search", q='") OR (" NEAR *'))["hits"] == []


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ({}, 400, "`q` is missing"),
        ({"q": "  "}, 400, "`q` is missing"),
        ({"q": "x" * 1001}, 400, "more than 1000 characters"),
        ({"q": "x", "limit": "101"}, 400, "`limit`"),
        ({"q": "x", "session": "nothing"}, 404, "no session nothing"),
    ],
)
async def test_a_search_that_makes_no_sense(client: Client, query: dict[str, str], status: int, words: str) -> None:
    error = await client.refused(status, "GET", "/api/search", params=query)
    assert words in error["message"]


async def test_a_search_that_is_switched_off_says_so(tmp_path: Path) -> None:
    async with started(configure(tmp_path, search={"enabled": False})) as live, connected(live) as client:
        await talked(live, client, "hello")
        error = await client.refused(409, "GET", "/api/search", params={"q": "hello"})
        assert error["code"] == "search_disabled"


# Numbers


@pytest.mark.req("S001-63")
async def test_usage(live: Live, client: Client) -> None:
    session = await talked(live, client, "hello")
    [turn] = await live.running.api.turns(await live.running.api.session(session))
    spent = (turn.usage.input or 0) + (turn.usage.output or 0)
    assert spent > 0
    by_agent = await client.get("/api/admin/usage")
    assert by_agent["by"] == "agent"
    [row] = by_agent["rows"]
    assert (row["key"], row["name"], row["turns"]) == ("main", None, 1)
    assert row["inputTokens"] + row["outputTokens"] == spent
    assert row["estimatedShare"] == (1.0 if turn.usage.source == "estimated" else 0.0)
    assert {name: value for name, value in row.items() if name not in {"key", "name"}} == by_agent["total"]
    for by in ("day", "person", "session"):
        page = await client.get("/api/admin/usage", by=by)
        assert [one["turns"] for one in page["rows"]] == [1]
        assert page["total"] == by_agent["total"]
    assert (await client.get("/api/admin/usage", by="session"))["rows"][0]["key"] == session
    assert (await client.get("/api/admin/usage", by="session", limit=0))["rows"] == []
    error = await client.refused(400, "GET", "/api/admin/usage", params={"by": "colour"})
    assert error["message"] == "`by` is agent, day, person, session, not 'colour'."


async def test_people(live: Live, client: Client) -> None:
    await live.running.store.write(lambda db: people.meet(db, "telegram", "55", "Ada", 1_000_000))
    page = await client.get("/api/admin/people")
    assert (page["total"], page["limit"], page["offset"]) == (2, 100, 0)
    owner, ada = page["people"]
    assert owner["identities"] == [{"channel": "web", "userId": "owner"}]
    assert owner["owner"] is owner["known"] is True
    assert ada == {
        "id": ada["id"],
        "name": "Ada",
        "configName": None,
        "owner": False,
        "known": False,
        "identities": [{"channel": "telegram", "userId": "55"}],
        "sessions": 0,
        "createdAt": "1970-01-01T00:00:01.000000Z",
    }
    assert (await client.get("/api/admin/people", limit=1, offset=1))["people"] == [ada]


async def test_status(live: Live, client: Client, tmp_path: Path) -> None:
    await talked(live, client, "hello")
    session = await client.create("puppet")
    await client.say(session, "go")
    await live.puppet.asked.get()
    await client.say(session, "wait")
    status = await client.get("/api/admin/status")
    assert status.keys() == {
        "version",
        "uptimeSeconds",
        "pid",
        "url",
        "dataDir",
        "databaseBytes",
        "schema",
        "sessions",
        "running",
        "waiting",
        "outbox",
        "components",
    }
    assert (status["version"], status["url"]) == (__version__, live.running.url)
    assert status["dataDir"] == str(tmp_path / "data")
    assert status["databaseBytes"] >= (tmp_path / "data" / NAME).stat().st_size
    assert status["schema"] == [step.name for step in STEPS]
    assert (status["sessions"], status["running"], status["waiting"]) == ({"active": 2}, 1, 1)
    assert status["uptimeSeconds"] >= 0
    assert status["components"]["store"] == {"ok": True, "detail": ""}
    assert await live.running.store.read(turns.pending)
    live.puppet.answer("done")


@pytest.mark.req("P28")
async def test_budgets(tmp_path: Path) -> None:
    config = configure(tmp_path, budgets={"daily": {"person": "*", "tokens": 5}})
    async with started(config) as live, connected(live) as client:
        await talked(live, client, "hello there, how are you?")
        [row] = (await client.get("/api/admin/budgets"))["budgets"]
        assert (row["name"], row["per"], row["tokens"], row["money"]) == ("daily", "day", 5, None)
        assert row["spentTokens"] > 5
        session = await client.create("main")
        await client.say(session, "and now?")
        await live.ended(session, 1)
        [turn] = await client.get(f"/api/sessions/{session}/turns")
        assert turn["status"] == "failed"
        assert "is spent" in turn["errors"][0]
        who = row["scope"].removeprefix("person=")
        more = await client.ask("POST", "/api/admin/budgets/daily/allow", json={"tokens": 500, "person": who})
        assert (more.status, more.json["tokens"]) == (200, 505)
        await client.refused(404, "POST", "/api/admin/budgets/other/allow", json={"tokens": 5})
        await client.refused(400, "POST", "/api/admin/budgets/daily/allow", json={"tokens": 5})
        await client.refused(400, "POST", "/api/admin/budgets/daily/allow", json={"token": 5})
