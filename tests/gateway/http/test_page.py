"""The page and the way in: the token becomes a cookie, and neither opens more than it should."""

import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from gateway.http.app import application
from gateway.http.auth import Door
from gateway.http.page import assets
from tests.fakes.api import AUTH, TOKEN, Answer, Client, Live, configure, started

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class Browser(Client):
    """A client that keeps cookies, follows nothing by itself, and has no token but what it is given."""

    def __init__(self, client: TestClient) -> None:  # type: ignore[type-arg]
        super().__init__(client.request)
        self.client = client
        self.origin = str(client.make_url("/")).rstrip("/")
        self.host = self.origin.removeprefix("http://")

    @property
    def cookies(self) -> dict[str, str]:
        return {cookie.key: cookie.value for cookie in self.client.session.cookie_jar}

    async def go(self, path: str, method: str = "GET", **how: object) -> Answer:
        return await self.ask(method, path, **{"allow_redirects": False, **how})

    async def log_in(self) -> Answer:
        return await self.go(f"/?token={TOKEN}")


@pytest.fixture
async def browser(live: Live, aiohttp_client: AiohttpClient) -> Browser:
    jar = aiohttp.CookieJar(unsafe=True)  # which takes cookies of addresses, as browsers do
    return Browser(await aiohttp_client(application(live.running.api, TOKEN), cookie_jar=jar))


# Logging in


@pytest.mark.req("CARD-28")
async def test_the_link_becomes_a_cookie(browser: Browser) -> None:
    assert "?token=" in (await browser.go("/")).text
    answer = await browser.log_in()
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert re.fullmatch(
        r"trunkline-\d+=[0-9a-f]{64}; HttpOnly; Max-Age=2592000; Path=/; SameSite=Strict", cookie, re.IGNORECASE
    )
    assert TOKEN not in f"{answer.text}{answer.headers}"
    page = await browser.go("/")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert 'id="say"' in page.text
    assert (await browser.go("/api/sessions")).status == 200


@pytest.mark.req("CARD-28")
@pytest.mark.parametrize("query", ["?token=", "?token=wrong", f"?token={TOKEN[:-1]}", "?token=%ff", "?token=%00"])
async def test_a_wrong_link(browser: Browser, query: str) -> None:
    answer = await browser.go(f"/{query}")
    assert answer.status == 403
    assert "not the token" in answer.text
    assert "Set-Cookie" not in answer.headers
    assert (await browser.go("/api/sessions")).status == 401


async def test_a_wrong_link_does_not_log_out(browser: Browser) -> None:
    await browser.log_in()
    answer = await browser.go("/?token=old")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert (await browser.go("/api/sessions")).status == 200


@pytest.mark.req("CARD-28")
async def test_the_form(browser: Browser) -> None:
    for data in ({}, {"token": ""}, {"token": "wrong"}, {"other": TOKEN}):
        answer = await browser.go("/login", "POST", data=data)
        assert answer.status == 403
        assert "not the token" in answer.text
        assert browser.cookies == {}
    upload = aiohttp.FormData()
    upload.add_field("token", TOKEN.encode(), filename="token.txt")
    assert (await browser.go("/login", "POST", data=upload)).status == 403
    answer = await browser.go("/login", "POST", data={"token": f" {TOKEN}\n"})
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert 'id="say"' in (await browser.go("/")).text
    answer = await browser.go("/login")
    assert (answer.status, answer.headers["Location"]) == (303, "/")


@pytest.mark.req("CARD-28")
async def test_the_cookie_survives_a_restart_and_dies_with_the_token(tmp_path: Path) -> None:
    cookie = ""
    for token, status in ((TOKEN, 200), (TOKEN, 200), ("another", 401)):
        config = configure(tmp_path, http={"admin_token": token, "listen": "127.0.0.1:0"})
        async with started(config) as live, aiohttp.ClientSession(live.running.url) as session:
            if not cookie:
                async with session.get(f"/?token={token}", allow_redirects=False) as answer:
                    [cookie] = [morsel.value for morsel in answer.cookies.values()]
            port = live.running.url.rpartition(":")[2]
            async with session.get("/api/sessions", headers={"Cookie": f"trunkline-{port}={cookie}"}) as answer:
                assert answer.status == status


@pytest.mark.req("CARD-28")
async def test_cookies_that_open_nothing(browser: Browser) -> None:
    await browser.log_in()
    [(name, value)] = browser.cookies.items()
    browser.client.session.cookie_jar.clear()
    assert (await browser.go("/api/sessions", headers={"Cookie": f"{name}={value}"})).status == 200
    wrong = [
        f"{name}={TOKEN}",
        f"{name}={value[:-1]}",
        f"{name}={value}0",
        f"{name}=",
        f"other={value}",
        f"{name}=\xff",
    ]
    for cookie in wrong:
        assert (await browser.go("/api/sessions", headers={"Cookie": cookie})).status == 401
    # Another daemon on another port of this host has another cookie.
    assert name == f"trunkline-{browser.host.rpartition(':')[2]}"


async def test_a_step_between_for_links_on_other_sites(browser: Browser) -> None:
    """They bring no strict cookie; the second step, from our own page, does."""
    answer = await browser.go("/", headers={"Sec-Fetch-Site": "cross-site"})
    assert '<meta http-equiv="refresh" content="0; url=/">' in answer.text
    await browser.log_in()
    assert 'id="say"' in (await browser.go("/", headers={"Sec-Fetch-Site": "cross-site"})).text


# What the cookie may do


@pytest.fixture
async def inside(browser: Browser) -> Browser:
    await browser.log_in()
    return browser


@pytest.mark.req("CARD-28")
async def test_with_the_cookie_only_our_own_page_changes_anything(inside: Browser) -> None:
    for origin in (None, "null", "", "http://evil.example", f"http://evil.example?{inside.host}", "http://127.0.0.1"):
        for method, path in (("POST", "/api/sessions"), ("PATCH", "/api/sessions/1"), ("DELETE", "/api/sessions/1")):
            headers = {} if origin is None else {"Origin": origin}
            answer = await inside.go(path, method, headers=headers)
            assert (answer.status, answer.error["code"]) == (403, "bad_origin"), origin
    assert (await inside.get("/api/sessions"))["total"] == 0
    for origin in (inside.origin, inside.origin.replace("http:", "https:"), inside.origin.upper()):
        assert (await inside.go("/api/sessions", "POST", headers={"Origin": origin})).status == 201


async def test_reading_needs_no_origin(inside: Browser) -> None:
    for headers in ({}, {"Origin": "http://evil.example"}):
        answer = await inside.go("/api/sessions", headers=headers)
        assert answer.status == 200
        # And yet no other page can read it.
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_token_that_is_given_decides(inside: Browser) -> None:
    assert (await inside.go("/api/sessions", headers={"Authorization": "Bearer wrong"})).status == 401
    assert (await inside.go("/api/sessions", "POST", headers=AUTH)).status == 201


# Names of the host


@pytest.mark.req("CARD-28")
@pytest.mark.req("P55")
async def test_a_host_that_is_not_ours(live: Live, browser: Browser) -> None:
    await browser.log_in()
    [(name, value)] = browser.cookies.items()
    port = browser.host.rpartition(":")[2]
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "192.0.2.1",
        "",
        "[",
    ):
        for path in ("/", f"/?token={TOKEN}", "/static/app.js", "/api/sessions", "/healthz"):
            headers = {"Host": host, "Cookie": f"{name}={value}", **AUTH}
            answer = await browser.go(path, headers=headers)
            assert (answer.status, answer.error["code"]) == (403, "bad_host"), (host, path)
    for host in (
        browser.host,
        "localhost",
        f"LOCALHOST:{port}",
        "chat.localhost:1",
        "[::1]:80",
        "127.0.0.1",
        "127.8.8.8",
    ):
        assert (await browser.go("/api/sessions", headers={"Host": host, **AUTH})).status == 200, host


def hosts(door: Door) -> Iterator[str]:
    for host in (
        "localhost",
        "127.0.0.1:1",
        "[::1]",
        "192.0.2.7:8787",
        "[2001:db8::1]",
        "chat.example:8787",
        "evil.example",
    ):
        if door.serves(host):
            yield host


@pytest.mark.parametrize(
    ("listen", "more"),
    [
        ("127.0.0.1", set()),
        ("192.0.2.7", {"192.0.2.7:8787"}),
        ("Chat.Example", {"chat.example:8787"}),
        # On every address each of them is right, and a name still is not.
        ("0.0.0.0", {"192.0.2.7:8787", "[2001:db8::1]"}),
        ("::", {"192.0.2.7:8787", "[2001:db8::1]"}),
    ],
)
def test_hosts_by_the_address_that_is_listened_on(listen: str, more: set[str]) -> None:
    assert set(hosts(Door(TOKEN, listen))) == {"localhost", "127.0.0.1:1", "[::1]"} | more


# Files


@pytest.mark.req("CARD-28")
async def test_every_answer_has_the_headers(client: Client, browser: Browser) -> None:
    session = await client.create()
    pages = ["/", f"/?token={TOKEN}", "/static/app.js", "/static/nothing.js", "/healthz", "/api/sessions", "/nowhere"]
    answers = [await browser.go(path) for path in pages]
    answers.append(await browser.go("/login", "POST", data={"token": "wrong"}))
    answers.append(await browser.go("/", headers={"Host": "evil.example"}))
    answers.append(await client.ask("GET", f"/api/sessions/{session}"))
    for answer in answers:
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] in {"no-store", "no-cache"}


async def test_files_are_asked_for_again_and_sent_once(browser: Browser) -> None:
    types = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    names = [name for name in assets() if not name.endswith(".html")]
    assert {Path(name).suffix for name in names} == set(types)
    for name in names:
        answer = await browser.go(f"/static/{name}")
        assert answer.status == 200
        assert answer.headers["Content-Type"] == f"{types[Path(name).suffix]}; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-cache"
        again = await browser.go(f"/static/{name}", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status, again.text) == (304, "")
        other = await browser.go(f"/static/{name}", headers={"If-None-Match": '"other"'})
        assert (other.status, other.text) == (200, answer.text)


@pytest.mark.parametrize(
    "name", ["nothing.js", "index.html", "login.html", "%2e%2e%2fpage.py", "..%2fpage.py", "..%5cpage.py", "a/b", ""]
)
async def test_nothing_else_is_served(browser: Browser, name: str) -> None:
    answer = await browser.go(f"/static/{name}", headers=AUTH)
    assert answer.status == 404
    assert answer.error["code"] == "not_found"


def test_the_page_has_no_code_of_its_own_and_asks_nobody_else() -> None:
    """No inline script or style, no address of another host, and every file that is named exists."""
    for name in ("index.html", "login.html"):
        text = assets()[name].text
        assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", text)
        assert set(re.findall(r'(?:src|href)="/static/([^"]+)"', text)) <= set(assets())
        assert not re.search(r'(?:src|href|action)="(?!/)', text)
    modules = {name for name in assets() if name.endswith(".js")}
    for name in modules:
        text = assets()[name].text
        assert set(re.findall(r'from "/static/([^"]+)"', text)) <= modules
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
        assert len(text.splitlines()) <= 260
    # Loaded together, not one after the other.
    preloaded = set(re.findall(r'modulepreload" href="/static/([^"]+)"', assets()["index.html"].text))
    assert preloaded == modules - {"app.js"}
