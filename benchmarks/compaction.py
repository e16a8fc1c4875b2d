"""What a turn costs in a conversation of ten thousand turns that is compacted as it grows; also as a chart."""

from __future__ import annotations

import sqlite3
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import chart, store_turn
from benchmarks.measuring import instructions, table
from gateway import chains, compaction, context
from gateway.compaction import Plan, Wanted
from gateway.config import Compaction, Strategy
from gateway.steps import begin
from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import compactions, inbox, migrations, outbox, pins, sessions
from store.ids import now
from store.inbox import Arrival

TURNS = 10_000
#: Of every so many turns, as many in a row are measured: enough for one of them to be compacted after.
EVERY, MEASURED = 500, 40
WINDOW = 2048
TEXT = "What was said here is about as long as this, and that is not very long. "
RESULTS = Path(__file__).with_name("results")
STRATEGIES = (Strategy.NONE, Strategy.WINDOW, Strategy.SUMMARY)

KEY = SessionKey("main", "api", "owner", PeerKind.DM, "long")
ADDRESS = Address(channel="api", account="owner", chat="long")


def turn(db: sqlite3.Connection, number: int, wanted: Wanted) -> None:
    """A turn in the store, from the message to its delivered answer, with the compaction after it."""
    arrival = Arrival(external_id=str(number), key=KEY, address=ADDRESS, text=TEXT)
    started = begin(db, [inbox.accept(db, arrival, now(), max_waiting=50).item.id], now())
    if started is None:
        raise RuntimeError("nothing to answer")
    context.load(db, started.turn, wanted.window)
    chains.previous(db, started.turn, now())
    store_turn.commit(db, ADDRESS, started)
    if wanted.rules.strategy is not Strategy.NONE:
        planned = compaction.decide(db, started.session.id, wanted, now())
        if isinstance(planned, Plan):
            compaction.finish(db, planned, "What was said until then, in short.", now())
    row = outbox.claim(db, ADDRESS.place, now())
    if row is not None:
        outbox.sent(db, row.id, "1", now())


def live(strategy: Strategy, turns: int = TURNS) -> Iterator[tuple[int, float]]:
    """Live through a conversation: so many turns, and the mean of instructions of one around there."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    migrations.migrate(db, Path(":memory:"))
    wanted = Wanted(rules=Compaction(strategy=strategy), window=WINDOW, summarises=True)
    counts: list[int] = []
    for number in range(1, turns + 1):
        place = number % EVERY
        if place < MEASURED:
            counts.append(instructions(db, lambda number=number: turn(db, number, wanted)))  # type: ignore[misc]
        else:
            turn(db, number, wanted)
        if number == 1:
            session = sessions.live(db, KEY)
            pinned = [] if session is None else context.fill(db, session.id, 2, context.Cut(), WINDOW).history
            pins.put(db, pinned[0], now())
        if place == MEASURED - 1:
            yield number, statistics.mean(counts)
            counts = []
    session = sessions.live(db, KEY)
    if session is not None and (strategy is not Strategy.NONE) != bool(compactions.of_session(db, session.id)):
        raise RuntimeError("not compacted as it should be")
    db.close()


def report() -> list[str]:
    lines = {strategy.value: list(live(strategy)) for strategy in STRATEGIES}
    RESULTS.mkdir(exist_ok=True)
    title, up = "What a turn costs in a conversation that is compacted", "SQLite's instructions"
    (RESULTS / "compaction.svg").write_text(chart.draw(title, "turns before it", up, lines))
    shown = [place for place in range(len(lines["none"])) if place in {1, 2, 4, 8, 12, 16, len(lines["none"]) - 1}]
    rows = [[f"{lines['none'][place][0]:,}", *(f"{line[place][1]:,.0f}" for line in lines.values())] for place in shown]
    grown = ", ".join(f"{name} {line[-1][1] / line[1][1]:.2f}x" for name, line in lines.items())
    return [
        f"A turn in a conversation of {TURNS:,} turns with a pinned first message, context window {WINDOW}: SQLite's",
        f"instructions of message, context, answer, compaction and delivery; means of {MEASURED} turns in a row.",
        "",
        *table(["turns", *lines], rows),
        "",
        f"From turn {lines['none'][1][0]:,} to the last: {grown}.",
        "Chart: compaction.svg",
    ]
