"""The way in: the link of the daemon, or its token pasted; and nothing without either."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.surfing import Served, Surfer, answers, say
from tests.crash.daemon import TOKEN

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.req("CARD-28")
async def test_the_link_leaves_a_cookie_and_no_token(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    assert page.url == f"{daemon.url}/"
    assert await page.evaluate("performance.getEntriesByType('navigation')[0].name") == f"{daemon.url}/"
    assert TOKEN not in await page.content()
    [cookie] = await page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    assert TOKEN not in cookie["value"]
    assert await page.evaluate("document.cookie") == ""
    await page.go_back()
    assert TOKEN not in page.url


async def test_the_link_keeps_the_chat_it_names(surfer: Surfer) -> None:
    page = await surfer.enter()
    await say(page, "remember me")
    await expect(answers(page)).to_have_text("You said: remember me")
    again = await surfer.enter(page.url[page.url.index("#") :])
    assert again.url == page.url
    await expect(answers(again)).to_have_text("You said: remember me")


@pytest.mark.req("CARD-28")
async def test_without_a_cookie_the_page_says_how_to_get_in(surfer: Surfer, daemon: Served) -> None:
    await daemon.start()
    surfer.expected.append(re.compile("403"))
    page = await (await surfer.context()).new_page()
    await page.goto(daemon.url)
    await expect(page.locator("main")).to_contain_text("?token=…")
    await page.get_by_label("Token").fill("not the token")
    await page.get_by_role("button", name="Open the chat").click()
    await expect(page.get_by_role("alert")).to_contain_text("That is not the token")
    await page.get_by_label("Token").fill(f"  {TOKEN} ")
    await page.keyboard.press("Enter")
    await expect(page.locator("#say")).to_be_focused()
    assert page.url == f"{daemon.url}/"
    await page.reload()
    await expect(page.locator("#say")).to_be_visible()


async def test_a_link_on_another_site_works_too(surfer: Surfer, daemon: Served) -> None:
    """A strict cookie does not come along from there, not even the one that was set on the way."""
    await daemon.start()
    page = await (await surfer.context()).new_page()
    elsewhere = daemon.url.replace("127.0.0.1", "localhost")
    surfer.elsewhere.append(elsewhere)
    await page.goto(elsewhere)
    await page.evaluate("url => location.assign(url)", f"{daemon.url}/?token={TOKEN}")
    await expect(page.locator("#say")).to_be_visible()
    assert page.url == f"{daemon.url}/"


@pytest.mark.req("CARD-28")
async def test_another_token_ends_the_visit(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    await say(page, "hello")
    await expect(answers(page)).to_have_count(1)
    [cookie] = await page.context.cookies()
    await page.context.add_cookies([{"name": cookie["name"], "value": "0" * 64, "url": daemon.url}])
    surfer.expected.append(re.compile("401"))
    await page.fill("#say", "is this still me?")
    await page.keyboard.press("Enter")
    await expect(page.locator("#bar")).to_contain_text("logged out")
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_label("Token").fill(TOKEN)
    await page.keyboard.press("Enter")
    # What was written meanwhile is not lost.
    await page.get_by_role("link", name="hello").click()
    await expect(answers(page)).to_have_text(["You said: hello", "You said: is this still me?"])
    assert len(await daemon.turns()) == 2
