"""From the link to the first paint and to the conversation, in chromium before the running daemon."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from benchmarks import daemon_turns, databases
from benchmarks.daemon_turns import TOKEN, Process
from benchmarks.measuring import table
from store.database import NAME
from tests.browser.surfing import LAUNCH

CHROMIUM = "/usr/bin/chromium"
ROUNDS = 9
SESSIONS, MESSAGES = 10_000, 1_000_000
#: The first session that `databases` makes, of a thousand messages.
LONG = "00000001-0000-7000-8000-000000000000"

#: When the browser painted text for the first time, and what it had asked for, by its own clock.
_TOLD = """() => {
    const paint = performance.getEntriesByName("first-contentful-paint")[0];
    const asked = performance.getEntriesByType("resource");
    return {
        paint: paint.startTime,
        requests: asked.length + 1,
        bytes: asked.reduce((sum, each) => sum + each.transferSize, 0),
    };
}"""


@dataclass(frozen=True, slots=True)
class Visit:
    paint: float
    #: Until the newest messages stand there, or the field to write in if there are none.
    useful: float
    requests: int
    kilobytes: float


def visit(context: BrowserContext, process: Process, session: str | None) -> Visit:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{process.port}/{'' if session is None else '#/' + session}")
    wanted = "#say" if session is None else ".row.agent"
    useful = page.wait_for_function("wanted => document.querySelector(wanted) && performance.now()", arg=wanted)
    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length > 0")
    told: dict[str, Any] = page.evaluate(_TOLD)
    when: float = useful.json_value()
    page.close()
    return Visit(told["paint"], when, told["requests"], told["bytes"] / 1024)


def visits(browser: Browser, process: Process, session: str | None) -> tuple[Visit, Visit]:
    """With an empty cache, and once more."""
    context = browser.new_context()
    context.request.get(f"http://127.0.0.1:{process.port}/?token={TOKEN}")
    first = visit(context, process, session)
    again = visit(context, process, session)
    context.close()
    return first, again


def row(name: str, seen: list[Visit]) -> list[str]:
    paint, useful = (statistics.median(getattr(one, what) for one in seen) for what in ("paint", "useful"))
    return [name, f"{paint:.0f}", f"{useful:.0f}", str(seen[-1].requests), f"{seen[-1].kilobytes:.0f}"]


def report() -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        empty, full = Path(directory) / "empty" / "data", Path(directory) / "full" / "data"
        for data in (empty, full):
            data.mkdir(parents=True)
        databases.make(full / NAME, messages=MESSAGES, sessions=SESSIONS)
        seen = look({"empty": (daemon_turns.start(empty), None), "full": (daemon_turns.start(full), LONG)})
    ratio = {
        place: statistics.median(one.paint for one in seen["full", place])
        / statistics.median(one.paint for one in seen["empty", place])
        for place in ("first", "again")
    }
    names = {"empty": "nothing said yet", "full": "1 M messages", "first": "first visit", "again": "later"}
    rows = [row(f"{names[name]}, {names[place]}", found) for (name, place), found in seen.items()]
    return [
        f"The page in chromium, {ROUNDS} visits each, by the browser's own clock in milliseconds (median): the first",
        "paint; until one can write, or with a history until its newest messages stand there.",
        "",
        *table(["", "paint", "useful", "requests", "kB"], rows),
        "",
        f"First paint with {MESSAGES:,} messages in {SESSIONS:,} sessions, against an empty database:"
        f" {ratio['first']:.2f}x at the first visit, {ratio['again']:.2f}x later.",
    ]


def look(places: dict[str, tuple[Process, str | None]]) -> dict[tuple[str, str], list[Visit]]:
    seen: dict[tuple[str, str], list[Visit]] = {(name, when): [] for name in places for when in ("first", "again")}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=LAUNCH)
        for _ in range(ROUNDS):
            for name, (process, session) in places.items():
                first, again = visits(browser, process, session)
                seen[name, "first"].append(first)
                seen[name, "again"].append(again)
        browser.close()
    for process, _ in places.values():
        process.stop()
    return seen
