"""A history of thousands: paged in as one scrolls, never all of it on the page."""

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser import past
from tests.browser.surfing import Served, Surfer, answers, say

pytestmark = pytest.mark.asyncio(loop_scope="module")

COUNT = 2_400
#: What history.js keeps, and one page more while it changes.
MOST = 350

TOP = "document.getElementById('log').scrollTop = 0"


def message(page: Page, number: int) -> Locator:
    return page.locator(".row").filter(has_text=f"Message {number}.")


async def numbers(page: Page) -> list[int]:
    """The messages on the page."""
    found = await page.evaluate(
        r"[...document.querySelectorAll('.row')].map(row => +/Message (\d+)/.exec(row.textContent)[1])"
    )
    return [int(number) for number in found]


async def first(page: Page) -> int:
    await page.wait_for_selector(".row")
    return (await numbers(page))[0]


def pages(surfer: Surfer) -> int:
    return sum("/messages?" in url for url in surfer.asked)


async def back(page: Page) -> None:
    """Scroll to the top, and wait until there is more above or the beginning is reached."""
    before = await first(page)
    await page.evaluate(TOP)
    await page.wait_for_function(
        r"before => +/Message (\d+)/.exec(document.querySelector('.row').textContent)[1] < before", arg=before
    )


@pytest.mark.req("CARD-20")
@pytest.mark.timeout(180)
async def test_back_through_thousands(surfer: Surfer, daemon: Served) -> None:
    session = past.long(daemon, COUNT)
    page = await surfer.enter(f"#/{session}")
    await expect(message(page, COUNT)).to_be_in_viewport()
    assert len(await numbers(page)) <= 100
    assert pages(surfer) <= 2
    sizes = []
    while await first(page) > 1:
        await back(page)
        shown = await numbers(page)
        # In order, without a gap, and never more than a window of it.
        assert shown == list(range(shown[0], shown[-1] + 1))
        assert len(shown) <= MOST
        sizes.append(await page.evaluate("document.querySelectorAll('*').length"))
    # Each page was asked for once, and the page does not grow while one goes back.
    assert pages(surfer) <= COUNT / 50 + 1
    assert max(sizes) < MOST * 20
    assert max(sizes[len(sizes) // 2 :]) <= 1.1 * max(sizes[: len(sizes) // 2])
    await expect(page.locator("#older")).to_have_text("This is where the chat begins.")
    # And forward again, by scrolling and at once.
    last = (await numbers(page))[-1]
    assert last < COUNT
    await page.evaluate("log = document.getElementById('log'), log.scrollTop = log.scrollHeight")
    await expect(message(page, last + 50)).to_be_attached()
    assert len(await numbers(page)) <= MOST
    await page.get_by_role("button", name="Jump to newest").click()
    await expect(message(page, COUNT)).to_be_in_viewport()
    await expect(page.locator("#newest")).to_be_hidden()


async def test_the_eye_stays_where_it_is(surfer: Surfer, daemon: Served) -> None:
    session = past.long(daemon, 300)
    page = await surfer.enter(f"#/{session}")
    await expect(message(page, 300)).to_be_in_viewport()
    # At the very top, where no browser keeps the position by itself.
    for _ in range(3):
        await page.evaluate("""() => {
            document.getElementById("log").scrollTop = 0;
            window.row = document.querySelector(".row");
            window.before = row.getBoundingClientRect().top;
        }""")
        await page.wait_for_function("() => window.row.previousElementSibling !== null")
        assert abs(await page.evaluate("window.row.getBoundingClientRect().top - window.before")) < 2


async def test_what_is_new_is_not_mixed_into_what_is_old(surfer: Surfer, daemon: Served) -> None:
    session = past.long(daemon, 600)
    page = await surfer.enter(f"#/{session}")
    while await first(page) > 1:
        await back(page)
    assert (await numbers(page))[-1] < 600
    await daemon.ask("POST", f"/api/sessions/{session}/prompt", json={"text": "Message 601."})
    await expect(page.locator("#sessions .facts")).to_contain_text("now")
    shown = await numbers(page)
    assert shown == list(range(1, len(shown) + 1))
    # Who speaks is taken to the end.
    await say(page, "Message 603.")
    await expect(message(page, 603).last).to_be_in_viewport()
    await expect(answers(page).last).to_have_text("You said: Message 603.")
    assert (await numbers(page))[-4:] == [601, 601, 603, 603]
    await expect(page.locator("#newest")).to_be_hidden()
