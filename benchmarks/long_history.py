"""What a turn costs while its conversation grows from ten messages to a hundred thousand; also as a chart."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import chart, daemon_turns, store_turn
from benchmarks.measuring import instructions, medians, table
from gateway import context
from gateway.steps import Started, begin
from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import inbox, messages, migrations, outbox, sessions
from store.content import Text
from store.database import NAME, connect
from store.ids import now
from store.inbox import Arrival
from store.records import NewMessage, Role, Session

LENGTHS = (10, 100, 1_000, 10_000, 100_000)
#: Tokens that the agent is given, the default of `context_window`.
BUDGET = 1024
#: Turns that are sent at once to the daemon; the time is theirs together.
BURST = 40
RUNS = 5
ROUNDS = 15
TEXT = "What was said here is about as long as this. "
RESULTS = Path(__file__).with_name("results")

Read = Callable[[sqlite3.Connection, Started], object]
Times = dict[str, dict[int, float]]


def fill(db: sqlite3.Connection) -> dict[int, Session]:
    """A session of each length."""
    made = {}
    for length in LENGTHS:
        session = sessions.create(db, SessionKey("main", "api", "owner", PeerKind.DM, str(length)), now())
        rows = [NewMessage(role=Role.AGENT if n % 2 else Role.USER, content=Text(TEXT)) for n in range(length)]
        messages.append(db, session.id, rows, now())
        made[length] = session
    return made


def bounded(db: sqlite3.Connection, started: Started) -> object:
    """As the gateway does it: the newest part, up to the budget."""
    return context.load(db, started.turn, BUDGET)


def everything(db: sqlite3.Connection, started: Started) -> object:
    """For comparison, as many do it: the whole history for each turn."""
    return [message.content for message in messages.every(db, started.session.id)]


def turn(db: sqlite3.Connection, session: Session, read: Read) -> None:
    """A turn in the store, from the message to its delivered answer; it is taken back, so that nothing grows."""
    address = Address(channel="api", account="owner", chat=session.key.peer_id)
    db.execute("BEGIN IMMEDIATE")
    arrival = Arrival(external_id="bench", key=session.key, address=address, text=TEXT)
    item = inbox.accept(db, arrival, now(), max_waiting=50).item.id
    started = begin(db, [item], now())
    if started is None:
        raise RuntimeError("nothing to answer")
    read(db, started)
    store_turn.commit(db, address, started)
    row = outbox.claim(db, address.place, now())
    if row is None:
        raise RuntimeError("nothing to deliver")
    outbox.sent(db, row.id, "1", now())
    db.execute("ROLLBACK")


def in_the_store(db: sqlite3.Connection, made: dict[int, Session], read: Read) -> tuple[dict[int, float], list[int]]:
    """Milliseconds and instructions by length."""

    def work(session: Session) -> Callable[[], None]:
        return lambda: turn(db, session, read)

    works = {length: work(session) for length, session in made.items()}
    return medians(works, ROUNDS), [instructions(db, each) for each in works.values()]


async def burst(port: int, database: Path, session: str, run: int) -> float:
    """Milliseconds per turn of one conversation, over HTTP and with everything committed."""
    streams = await asyncio.open_connection("127.0.0.1", port)
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    began = time.perf_counter()
    for number in range(BURST):
        body = f'{{"text":"hello","id":"{run}-{number}"}}'
        await daemon_turns.request(port, streams, f"/api/sessions/{session}/prompt", body)
    while daemon_turns.still_open(db):  # noqa: ASYNC110 (the daemon is another process)
        await asyncio.sleep(0.005)
    took = (time.perf_counter() - began) * 1000 / BURST
    db.close()
    streams[1].close()
    return took


def in_the_daemon(data: Path, made: dict[int, Session]) -> dict[int, float]:
    """The best of a few runs by length, because another program's work can only make it longer."""
    process = daemon_turns.start(data)
    best = dict.fromkeys(made, float("inf"))
    for run in range(RUNS):
        for length, session in made.items():
            took = asyncio.run(burst(process.port, data / NAME, session.public_id, run))
            best[length] = min(best[length], took)
    process.stop()
    return best


def measure() -> tuple[Times, dict[str, list[int]]]:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        data.mkdir()
        db = connect(data / NAME)
        migrations.migrate(db, data / NAME)
        db.execute("BEGIN")
        made = fill(db)
        db.execute("COMMIT")
        # One way after the other: reading all of a long history leaves nothing else in the cache.
        ours, ours_steps = in_the_store(db, made, bounded)
        naive, naive_steps = in_the_store(db, made, everything)
        db.close()
        daemon = in_the_daemon(data, made)
    return {"daemon": daemon, "store": ours, "all": naive}, {"store": ours_steps, "all": naive_steps}


def report() -> list[str]:
    took, steps = measure()
    names = {
        "daemon": "a whole turn through the daemon, over HTTP and committed",
        "store": "its part in the store, without the commit",
        "all": "the same, if each turn read the whole history",
    }
    lines = {names[name]: list(times.items()) for name, times in took.items()}
    RESULTS.mkdir(exist_ok=True)
    drawing = chart.draw("What a turn costs while the history grows", "messages in the conversation", "ms", lines)
    (RESULTS / "long_history.svg").write_text(drawing)
    head = ["messages", "daemon ms", "store ms", "steps", "whole history ms", "steps"]
    rows = [
        [
            f"{length:,}",
            f"{took['daemon'][length]:.2f}",
            f"{took['store'][length]:.2f}",
            f"{steps['store'][place]:,}",
            f"{took['all'][length]:.2f}",
            f"{steps['all'][place]:,}",
        ]
        for place, length in enumerate(LENGTHS)
    ]
    first, last = LENGTHS[1], LENGTHS[-1]
    grown = {name: times[last] / times[first] for name, times in took.items()}
    return [
        "A turn in a conversation of so many messages: through the daemon (best), in the store (median, without the",
        "commit), and in the store if it read the whole history; steps are SQLite's instructions.",
        "",
        *table(head, rows),
        "",
        f"From {first:,} to {last:,} messages: daemon {grown['daemon']:.2f}x, store {grown['store']:.2f}x"
        f" (steps {steps['store'][-1] / steps['store'][1]:.2f}x), whole history {grown['all']:.0f}x.",
        "Chart: long_history.svg",
    ]
