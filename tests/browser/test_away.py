"""The daemon goes away under the page and comes back: nothing is lost, nothing happens twice."""

import re

import pytest
from playwright.async_api import Route, expect

from tests.browser.surfing import AWAY, Served, Surfer, answers, bubbles, say, session_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.req("S000-01")
async def test_a_message_sent_while_it_is_down_is_answered_once(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    surfer.expected.append(AWAY)
    await say(page, "before")
    await expect(answers(page)).to_have_count(1)
    pages = sum("/messages?" in url for url in surfer.asked)
    await daemon.kill()
    await expect(page.locator("#bar")).to_have_text("Reconnecting…")
    await say(page, "during")
    await expect(page.locator(".row.waiting")).to_contain_text("Will be sent when the connection is back")
    await daemon.start()
    await expect(answers(page)).to_have_text(["You said: before", "You said: during"])
    await expect(bubbles(page)).to_have_text(["before", "during"])
    await expect(page.locator("#bar")).to_be_hidden()
    await say(page, "after")
    await expect(answers(page)).to_have_count(3)
    assert [turn["instructionSummary"] for turn in await daemon.turns()] == ["before", "during", "after"]
    # Events continued where they broke off.
    assert sum("/messages?" in url for url in surfer.asked) == pages


async def test_what_was_not_sent_survives_the_page(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    surfer.expected.append(AWAY)
    await say(page, "before")
    await expect(answers(page)).to_have_count(1)
    await daemon.kill()
    await expect(page.locator("#bar")).to_have_text("Reconnecting…")
    await say(page, "during")
    await expect(page.locator(".row.waiting")).to_have_count(1)
    where, context = page.url, page.context
    await page.close()
    await daemon.start()
    page = await context.new_page()
    await page.goto(where)
    await expect(answers(page)).to_have_text(["You said: before", "You said: during"])
    assert len(await daemon.turns()) == 2


async def test_a_chat_begun_while_it_is_down(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    surfer.expected.append(AWAY)
    await daemon.kill()
    await say(page, "is anybody there?")
    await expect(page.locator("#bar")).to_have_text("Reconnecting…")
    await expect(bubbles(page)).to_have_text("is anybody there?")
    await daemon.start()
    await expect(answers(page)).to_have_text("You said: is anybody there?")
    assert len(await daemon.sessions()) == 1
    assert len(await daemon.turns()) == 1


async def test_a_message_to_a_chat_that_could_not_be_opened(surfer: Surfer, daemon: Served) -> None:
    """It goes to that chat, once there is somebody to take it, and not to a new one."""
    page = await surfer.enter()
    surfer.expected.append(AWAY)
    for text in ("one", "two"):
        await page.get_by_role("button", name="New chat").click()
        await say(page, text)
        await expect(answers(page)).to_have_text(f"You said: {text}")
        await expect(page.locator("#sessions .name").first).to_have_text(text)
    await daemon.kill()
    await page.get_by_role("link", name="one").click()
    await say(page, "and more")
    await expect(bubbles(page)).to_have_text("and more")
    await daemon.start()
    await expect(answers(page)).to_have_text(["You said: one", "You said: and more"])
    assert sorted(session["turnCount"] for session in await daemon.sessions()) == [1, 2]


async def test_a_turn_that_was_cut_goes_on_before_the_readers_eyes(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    surfer.expected.append(AWAY)
    await say(page, "count 15")
    await expect(page.locator(".row.agent.partial")).to_contain_text("1 2 3")
    await daemon.kill()
    await expect(page.locator("#bar")).to_have_text("Reconnecting…")
    await daemon.start()
    await expect(answers(page)).to_have_text("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 done.")
    await expect(page.locator(".row.agent")).to_have_count(1)
    [turn] = await daemon.turns()
    assert (turn["status"], turn["attempts"]) == ("completed", 2)


async def test_a_stop_in_good_order(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    surfer.expected.append(AWAY)
    await say(page, "count 10")
    await expect(page.locator(".row.agent.partial")).to_contain_text("1 2")
    assert await daemon.terminate() == 0
    # It lets the answer end and tells it before it goes.
    await expect(answers(page)).to_contain_text("10 done.")
    await expect(page.locator("#bar")).to_have_text("Reconnecting…")
    await daemon.start()
    await expect(page.locator("#bar")).to_be_hidden()
    await say(page, "still there?")
    await expect(answers(page)).to_have_count(2)


async def test_a_newer_version_asks_to_be_loaded(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    surfer.expected.append(AWAY)
    await say(page, "hello")
    await expect(answers(page)).to_have_count(1)

    async def newer(route: Route) -> None:
        await route.fulfill(json={"version": "99.0", "agents": [], "defaultAgent": None})

    await page.route(re.compile("/api/me$"), newer)
    await daemon.kill()
    await expect(page.locator("#bar")).to_have_text("Reconnecting…")
    await daemon.start()
    await expect(page.locator("#bar")).to_contain_text("Trunkline was updated.")
    await page.unroute_all()
    await page.get_by_role("button", name="Reload").click()
    await expect(page.locator("#bar")).to_be_hidden()
    await expect(answers(page)).to_have_count(1)


async def test_a_full_lane_is_waited_for(surfer: Surfer, daemon: Served) -> None:
    daemon.configure('[agents.main]\nkind = "builtin"\nmax_waiting = 1\n')
    page = await surfer.enter()
    surfer.expected.append(re.compile("429"))
    for text in ("wait 600", "one", "two"):
        await say(page, text)
        await expect(bubbles(page).last).to_have_text(text)
        if text == "wait 600":
            await expect(page.locator("#thinking")).to_be_visible()
    await expect(page.locator("#bar")).to_contain_text("waiting")
    await page.keyboard.press("Escape")
    await expect(answers(page)).to_have_text(["You said: one", "You said: two"])
    assert len(await daemon.turns()) == 3


async def test_a_hidden_tab_gives_its_connection_back(surfer: Surfer, daemon: Served) -> None:
    """A browser has six per host. What happens meanwhile is there when the tab is looked at again."""
    page = await surfer.enter()
    await say(page, "hello")
    await expect(answers(page)).to_have_count(1)
    session = session_of(page)
    await page.clock.install()

    async def hide(hidden: bool) -> None:
        script = "hidden => Object.defineProperty(document, 'hidden', {value: hidden, configurable: true})"
        await page.evaluate(script, hidden)
        await page.dispatch_event("body", "visibilitychange", {"bubbles": True})

    def streams() -> int:
        return sum(url.endswith("/events") for url in surfer.asked)

    before = streams()
    await hide(True)
    async with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        await page.clock.run_for(61_000)
    await daemon.ask("POST", f"/api/sessions/{session}/prompt", json={"text": "meanwhile"})
    assert streams() == before
    await hide(False)
    await expect(answers(page)).to_have_text(["You said: hello", "You said: meanwhile"])
    assert streams() == before + 1
