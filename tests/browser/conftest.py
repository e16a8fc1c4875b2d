"""Debian's chromium in front of the real daemon, and a watch over everything the page asks for and complains about."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.surfing import LAUNCH, Served, Surfer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=LAUNCH)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def daemon(tmp_path: Path) -> AsyncIterator[Served]:
    """Not started yet; from its first start on it keeps its port."""
    process = Served(tmp_path)
    process.configure()
    yield process
    if process.running:
        await process.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def surfer(browser: Browser, daemon: Served) -> AsyncIterator[Surfer]:
    """Somebody with an own profile; at the end nothing may have gone elsewhere or gone wrong unseen."""
    surfer = Surfer(browser, daemon)
    yield surfer
    await surfer.leave()
