"""Everything that can go wrong with a request: one shape, the right code, nothing stored, nothing given away."""

import asyncio
import gzip
import io
import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_aiohttp import AiohttpClient

from gateway.api import Api
from gateway.http.app import application
from gateway.http.auth import OPEN
from gateway.http.errors import LARGEST
from tests.fakes.api import AUTH, PATIENCE, TOKEN, Answer, Client, Live, connected

#: A body that each route takes.
#: The id of no session.
NOBODY = "00000000-0000-4000-8000-000000000000"

BODIES: dict[str, dict[str, Any]] = {
    "/api/sessions/{id}/command": {"text": "/status"},
    "/api/sessions/{id}/prompt": {"text": "hello"},
    "/api/web/{account}/messages": {"text": "hello", "id": "1"},
    "/api/admin/explain": {"channel": "web", "account": "main", "chat": "owner", "sender": "owner"},
}


def all_routes(app: web.Application) -> Iterator[tuple[str, str]]:
    """Every method and path of the application, with names where a part is free."""
    for route in app.router.routes():
        assert route.resource is not None
        yield route.method, route.resource.canonical


def api_routes(app: web.Application) -> list[tuple[str, str]]:
    return sorted(
        (method, path) for method, path in all_routes(app) if path.startswith(("/api", "/healthz", "/readyz"))
    )


def fill(path: str, session: str) -> str:
    return path.format_map(defaultdict(lambda: "1", id=session, account="main"))


async def state(live: Live) -> dict[str, int]:
    """How many rows each table has."""
    tables = ("sessions", "messages", "turns", "inbox", "outbox", "refusals", "people")
    return await live.running.store.read(
        lambda db: {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    )


# The token


@pytest.mark.req("CARD-28", "CARD-27")
async def test_every_route_needs_the_token(live: Live, aiohttp_client: AiohttpClient) -> None:
    app = application(live.running.api, live.running.token)
    client = Client((await aiohttp_client(app)).request)
    before = await state(live)
    routes = [*all_routes(app), ("GET", "/nowhere"), ("PATCH", "/api/sessions"), ("GET", "/")]
    assert len(routes) > 20
    wrong = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN.upper()}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer \udcff"},
        {"Cookie": f"token={TOKEN}"},
        {"X-Token": TOKEN},
    ]
    for method, path in routes:
        if path in OPEN:
            continue
        for headers in wrong if (method, path) == ("GET", "/api/sessions") else wrong[:5:4]:
            how = {"json": BODIES.get(path, {})} if method == "POST" else {}
            answer = await client.ask(method, fill(path, NOBODY), headers=headers, **how)
            assert answer.status == 401, (method, path, headers)
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            if method != "HEAD":
                assert answer.error["code"] == "unauthorized"
                assert "Authorization: Bearer TOKEN" in answer.error["message"]
    answer = await client.ask("GET", "/api/sessions", params={"token": TOKEN, "access_token": TOKEN})
    assert answer.status == 401
    assert await state(live) == before


@pytest.mark.req("CARD-28")
async def test_the_token_opens_every_route(client: Client, live: Live) -> None:
    session = await client.create()
    for method, path in api_routes(application(live.running.api, live.running.token)):
        if path.endswith("/events"):
            continue
        how = {"json": BODIES.get(path, {})} if method == "POST" else {}
        answer = await client.ask(method, fill(path, session), **how)
        assert answer.status != 401, (method, path)
        assert answer.status < 500, (method, path)
    for spelling in (f"bearer {TOKEN}", f"BEARER {TOKEN}", f"Bearer   {TOKEN}  "):
        assert (await client.ask("GET", "/api/sessions", headers={"Authorization": spelling})).status == 200


async def test_health_is_open_and_nothing_of_the_api(live: Live, aiohttp_client: AiohttpClient) -> None:
    assert not [path for path in OPEN if path.startswith("/api")]
    client = Client((await aiohttp_client(application(live.running.api, live.running.token))).request)
    for path in ("/healthz", "/readyz", "/%68ealthz"):
        assert (await client.ask("GET", path)).status == 200
    for path in ("/healthz/", "/healthz/../api/sessions", "//healthz", "/api/sessions?x=/healthz", "/HEALTHZ"):
        url = live.running.url + path
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert response.status == 401, path


async def test_no_other_site_may_read_an_answer(client: Client) -> None:
    origin = {"Origin": "https://evil.example"}
    answers = [
        await client.ask("GET", "/healthz", headers=origin),
        await client.ask("GET", "/api/sessions", headers=origin),
        await client.ask("OPTIONS", "/api/sessions", headers={**origin, "Access-Control-Request-Method": "POST"}),
    ]
    assert [answer.status for answer in answers] == [200, 200, 405]
    assert not [name for answer in answers for name in answer.headers if name.startswith("Access-Control")]


# Bodies


@pytest.mark.req("S000-55")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "`text` is missing."),
        (b"{}", "`text` is missing."),
        (b'{"text": ""}', "`text`: must not be empty."),
        (b'{"text": " \\t\\n\\u00a0\\u2003"}', "`text`: must not be empty."),
        (b'{"text": null}', "`text`: Input should be a valid string."),
        (b'{"text": 5}', "`text`: Input should be a valid string."),
        (b'{"text": ["hello"]}', "`text`: Input should be a valid string."),
        (b'{"text": "hello", "txet": 1}', "`txet` is not known here."),
        (b'{"text": "hello", "id": ""}', "`id`: String should have at least 1 character."),
        (b'{"text": "hello", "id": 7}', "`id`: Input should be a valid string."),
        (b'{"text": "hello", "id": "' + b"x" * 201 + b'"}', "`id`: String should have at most 200 characters."),
        (b'{"text": "hello"', "The body is not valid JSON."),
        (b"text=hello", "The body is not valid JSON."),
        (b'{"text": "hello\xff"}', "The body is not valid JSON."),
        (b'{"text": "\\u12"}', "The body is not valid JSON."),
        (b'{"text": "\\ud800" "}', "The body is not valid JSON."),
        (b"\x00", "The body is not valid JSON."),
        (b"[" * 100_000, "The body is not valid JSON."),
        (b'"\\u0041' + b"[" * 100_000, "The body is not valid JSON."),
        (b"[]", "The body must be a JSON object."),
        (b'"text"', "The body must be a JSON object."),
        (b"null", "The body must be a JSON object."),
        (b"NaN", "The body must be a JSON object."),
    ],
)
async def test_a_bad_body(live: Live, client: Client, body: bytes, message: str) -> None:
    session = await client.create()
    before = await state(live)
    error = await client.refused(400, "POST", f"/api/sessions/{session}/prompt", data=body)
    assert error == {"code": "bad_request", "message": message}
    assert await state(live) == before


async def test_all_that_is_wrong_is_said_and_nothing_is_repeated(client: Client) -> None:
    session = await client.create()
    body = {"text": {"private": "my password"}, "id": "", "other": "my password"}
    error = await client.refused(400, "POST", f"/api/sessions/{session}/prompt", json=body)
    assert all(f"`{name}`" in error["message"] for name in body)
    assert "my password" not in error["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        ("POST", "/api/sessions", {"agent": 1}, "`agent`: Input should be a valid string."),
        ("POST", "/api/sessions", {"repo": "x"}, "`repo` is not known here."),
        ("DELETE", "/api/sessions/{id}", {"why": "x"}, "`why` is not known here."),
        ("POST", "/api/sessions/{id}/complete", {"reason": 1}, "`reason`: Input should be a valid string."),
        (
            "POST",
            "/api/sessions/{id}/archive",
            {"reason": "x" * 501},
            "`reason`: String should have at most 500 characters.",
        ),
        ("POST", "/api/web/main/messages", {"text": "hello"}, "`id` is missing."),
        ("POST", "/api/web/main/messages", {"id": "1"}, "`text` is missing."),
        ("POST", "/api/web/main/messages", {"id": "1", "text": " "}, "`text`: must not be empty."),
        (
            "POST",
            "/api/admin/explain",
            {"channel": "web", "account": "main", "chat": "1", "sender": "1", "peerKind": "dms"},
            "`peerKind`: Input should be 'dm', 'group' or 'channel'.",
        ),
        ("POST", "/api/admin/explain", {"channel": "web", "account": "main", "chat": "1"}, "`sender` is missing."),
    ],
)
async def test_a_bad_body_of_other_routes(
    live: Live, client: Client, method: str, path: str, body: dict[str, Any], message: str
) -> None:
    session = await client.create()
    before = await state(live)
    error = await client.refused(400, method, path.format(id=session), json=body)
    assert error == {"code": "bad_request", "message": message}
    assert await state(live) == before
    assert (await client.get(f"/api/sessions/{session}"))["status"] == "active"


@pytest.mark.req("S000-51", "S000-60")
@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("/api/sessions", {"limit": "ten"}, "`limit` is a whole number from 0 to 500, not 'ten'."),
        ("/api/sessions", {"limit": "-1"}, "`limit` is a whole number from 0 to 500, not '-1'."),
        ("/api/sessions", {"limit": "501"}, "`limit` is a whole number from 0 to 500, not '501'."),
        ("/api/sessions", {"limit": ""}, "`limit` is"),
        ("/api/sessions", {"limit": "1.5"}, "`limit` is"),
        ("/api/sessions", {"limit": "٣"}, "`limit` is"),
        ("/api/sessions", {"limit": "1" * 5000}, "`limit` is"),
        ("/api/sessions", {"offset": "x"}, "`offset` is"),
        ("/api/sessions", {"offset": "99999999999"}, "`offset` is"),
        ("/api/sessions", {"status": "done"}, "`status` takes active, idle, compacted, completed, cancelled, error,"),
        ("/api/sessions", {"status": "active,done"}, "not 'active,done'."),
        ("/api/sessions", {"status": "ACTIVE"}, "`status` takes"),
        ("/api/sessions/{id}/messages", {"since": "yesterday"}, "`since` is a time such as 2026-01-31T12:00:00Z, not"),
        ("/api/sessions/{id}/messages", {"since": ""}, "`since` is a time"),
        ("/api/sessions/{id}/messages", {"since": "2026-02-30T00:00:00Z"}, "`since` is a time"),
        ("/api/sessions/{id}/messages", {"limit": "501"}, "`limit` is"),
        ("/api/sessions/{id}/messages", {"before": "x"}, "`before` is"),
        ("/api/sessions/{id}/messages", {"after": "-1"}, "`after` is"),
    ],
)
async def test_a_bad_query(client: Client, path: str, query: dict[str, str], words: str) -> None:
    session = await client.create()
    error = await client.refused(400, "GET", path.format(id=session), params=query)
    assert error["code"] == "bad_request"
    assert words in error["message"]


# Addresses, methods, sizes


@pytest.mark.req("S000-54")
@pytest.mark.parametrize("session", [NOBODY, "1", "%00", "%ED%A0%80", "🎉", "x" * 4000])
async def test_an_unknown_session_on_every_route(live: Live, client: Client, session: str) -> None:
    await client.create()
    before = await state(live)
    routes = [(method, path) for method, path in all_routes(application(live.running.api, TOKEN)) if "/{id}" in path]
    assert len(routes) >= 10
    for method, path in routes:
        how = {"json": BODIES.get(path, {})} if method == "POST" else {}
        answer = await client.ask(method, fill(path, session), **how)
        assert answer.status == 404, (method, path)
        if method != "HEAD":
            assert answer.error["code"] == "unknown_session"
            assert "There is no session" in answer.error["message"]
    assert await state(live) == before


@pytest.mark.parametrize(
    "path",
    ["/api", "/api/sessions/", "/api/session", "/api/admin/outbox/x/resend", "/favicon.ico", "/api//sessions"],
)
async def test_an_unknown_address(client: Client, path: str) -> None:
    error = await client.refused(404, "GET", path)
    assert error == {"code": "not_found", "message": "There is nothing at this address."}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/sessions", {"GET", "HEAD", "POST"}),
        ("PUT", "/api/sessions/{id}", {"DELETE", "GET", "HEAD"}),
        ("GET", "/api/sessions/{id}/prompt", {"POST"}),
        ("POST", "/api/sessions/{id}/messages", {"GET", "HEAD"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("PROPFIND", "/api/sessions", {"GET", "HEAD", "POST"}),
    ],
)
async def test_a_wrong_method(client: Client, method: str, path: str, allowed: set[str]) -> None:
    session = await client.create()
    answer = await client.ask(method, path.format(id=session))
    assert answer.status == 405
    assert answer.error["code"] == "method_not_allowed"
    assert {one.strip() for one in answer.headers["Allow"].split(",")} >= allowed
    assert method not in answer.headers["Allow"]


@pytest.mark.parametrize("compress", [False, True])
async def test_a_body_that_is_too_large(live: Live, client: Client, compress: bool) -> None:
    session = await client.create()
    before = await state(live)
    body = json.dumps({"text": "x" * LARGEST}).encode()
    zipped = {"data": gzip.compress(body), "headers": {"Content-Encoding": "gzip"}}
    how = zipped if compress else {"data": io.BytesIO(body)}
    error = await client.refused(413, "POST", f"/api/sessions/{session}/prompt", **how)
    assert error["code"] == "request_entity_too_large"
    assert str(LARGEST) in error["message"]
    assert await state(live) == before


async def test_the_largest_body(live: Live, client: Client) -> None:
    session = await client.create()
    text = "x" * (LARGEST - len(json.dumps({"text": ""})))
    await client.say(session, text)
    await live.ended(session)
    assert (await client.ask("GET", f"/api/sessions/{session}/turns/1/instruction")).text == text


async def test_a_body_that_is_not_what_it_says(client: Client) -> None:
    session = await client.create()
    path = f"/api/sessions/{session}/prompt"
    zipped = {"Content-Encoding": "gzip", "Connection": "close"}
    error = await client.refused(400, "POST", path, data=b'{"text": "plain"}', headers=zipped)
    assert error == {"code": "bad_request", "message": "The body cannot be decoded."}
    honest = await client.ask("POST", path, data=gzip.compress(b'{"text": "zipped"}'), headers=zipped)
    assert honest.status == 202


async def test_a_client_that_leaves_in_the_middle_is_no_error(live: Live, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(live) as client:
        session = await client.create()
        before = await state(live)
        port = int(live.running.url.rpartition(":")[2])
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = (
                f"POST /api/sessions/{session}/prompt HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            )
            writer.write(f"{head}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n".encode())
            async with asyncio.timeout(PATIENCE):
                assert b"100 Continue" in await reader.readline()
            writer.write(b'{"te')  # the server waits for the rest by now
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        assert await state(live) == before
    await live.stop()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# Our own mistakes


async def test_an_unexpected_error_has_the_same_shape_and_tells_nothing(
    live: Live, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await live.running.store.write(lambda db: db.execute("DROP TABLE refusals"))
    error = await client.refused(500, "GET", "/api/admin/refusals")
    assert error == {
        "code": "internal_error",
        "message": "Something went wrong on our side; the log has the details.",
    }
    [record] = [record for record in caplog.records if record.getMessage() == "http_error"]
    assert record.exc_info is not None
    assert "no such table" in str(record.exc_info[1])
    assert (await client.ask("GET", "/api/sessions")).status == 200


# Secrets


@pytest.mark.req("CARD-28")
async def test_no_answer_and_no_log_shows_the_token(
    live: Live, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    session = await client.create()
    guess = "guess-at-the-token-31337"
    for method, path in api_routes(application(live.running.api, TOKEN)):
        if path.endswith("/events"):
            continue
        how = {"json": BODIES.get(path, {})} if method == "POST" else {}
        for headers in ({}, {"Authorization": f"Bearer {guess}"}):
            await client.ask(method, fill(path, session), headers=headers, **how)
    await client.ask("GET", "/readyz")
    await live.stop()
    told = "".join(f"{answer.text} {dict(answer.headers)}" for answer in client.seen)
    logged = "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "http_refused" in logged
    for secret in (TOKEN, guess):
        assert secret not in told
        assert secret not in logged


# Anything at all

ROUTES = api_routes(application(cast(Api, None), TOKEN))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "text",
    "id",
    "agent",
    "repoId",
    "reason",
    "channel",
    "account",
    "chat",
    "sender",
    "peerKind",
    "thread",
    "roles",
]
NEARLY_RIGHT = st.dictionaries(
    st.sampled_from([*NAMES, "guild", "addressed", "bot"]), st.text(max_size=20) | JSON_VALUES, max_size=6
)
ANY_TEXT = st.text(st.characters(), min_size=1, max_size=20)
#: Bodies of the right form, whatever they say.
RIGHT = {
    "/api/sessions/{id}/prompt": st.fixed_dictionaries({"text": ANY_TEXT}, optional={"id": ANY_TEXT}),
    "/api/web/{account}/messages": st.fixed_dictionaries({"text": ANY_TEXT, "id": ANY_TEXT}),
    "/api/admin/explain": st.fixed_dictionaries(
        {
            "channel": st.just("web") | ANY_TEXT,
            "account": st.just("main") | ANY_TEXT,
            "chat": ANY_TEXT,
            "sender": ANY_TEXT,
        },
        optional={
            "thread": ANY_TEXT,
            "guild": ANY_TEXT,
            "text": ANY_TEXT,
            "roles": st.lists(ANY_TEXT, max_size=2),
            "peerKind": st.sampled_from(["dm", "group", "channel"]),
            "addressed": st.sampled_from(["not", "mention", "reply", "command"]),
            "bot": st.booleans(),
        },
    ),
}
ENDING = st.fixed_dictionaries({}, optional={"reason": ANY_TEXT})


def bodies(path: str) -> st.SearchStrategy[bytes]:
    right = RIGHT.get(path, ENDING)
    anything = right | NEARLY_RIGHT | JSON_VALUES
    as_json = st.booleans().flatmap(lambda fits: right if fits else anything).map(json.dumps).map(str.encode)
    return st.one_of(as_json, as_json, st.binary(max_size=40))


TIMES = st.datetimes().map(str) | st.integers().map(str)
QUERY = st.dictionaries(
    st.sampled_from(
        ["limit", "offset", "status", "agent", "channel", "key", "repoId", "since", "before", "after", "x"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | TIMES | st.sampled_from(["active", "10", "0"]),
    max_size=4,
)
PART = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/?#"), min_size=1, max_size=20)
#: A session that exists.
SESSION = "a session"
PARTS = {
    "id": st.sampled_from([SESSION] * 3) | PART,
    "turn": st.sampled_from(["1", "last"]) | PART,
    "account": st.just("main") | PART,
    "delivery": st.integers(0, 10**15 - 1).map(str),
}


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], bytes | None]:
    """A method, a path, a query and a body."""
    method, route = draw(st.sampled_from(ROUTES))
    path = re.sub(r"{(\w+).*?}(?=/|$)", lambda found: draw(PARTS.get(found[1], PART)), route)
    return method, path, draw(QUERY), draw(bodies(route)) if method in {"POST", "DELETE", "PATCH"} else None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests())
async def test_nothing_that_is_sent_is_our_mistake(
    client: Client, request: tuple[str, str, dict[str, str], bytes | None]
) -> None:
    """Any route, any path, any query and any body: never a 5xx, and every error has the shape."""
    method, path, query, body = request
    url = path.replace(SESSION, await client.create()) if SESSION in path else path
    async with asyncio.timeout(PATIENCE), client.request(method, url, params=query, data=body) as response:
        assert response.status < 500, await response.text()
        if response.status == 200 and response.content_type == "text/event-stream":
            return
        answer = Answer(response.status, response.headers, await response.text())
    assert answer.status < 400 or method == "HEAD" or answer.error


@pytest.mark.parametrize("path", ["/api/sessions", "/healthz"])
async def test_requests_that_are_no_http(live: Live, path: str) -> None:
    port = int(live.running.url.rpartition(":")[2])
    for raw in (
        b"nonsense\r\n\r\n",
        f"GET {path}{'a' * 10_000} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw)
        writer.write_eof()
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        assert answer == b"" or b" 400 " in answer.partition(b"\r\n")[0]
        writer.close()
        await writer.wait_closed()
    async with aiohttp.ClientSession(headers=AUTH) as session, session.get(live.running.url + path) as response:
        assert response.status == 200
