"""How it looks and how it is reached: wide, on a phone, in the dark, with the keyboard alone, read aloud.

With TRUNKLINE_SCREENSHOTS set to a folder (`make screenshots`), what is seen here is also kept as pictures.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser import scene
from tests.browser.surfing import PHONE, Served, Surfer, answers, bubbles, say

pytestmark = pytest.mark.asyncio(loop_scope="module")

HERE = {"locale": "en-GB", "timezone_id": "UTC", "device_scale_factor": 2}


async def picture(page: Page, name: str) -> None:
    folder = os.environ.get("TRUNKLINE_SCREENSHOTS")
    if folder:
        await page.evaluate("document.activeElement.blur()")
        await page.screenshot(path=Path(folder) / name, animations="disabled")


async def fits(page: Page) -> bool:
    """Nothing sticks out to the side."""
    return bool(await page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"))


async def lightness(page: Page, selector: str, what: str) -> float:
    """From 0, black, to 1, white."""
    script = """([selector, what]) => {
        const found = /rgba?\\((\\d+), (\\d+), (\\d+)/.exec(getComputedStyle(document.querySelector(selector))[what]);
        const [r, g, b] = found.slice(1).map((each) => {
            const part = each / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }"""
    return float(await page.evaluate(script, [selector, what]))


async def contrast(page: Page, selector: str, behind: str = "body") -> float:
    text = await lightness(page, selector, "color")
    back = await lightness(page, behind, "backgroundColor")
    return (max(text, back) + 0.05) / (min(text, back) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_light_and_dark(surfer: Surfer, daemon: Served, scheme: Any) -> None:
    session = scene.paint(daemon)
    page = await surfer.enter(f"#/{session}", color_scheme=scheme, viewport={"width": 1280, "height": 1048}, **HERE)
    await expect(answers(page)).to_have_count(2)
    await expect(page.locator("#sessions li")).to_have_count(7)
    await expect(page.locator(".row.tool summary").first).to_contain_text("journalctl backup.service, Sunday")
    await expect(page.locator(".row.plan summary")).to_contain_text("2 of 2 done")
    back = await lightness(page, "body", "backgroundColor")
    assert back > 0.9 if scheme == "light" else back < 0.02
    # Easy to read: WCAG asks for 4.5.
    assert await contrast(page, ".markdown p") > 7
    assert await contrast(page, ".bubble", ".bubble") > 7
    assert await contrast(page, ".meta") > 4.5
    assert await contrast(page, ".facts", "#chats") > 4.5
    assert await contrast(page, ".markdown :not(pre) > code", ".markdown :not(pre) > code") > 4.5
    assert await fits(page)
    await picture(page, f"chat-{scheme}.png")


async def test_on_a_phone(surfer: Surfer, daemon: Served) -> None:
    session = scene.paint(daemon)
    page = await surfer.enter(f"#/{session}", **PHONE, **HERE)
    await expect(answers(page)).to_have_count(2)
    assert await fits(page)
    chats, button = page.get_by_role("navigation", name="Chats"), page.get_by_role("button", name="Show chats")
    await expect(chats).to_be_hidden()
    await picture(page, "chat-phone.png")
    # The list is a drawer: opened, used, and shut by Escape, by a touch beside it or by a choice.
    await button.tap()
    await expect(chats).to_be_in_viewport()
    await expect(page.locator("#new-chat")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(chats).to_be_hidden()
    await expect(button).to_be_focused()
    await button.tap()
    await page.touchscreen.tap(380, 400)
    await expect(chats).to_be_hidden()
    await button.tap()
    await page.get_by_role("link", name="Packing list").tap()
    await expect(chats).to_be_hidden()
    await expect(page.locator("#title")).to_have_text("Packing list for Lisbon")
    await expect(answers(page)).to_have_text("Gladly.")
    # There is no Shift+Enter: Enter makes the line, the button sends.
    await page.fill("#say", "one")
    await page.press("#say", "Enter")
    await page.locator("#say").press_sequentially("two")
    await page.get_by_role("button", name="Send").tap()
    await expect(bubbles(page).last).to_have_text("one\ntwo")
    await expect(answers(page)).to_have_count(2)
    # Wide things scroll in themselves.
    await say(page, f"{'wide' * 200}\n\n```\n{'wide ' * 200}\n```\n\n| {'wide | ' * 60}\n|{'---|' * 60}\n")
    await page.get_by_role("button", name="Send").tap()
    await expect(answers(page)).to_have_count(3)
    assert await fits(page)
    # Everything can be hit with a thumb.
    for selector in ("#open-chats", "#send", "#rename", "#archive"):
        box = await page.locator(selector).bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 36


async def test_with_the_keyboard_alone(surfer: Surfer, daemon: Served) -> None:
    daemon.configure(scene.AGENTS)
    page = await surfer.enter()
    await expect(page.locator("#say")).to_be_focused()
    await page.keyboard.type("help")
    await page.keyboard.press("Enter")
    await expect(answers(page)).to_have_count(1)
    await expect(page.locator("#say")).to_be_focused()

    async def focus() -> str:
        script = (
            "(e => e.id || e.getAttribute('aria-label') || e.textContent.trim() || e.tagName)(document.activeElement)"
        )
        found: str = await page.evaluate(script)
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        box = await page.evaluate("getComputedStyle(document.querySelector('.box')).outlineStyle")
        assert (box if found == "say" else outline) == "solid", f"{found} has the focus, and nobody can see it"
        return found

    # From the top, in the order of the page, each place where one would look for it.
    await page.evaluate("document.activeElement.blur(), document.getElementById('skip').focus()")
    order = [await focus()]
    while order[-1] != "say":
        await page.keyboard.press("Tab")
        order.append(await focus())
    assert order == ["skip", "new-chat", *order[2:3], "rename", "archive", "log", "Copy", "Details", "say"]
    assert order[2].startswith("help")
    # Skip, open another chat, come back.
    await page.focus("#skip")
    await page.keyboard.press("Enter")
    assert await focus() == "say"
    await page.focus("#new-chat")
    await page.keyboard.press("Enter")
    await expect(page.locator("#say")).to_be_focused()
    await page.keyboard.type("wait 600")
    await page.keyboard.press("Enter")
    await expect(page.locator("#stop")).to_be_visible()
    await page.keyboard.press("Tab")
    assert await focus() == "stop"
    await page.keyboard.press("Enter")
    await expect(page.locator(".row.failed")).to_be_visible()
    assert await focus() == "say"
    await page.get_by_role("button", name="Retry").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#stop")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator(".row.failed")).to_have_count(2)
    await page.get_by_role("link", name="help").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#title")).to_have_text("help")
    # A long history is scrolled with the keys once it has the focus.
    await page.focus("#log")
    await page.keyboard.press("Home")


async def test_read_aloud(surfer: Surfer, daemon: Served) -> None:
    """Everything that can be used has a name; answers are announced, and not while they grow."""
    page = await surfer.enter()
    await say(page, "count 4")
    await expect(answers(page)).to_have_count(1)
    nameless = await page.evaluate("""() => {
        const named = (each) => each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length;
        const all = [...document.querySelectorAll("button, a, input, select, textarea")];
        return all.filter((each) => each.checkVisibility() && !named(each)).map((each) => each.outerHTML);
    }""")
    assert nameless == []
    await expect(page.locator("#announce")).to_have_text("main: 1 2 3 4 done.")
    assert await page.get_by_role("log").get_attribute("aria-live") == "off"
    assert await page.locator("#announce").get_attribute("aria-live") == "polite"
    assert await page.locator("html").get_attribute("lang") == "en"
    await expect(page.get_by_role("heading", level=1)).to_have_text("count 4")


async def test_an_empty_page_says_what_to_do(surfer: Surfer) -> None:
    page = await surfer.enter()
    await expect(page.get_by_text("No chats yet.")).to_be_visible()
    await expect(page.get_by_text("Write a message below")).to_be_visible()
    await page.get_by_role("button", name="help", exact=True).click()
    await expect(page.locator("#say")).to_have_value("help")
    await page.keyboard.press("Enter")
    await expect(answers(page)).to_contain_text("not a language model")
    await expect(page.get_by_text("No chats yet.")).to_be_hidden()
