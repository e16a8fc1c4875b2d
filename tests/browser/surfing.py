"""A browser profile in front of the daemon, and the daemon as the page sees it: always at the same address."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Request, expect

from tests.crash.daemon import TOKEN, DaemonProcess

#: As root there is no sandbox; the rest keeps chromium from calling home.
LAUNCH = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
#: What chromium itself reports when the daemon is not there.
AWAY = re.compile(r"net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)")


class Served(DaemonProcess):
    """Keeps its port from the first start on, as a page that stays open needs it."""

    @property
    def running(self) -> bool:
        return self._process is not None

    async def start(self) -> None:
        await super().start()
        self.config.write_text(self.config.read_text().replace("127.0.0.1:0", urlsplit(self.url).netloc))

    async def ask(self, method: str, path: str, **how: Any) -> Any:
        """What the API says, for those who know the token."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.request(method, self.url + path, headers=headers, **how) as response:
            response.raise_for_status()
            return await response.json()

    async def sessions(self) -> list[dict[str, Any]]:
        return list((await self.ask("GET", "/api/sessions"))["sessions"])

    async def turns(self) -> list[dict[str, Any]]:
        """The turns of all sessions."""
        found = [await self.ask("GET", f"/api/sessions/{one['id']}/turns") for one in await self.sessions()]
        return [turn for turns in found for turn in turns]


#: Milliseconds that a machine with other work may take for what takes a moment.
PATIENCE = 30_000
expect.set_options(timeout=PATIENCE)


@dataclass
class Surfer:
    browser: Browser
    daemon: Served
    #: Every address that was asked for, and every complaint.
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    #: Complaints that a test expects.
    expected: list[re.Pattern[str]] = field(default_factory=list)
    #: Other addresses of the daemon that a test uses.
    elsewhere: list[str] = field(default_factory=list)
    #: Requests that have not ended.
    open: set[Request] = field(default_factory=set)
    _contexts: list[BrowserContext] = field(default_factory=list)

    async def context(self, **options: Any) -> BrowserContext:
        """A profile without a cookie."""
        context = await self.browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        context.set_default_timeout(PATIENCE)
        context.on("request", self._asked)
        context.on("requestfinished", lambda request: self.open.discard(request))
        context.on("requestfailed", lambda request: self.open.discard(request))
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("dialog", self._opened)
        self._contexts.append(context)
        return context

    async def enter(self, fragment: str = "", **options: Any) -> Page:
        """Start the daemon if need be, and open the page by its link."""
        if not self.daemon.running:
            await self.daemon.start()
        page = await (await self.context(**options)).new_page()
        await page.goto(f"{self.daemon.url}/?token={TOKEN}{fragment}")
        await page.wait_for_selector("#say")
        return page

    async def leave(self) -> None:
        for context in self._contexts:
            await context.close()
        ours = {urlsplit(url).netloc for url in (self.daemon.url, *self.elsewhere)}
        assert {urlsplit(url).netloc for url in self.asked} <= ours
        surprising = [text for text in self.complaints if not any(each.search(text) for each in self.expected)]
        assert not surprising, surprising

    def streams(self) -> int:
        """How many streams of events are open."""
        return sum(request.url.endswith("/events") for request in self.open)

    def _asked(self, request: Request) -> None:
        self.asked.append(request.url)
        self.open.add(request)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    async def _opened(self, dialog: Dialog) -> None:
        self.complaints.append(f"a dialog said {dialog.message}")
        await dialog.dismiss()


async def say(page: Page, text: str) -> None:
    """Write it and press Enter."""
    await page.fill("#say", text)
    await page.press("#say", "Enter")


def answers(page: Page) -> Locator:
    """The agent's finished messages."""
    return page.locator(".row.agent:not(.partial) .markdown")


def bubbles(page: Page) -> Locator:
    """What the user said, stored or on its way."""
    return page.locator(".bubble")


def session_of(page: Page) -> str:
    return urlsplit(page.url).fragment.lstrip("/")
