"""What an agent asks, and the buttons under it."""

import pytest
from playwright.async_api import expect

from tests.browser.surfing import Surfer, answers, say

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.req("P52")]


async def test_a_request_is_answered_by_a_button(surfer: Surfer) -> None:
    page = await surfer.enter()
    await say(page, "ask")
    buttons = page.locator("#questions button")
    await expect(buttons).to_have_text(["✅ Allow", "❌ Reject"])
    await expect(page.locator("#questions pre")).to_contain_text("do nothing at all")
    await page.reload()
    await expect(buttons).to_have_count(2)
    await buttons.first.click()
    await expect(answers(page)).to_have_text("I was allowed to do nothing, and did it.")
    await expect(page.locator("#questions")).to_be_hidden()


async def test_a_request_goes_with_its_answer(surfer: Surfer) -> None:
    page = await surfer.enter()
    await say(page, "ask")
    await expect(page.locator("#questions button")).to_have_count(2)
    await page.keyboard.press("Escape")
    await expect(page.locator("#questions")).to_be_hidden()
