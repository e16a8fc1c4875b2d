"""A conversation: sent, streamed, queued, stopped, tried again, kept."""

import re

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.surfing import Served, Surfer, answers, bubbles, say, session_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

TWO_AGENTS = """
[agents.main]
kind = "builtin"
name = "Ada"

[agents.quiet]
kind = "builtin"
name = "Grace"
"""


async def test_a_message_is_answered_and_the_answer_grows_in_place(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    # Every state of the first paragraph that was ever shown.
    await page.evaluate("""() => {
        window.seen = new Set();
        const look = () => document.querySelectorAll(".row.agent").forEach((row) => seen.add(row));
        window.texts = [];
        new MutationObserver(() => {
            look();
            const text = document.querySelector(".row.agent .markdown")?.textContent;
            if (text && text !== texts.at(-1)) texts.push(text);
        }).observe(document.getElementById("rows"), {childList: true, subtree: true, characterData: true});
    }""")
    await say(page, "count 12")
    await expect(page.locator(".row.agent.partial")).to_contain_text("1 2")
    await expect(page.locator("#subtitle")).to_contain_text("answering")
    await expect(answers(page)).to_have_text("1 2 3 4 5 6 7 8 9 10 11 12 done.")
    await expect(page.locator("#subtitle")).not_to_contain_text("answering")
    texts = await page.evaluate("window.texts")
    assert len(texts) > 2
    assert all(after.startswith(before.rstrip()) for before, after in zip(texts, texts[1:], strict=False))
    assert await page.evaluate("window.seen.size") == 1
    await expect(page.locator(".row.user .meta")).to_contain_text("Sent")
    await expect(page.locator("#announce")).to_contain_text("main: 1 2 3")
    # One came to the page to chat: the chat has a name now, in the list and on the tab.
    await expect(page.locator("#sessions a[aria-current=page]")).to_contain_text("count 12")
    await expect(page).to_have_title("count 12 · Trunkline")
    [turn] = await daemon.turns()
    assert turn["status"] == "completed"


async def test_reload_keeps_everything(surfer: Surfer) -> None:
    page = await surfer.enter()
    await say(page, "first line\nsecond line")
    await expect(answers(page)).to_have_count(1)
    await page.fill("#say", "half a thou")
    await page.reload()
    await expect(bubbles(page)).to_have_text("first line\nsecond line")
    await expect(answers(page)).to_contain_text("You said: first line")
    await expect(page.locator("#say")).to_have_value("half a thou")
    # A draft belongs to its chat.
    await page.get_by_role("button", name="New chat").click()
    await expect(page.locator("#welcome")).to_be_visible()
    await expect(page.locator("#say")).to_have_value("")
    await page.fill("#say", "another")
    await page.get_by_role("link", name="first line").click()
    await expect(page.locator("#say")).to_have_value("half a thou")
    await page.go_back()
    await expect(page.locator("#say")).to_have_value("another")


async def test_what_waits_is_shown_as_queued_and_stop_lets_it_go_on(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    await say(page, "wait 600")
    await expect(page.locator("#thinking")).to_be_visible()
    await say(page, "one")
    await say(page, "two")
    await expect(page.locator(".row.waiting")).to_have_count(2)
    await expect(page.locator(".row.waiting").first).to_contain_text("Queued")
    await page.reload()
    await expect(page.locator(".row.waiting .bubble")).to_have_text(["one", "two"])
    await page.get_by_role("button", name="Stop the answer").click()
    await expect(page.locator(".row.failed")).to_contain_text("Stopped")
    await expect(answers(page)).to_have_text(["You said: one", "You said: two"])
    await expect(page.locator(".row.waiting")).to_have_count(0)
    await expect(bubbles(page)).to_have_text(["wait 600", "one", "two"])
    await expect(page.locator("#stop")).to_be_hidden()
    assert [turn["status"] for turn in await daemon.turns()] == ["failed", "completed", "completed"]


async def test_escape_stops(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    await say(page, "count 9999")
    await expect(page.locator(".row.agent.partial")).to_contain_text("1 2")
    await page.keyboard.press("Escape")
    await expect(page.locator(".row.failed")).to_contain_text("Stopped by the user")
    # What there was of the answer stays, marked as a part.
    await expect(page.locator(".row.agent.incomplete")).to_contain_text("1 2")
    await expect(page.locator("#say")).to_be_focused()
    [turn] = await daemon.turns()
    assert turn["errors"] == ["stopped"]


@pytest.mark.req("S004-151")
async def test_a_failed_turn_says_why_and_can_be_tried_again(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    await say(page, "fail")
    await expect(page.locator(".row.failed")).to_contain_text("you asked me to fail, so I did.")
    [before] = await daemon.turns()
    await page.get_by_role("button", name="Retry").dblclick()
    await expect(page.locator(".row.failed")).to_have_count(2)
    await expect(bubbles(page)).to_have_text(["fail", "fail"])
    first, second = await daemon.turns()
    assert first == before
    assert (second["sequenceNumber"], second["instructionSummary"]) == (2, "fail")
    await page.reload()
    await expect(page.get_by_role("button", name="Retry")).to_have_count(2)


async def test_a_double_click_makes_one_turn(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    for text in ("once", "and again"):
        await page.fill("#say", text)
        await page.get_by_role("button", name="Send").dblclick()
        await expect(answers(page).last).to_have_text(f"You said: {text}")
    assert [turn["instructionSummary"] for turn in await daemon.turns()] == ["once", "and again"]
    assert len(await daemon.sessions()) == 1


async def test_an_answer_that_got_lost_makes_one_turn(surfer: Surfer, daemon: Served) -> None:
    """The daemon takes the message, and the page does not hear of it: it asks again under the same id."""
    page = await surfer.enter()
    surfer.expected.append(re.compile("ERR_FAILED"))
    lost: list[str] = []

    async def lose(route: Route) -> None:
        await route.fetch()
        lost.append(route.request.url)
        await route.abort()

    await page.route(re.compile(r"/api/sessions$"), lose, times=1)
    await page.route(re.compile(r"/prompt$"), lose, times=1)
    await say(page, "exactly once")
    await expect(answers(page)).to_have_text("You said: exactly once")
    await expect(bubbles(page)).to_have_text("exactly once")
    assert len(lost) == 2
    assert len(await daemon.sessions()) == 1
    assert len(await daemon.turns()) == 1


async def test_enter_within_an_input_method_does_not_send(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    await page.fill("#say", "にほん")
    for composing in ({"isComposing": True}, {"keyCode": 229}):
        await page.dispatch_event("#say", "keydown", {"key": "Enter", "bubbles": True, **composing})
    await page.press("#say", "Shift+Enter")
    await expect(page.locator("#say")).to_have_value("にほん\n")
    assert await daemon.sessions() == []


async def test_two_tabs(surfer: Surfer, daemon: Served) -> None:
    one = await surfer.enter()
    await say(one, "wait 600")
    await expect(one.locator("#thinking")).to_be_visible()
    two = await one.context.new_page()
    await two.goto(one.url)
    await expect(bubbles(two)).to_have_text("wait 600")
    await say(two, "from the other tab")
    await expect(one.locator(".row.waiting")).to_contain_text("from the other tab")
    await one.keyboard.press("Escape")
    for page in (one, two):
        await expect(answers(page)).to_have_text("You said: from the other tab")
        await expect(bubbles(page)).to_have_text(["wait 600", "from the other tab"])
        await expect(page.locator("#stop")).to_be_hidden()
    # A chat that is made in one is listed in the other.
    await two.get_by_role("button", name="New chat").click()
    await say(two, "a third thing")
    await expect(one.locator("#sessions li").first).to_contain_text("a third thing")
    assert len(await daemon.turns()) == 3


async def test_agents_to_choose_from(surfer: Surfer, daemon: Served) -> None:
    daemon.configure(TWO_AGENTS)
    page = await surfer.enter()
    await expect(page.get_by_label("Talk to")).to_have_value("main")
    await page.get_by_label("Talk to").select_option("Grace")
    await say(page, "hello Grace")
    await expect(answers(page)).to_have_count(1)
    await expect(page.locator("#subtitle")).to_have_text("Grace")
    await expect(page.locator("#sessions a")).to_contain_text("Grace")
    [session] = await daemon.sessions()
    assert (session["agentId"], session["title"]) == ("quiet", "hello Grace")


async def test_the_list_goes_by_activity(surfer: Surfer) -> None:
    page = await surfer.enter()
    for text in ("older", "newer"):
        await page.get_by_role("button", name="New chat").click()
        await say(page, text)
        await expect(answers(page)).to_have_text(f"You said: {text}")
    names = page.locator("#sessions .name")
    await expect(names).to_have_text(["newer", "older"])
    await names.get_by_text("older").click()
    await expect(answers(page)).to_have_text("You said: older")
    await say(page, "again")
    await expect(names).to_have_text(["older", "newer"])


async def test_to_and_fro_leaves_one_stream_open(surfer: Surfer) -> None:
    page = await surfer.enter()
    for text in ("one", "two"):
        await page.get_by_role("button", name="New chat").click()
        await say(page, text)
        await expect(answers(page)).to_have_text(f"You said: {text}")
        await expect(page.locator("#sessions .name").first).to_have_text(text)
    # Quicker than anything can be loaded.
    await page.evaluate("""() => {
        const links = [...document.querySelectorAll("#sessions a")];
        for (let turn = 0; turn < 7; turn += 1) links[turn % 2].click();
    }""")
    await expect(answers(page)).to_have_text("You said: two")
    await say(page, "three")
    await expect(answers(page)).to_have_text(["You said: two", "You said: three"])
    assert surfer.streams() == 1


async def test_rename_and_archive(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    await say(page, "x" * 100)
    await expect(page.locator("#title")).to_have_text("x" * 79 + "…")
    await page.get_by_role("button", name="Rename this chat").click()
    await page.get_by_label("Title of this chat").fill("Crosses")
    await page.keyboard.press("Enter")
    await expect(page.locator("#sessions .name")).to_have_text("Crosses")
    await page.get_by_role("button", name="Rename this chat").click()
    await page.get_by_label("Title of this chat").fill("Noughts")
    await page.keyboard.press("Escape")
    await expect(page.locator("#title")).to_have_text("Crosses")
    where = page.url
    await page.get_by_role("button", name="Archive this chat").click()
    await page.get_by_role("button", name="Keep it").click()
    await page.get_by_role("button", name="Archive this chat").click()
    await page.get_by_role("button", name="Archive", exact=True).click()
    await expect(page.locator("#no-sessions")).to_be_visible()
    await expect(page.locator("#welcome")).to_be_visible()
    # It can still be read where it was.
    await page.goto(where)
    await expect(page.locator("#ended")).to_contain_text("takes no more messages")
    await expect(page.locator("#say")).to_be_hidden()
    [session] = await daemon.sessions()
    assert (session["status"], session["title"]) == ("archived", "Crosses")


async def test_a_message_that_is_refused_is_kept(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    surfer.expected.append(re.compile("409|404"))
    await say(page, "hello")
    await expect(answers(page)).to_have_count(1)
    await page.fill("#say", "too late")
    await daemon.ask("POST", f"/api/sessions/{session_of(page)}/complete")
    await page.press("#say", "Enter")
    await expect(page.locator(".row.waiting.failed .meta")).to_contain_text("completed")
    await page.get_by_role("button", name="Discard").click()
    await expect(page.locator(".row.waiting")).to_have_count(0)
    await page.goto(f"{daemon.url}/#/00000000-0000-0000-0000-000000000000")
    await expect(page.locator("#bar")).to_contain_text("does not exist")
    await expect(page.locator("#welcome")).to_be_visible()


@pytest.mark.req("S004-136")
async def test_full_texts_are_loaded_when_a_turn_is_opened(surfer: Surfer) -> None:
    page = await surfer.enter()
    text = "a long story " * 100
    await say(page, text)
    await expect(answers(page)).to_have_count(1)
    await page.reload()
    await expect(answers(page)).to_have_count(1)

    def payloads() -> list[str]:
        return [url for url in surfer.asked if url.endswith(("/instruction", "/answer"))]

    assert payloads() == []
    await page.get_by_role("button", name="Details").click()
    details = page.locator(".details")
    await expect(details).to_contain_text("builtin")
    await expect(details).to_contain_text("300 in, 302 out (estimated)")
    await expect(details.locator("pre").first).to_have_text(text[:1024])
    assert payloads() == []
    await details.get_by_role("button", name="Show the full text").first.click()
    await expect(details.locator("pre").first).to_have_text(text)
    assert len(payloads()) == 1


async def test_long_answers_do_not_move_whoever_reads_above(surfer: Surfer) -> None:
    page = await surfer.enter(viewport={"width": 1000, "height": 500})
    await say(page, "\n".join(str(number) for number in range(80)))
    await expect(answers(page)).to_have_count(1)
    await expect(page.locator("#newest")).to_be_hidden()
    assert await gap(page) < 5
    await page.evaluate("document.getElementById('log').scrollTop = 300")
    await expect(page.locator("#newest")).to_be_visible()
    await page.evaluate(
        "fetch(`/api/sessions/${location.hash.slice(2)}/prompt`, {method: 'POST', body: '{\"text\": \"x\"}'})"
    )
    await expect(answers(page)).to_have_count(2)
    assert await page.evaluate("document.getElementById('log').scrollTop") == 300
    await page.get_by_role("button", name="Jump to newest").click()
    await expect(page.locator("#newest")).to_be_hidden()
    assert await gap(page) < 5


async def gap(page: Page) -> float:
    """How far the log is from its bottom."""
    return float(
        await page.evaluate(
            "(log => log.scrollHeight - log.scrollTop - log.clientHeight)(document.getElementById('log'))"
        )
    )


async def test_commands_are_answered_and_not_kept(surfer: Surfer, daemon: Served) -> None:
    page = await surfer.enter()
    await say(page, "hello")
    await expect(answers(page)).to_have_count(1)
    await say(page, "/status")
    await expect(page.locator("#note")).to_contain_text("2 messages in this conversation")
    await say(page, "/stauts")
    await expect(page.locator("#note")).to_contain_text("Did you mean /status?")
    await say(page, "/etc/hosts is a path")
    await expect(answers(page)).to_have_count(2)
    await expect(page.locator("#note")).to_be_hidden()
    assert len(await daemon.turns()) == 2
    await say(page, "/new")
    await expect(page.locator("#title")).to_have_text("New chat")
