"""Repositories over HTTP: the list, what changes it, and sessions that are bound to one."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from pytest_aiohttp import AiohttpClient

from gateway.http.app import application
from gateway.logs import Event
from tests.fakes.api import AUTH, Client, Live, Puppet, configure, started
from tests.fakes.harness import Journal
from tests.gateway.test_repositories import make


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make(tmp_path / "root" / "group" / "two")
    make(tmp_path / "outside")
    return make(tmp_path / "root" / "one").parent


@pytest.fixture
async def live(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Live]:
    # An agent that acts on repositories.
    monkeypatch.setattr(Puppet, "side_effects", True)
    async with started(configure(tmp_path, gateway={"workspace_root": str(root)})) as running:
        yield running


@pytest.fixture
async def client(live: Live, aiohttp_client: AiohttpClient) -> Client:
    test_client = await aiohttp_client(application(live.running.api, live.running.token), headers=AUTH)
    return Client(test_client.request)


@pytest.fixture
def log() -> Iterator[Journal]:
    journal = Journal()
    journal.open()
    yield journal
    journal.close()


async def listed(client: Client) -> dict[str, str]:
    return {one["name"]: one["id"] for one in (await client.get("/api/repos"))["repos"]}


async def test_the_list_and_what_changes_it(client: Client, root: Path) -> None:
    assert (await listed(client)).keys() == {"one", "group/two"}
    three = make(root / "three")
    assert await client.post("/api/admin/repos/scan") == {"found": 3, "new": ["three"], "gone": []}
    [row] = [one for one in (await client.get("/api/repos"))["repos"] if one["name"] == "three"]
    assert row.keys() == {"id", "name", "path", "createdAt", "scannedAt"}
    assert (row["path"], str(uuid.UUID(row["id"]))) == (str(three), row["id"])
    gone = await client.ask("DELETE", f"/api/admin/repos/{quote('group/two', safe='')}")
    assert (gone.status, gone.json["name"]) == (200, "group/two")
    assert (await client.refused(404, "DELETE", "/api/admin/repos/group%2Ftwo"))["code"] == "unknown_repository"
    added = await client.post("/api/admin/repos", {"path": "group/two", "name": "deux"}, expect=201)
    assert (added["id"], added["name"]) == (gone.json["id"], "deux")


@pytest.mark.req("S000-42", "S000-43")
async def test_what_cannot_be_added(client: Client, root: Path, log: Journal) -> None:
    (root / "empty").mkdir()
    (root / "link").symlink_to(root.parent / "outside")
    ask = ("POST", "/api/admin/repos")
    for path in ("../outside", str(root.parent / "outside"), "link", "/"):
        error = await client.refused(403, *ask, json={"path": path})
        assert error["code"] == "path_violation"
        assert log.of(Event.PATH_VIOLATION)[-1]["path"] == path
    for path in ("empty", "missing"):
        assert (await client.refused(400, *ask, json={"path": path}))["code"] == "not_a_repository"
    assert (await client.refused(400, *ask, json={"path": "one", "name": "a\nb"}))["code"] == "not_a_repository"
    assert (await client.refused(409, *ask, json={"path": "one", "name": "group/two"}))["code"] == "repository_exists"


@pytest.mark.req("S000-34", "S000-35", "S000-51")
async def test_a_session_is_bound_to_a_repository(client: Client) -> None:
    repo = (await listed(client))["one"]
    made = await client.post("/api/sessions", {"agent": "puppet", "repoId": repo, "id": "my-session"}, expect=201)
    assert made["repoId"] == repo
    detail = await client.get(f"/api/sessions/{made['id']}")
    assert (detail["repo"]["id"], detail["repo"]["name"]) == (repo, "one")
    await client.create("puppet")
    found = await client.get("/api/sessions", repoId=repo)
    assert [row["id"] for row in found["sessions"]] == [made["id"]]
    other = {"agent": "puppet", "repoId": (await listed(client))["group/two"], "id": "my-session"}
    assert (await client.refused(409, "POST", "/api/sessions", json=other))["code"] == "repository_bound"
    patch = await client.refused(400, "PATCH", f"/api/sessions/{made['id']}", json={"repoId": other["repoId"]})
    assert patch["code"] == "bad_request"
    await client.ask("DELETE", f"/api/admin/repos/{repo}")
    assert (await client.get(f"/api/sessions/{made['id']}"))["repo"]["name"] == "one"


@pytest.mark.req("S000-37", "S002-16", "S002-18")
async def test_an_unknown_repository_creates_nothing(client: Client, log: Journal) -> None:
    wanted = str(uuid.uuid4())
    error = await client.refused(404, "POST", "/api/sessions", json={"agent": "puppet", "repoId": wanted})
    assert error["code"] == "unknown_repository"
    assert [line["repo"] for line in log.of(Event.REPOSITORY_UNKNOWN)] == [wanted]
    assert (await client.get("/api/sessions"))["total"] == 0


@pytest.mark.req("S000-36", "S000-37", "S000-43", "S002-19", "S002-21")
async def test_a_repository_that_leads_outside_creates_nothing(client: Client, root: Path, log: Journal) -> None:
    repo = (await listed(client))["one"]
    (root / "one").rename(root / "before")
    (root / "one").symlink_to(root.parent / "outside")
    error = await client.refused(403, "POST", "/api/sessions", json={"agent": "puppet", "repoId": repo})
    assert error["code"] == "path_violation"
    [line] = log.of(Event.PATH_VIOLATION)
    assert (line["repo"], line["path"]) == (repo, str(root / "one"))
    assert (await client.get("/api/sessions"))["total"] == 0


async def test_an_agent_without_hands_gets_none(client: Client) -> None:
    repo = (await listed(client))["one"]
    error = await client.refused(400, "POST", "/api/sessions", json={"agent": "main", "repoId": repo})
    assert error["code"] == "repository_not_wanted"


@pytest.mark.req("S000-37")
async def test_without_a_root_it_is_forbidden(tmp_path: Path, aiohttp_client: AiohttpClient) -> None:
    async with started(configure(tmp_path)) as live:
        test_client = await aiohttp_client(application(live.running.api, live.running.token), headers=AUTH)
        client = Client(test_client.request)
        error = await client.refused(403, "POST", "/api/admin/repos/scan")
        assert error["code"] == "no_workspace"
        assert "AGENT_WORKSPACE_ROOT" in error["message"]
        assert await listed(client) == {}
