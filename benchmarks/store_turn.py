"""What a turn costs in the store, against two usual ways to write it, with the same durability."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sqlite_utils import Database

from gateway.turn import begin
from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import inbox, messages, outbox, turns
from store.content import Text
from store.database import Store, connect
from store.ids import now
from store.inbox import Arrival
from store.messages import HistoryOptions
from store.outbox import Draft
from store.records import NewMessage, OutboxState, Role, Usage
from store.turns import Ending

CONCURRENT = (1, 16, 64, 256)
SECONDS = 1.5
QUESTION = "q" * 200
ANSWER = "a" * 800

Turn = Callable[[int, int], Awaitable[None]]


async def ours(directory: Path) -> tuple[Turn, Callable[[], Awaitable[None]]]:
    """Accept, begin, read the newest page, complete with an outbox row, deliver: the whole path."""
    store = await Store.open(directory)

    def arrival(worker: int, number: int) -> Arrival:
        key = SessionKey("bench", "memory", "a", PeerKind.GROUP, str(worker))
        address = Address(channel="memory", account="a", chat=str(worker))
        return Arrival(external_id=f"{worker}/{number}", key=key, address=address, text=QUESTION)

    async def turn(worker: int, number: int) -> None:
        accepted = await store.write(lambda db: inbox.accept(db, arrival(worker, number), now(), max_waiting=50))
        started = await store.write(lambda db: begin(db, "bench", [accepted.item.id], now()))
        if started is None:
            raise RuntimeError("nothing to answer")
        await store.read(lambda db: messages.page(db, started.session.id, HistoryOptions()))

        def commit(db: sqlite3.Connection) -> None:
            answer = NewMessage(role=Role.AGENT, content=Text(ANSWER, partial=False))
            ending = Ending(answer_summary=ANSWER, usage=Usage(input=50, output=200, source="provider"))
            turns.complete(db, started.turn.id, None, answer, ending, now())
            draft = Draft(address=started.address, text=ANSWER, session=started.session.id, turn=started.turn.id)
            outbox.put_answer(db, [draft], OutboxState.READY, now())

        await store.write(commit)
        row = await store.write(lambda db: outbox.claim(db, started.address.place, now()))
        if row is None:
            raise RuntimeError("nothing to deliver")
        await store.write(lambda db: outbox.sent(db, row.id, "1", now()))

    return turn, store.close


async def plain_sqlite(directory: Path) -> tuple[Turn, Callable[[], Awaitable[None]]]:
    """The standard library in a thread behind a lock: one commit per write, the same writes and one read."""
    db = connect(directory / "plain.db")
    _tables(db)
    lock = asyncio.Lock()

    def work(worker: int, number: int) -> None:
        db.execute("INSERT INTO inbox (external_id, text) VALUES (?, ?)", (f"{worker}/{number}", QUESTION))
        db.execute("INSERT INTO turns (session, status) VALUES (?, 'pending')", (worker,))
        db.execute("INSERT INTO messages (session, role, content) VALUES (?, 'user', ?)", (worker, QUESTION))
        db.execute("SELECT * FROM messages WHERE session = ? ORDER BY id DESC LIMIT 50", (worker,)).fetchall()
        db.execute("INSERT INTO messages (session, role, content) VALUES (?, 'agent', ?)", (worker, ANSWER))
        db.execute("UPDATE sessions SET tokens = tokens + 250 WHERE id = ?", (worker,))
        db.execute("INSERT INTO outbox (session, text, state) VALUES (?, ?, 'sending')", (worker, ANSWER))
        db.execute("UPDATE outbox SET state = 'sent' WHERE id = (SELECT max(id) FROM outbox)")

    async def turn(worker: int, number: int) -> None:
        async with lock:
            await asyncio.to_thread(work, worker, number)

    async def close() -> None:
        db.close()

    return turn, close


async def table_api(directory: Path) -> tuple[Turn, Callable[[], Awaitable[None]]]:
    """sqlite-utils' table API behind `to_thread` and a lock: what its documentation shows first."""
    conn = connect(directory / "table.db")
    _tables(conn)
    db = Database(conn)
    lock = asyncio.Lock()

    def work(worker: int, number: int) -> None:
        db.table("inbox").insert({"external_id": f"{worker}/{number}", "text": QUESTION})
        db.table("turns").insert({"session": worker, "status": "pending"})
        db.table("messages").insert({"session": worker, "role": "user", "content": QUESTION})
        list(db.table("messages").rows_where("session = ?", [worker], order_by="id desc", limit=50))
        db.table("messages").insert({"session": worker, "role": "agent", "content": ANSWER})
        row = db.table("sessions").get(worker)
        db.table("sessions").update(worker, {"tokens": row["tokens"] + 250})
        sent = db.table("outbox").insert({"session": worker, "text": ANSWER, "state": "sending"})
        db.table("outbox").update(sent.last_pk, {"state": "sent"})

    async def turn(worker: int, number: int) -> None:
        async with lock:
            await asyncio.to_thread(work, worker, number)

    async def close() -> None:
        conn.close()

    return turn, close


def _tables(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE sessions (id INTEGER PRIMARY KEY, tokens INTEGER NOT NULL DEFAULT 0)")
    db.execute("CREATE TABLE inbox (id INTEGER PRIMARY KEY, external_id TEXT UNIQUE, text TEXT)")
    db.execute("CREATE TABLE turns (id INTEGER PRIMARY KEY, session INTEGER, status TEXT)")
    db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, session INTEGER, role TEXT, content TEXT)")
    db.execute("CREATE INDEX messages_session ON messages (session, id)")
    db.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY, session INTEGER, text TEXT, state TEXT)")
    db.executemany("INSERT INTO sessions (id) VALUES (?)", [(number,) for number in range(max(CONCURRENT))])


async def rate(turn: Turn, concurrent: int, offset: int) -> float:
    """Whole turns per second of so many workers, each with a session of its own."""
    until = time.perf_counter() + SECONDS
    done = 0

    async def worker(name: int) -> None:
        nonlocal done
        number = offset
        while time.perf_counter() < until:
            number += 1
            await turn(name, number)
            done += 1

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for name in range(concurrent):
            tasks.create_task(worker(name))
    return done / (time.perf_counter() - began)


async def measure() -> dict[str, dict[int, float]]:
    """The variants take turns at each width, so that noise hits all of them."""
    rates: dict[str, dict[int, float]] = {"ours": {}, "sqlite3": {}, "table API": {}}
    with tempfile.TemporaryDirectory() as directory:
        made = {
            "ours": await ours(Path(directory)),
            "sqlite3": await plain_sqlite(Path(directory)),
            "table API": await table_api(Path(directory)),
        }
        for round_, concurrent in enumerate(CONCURRENT):
            for name, (turn, _) in made.items():
                rates[name][concurrent] = await rate(turn, concurrent, round_ * 1_000_000)
        for _, close in made.values():
            await close()
    return rates


def report() -> list[str]:
    rates = asyncio.run(measure())
    lines = ["Store, whole turns per second with synchronous=FULL (accept, begin, page, commit, deliver):", ""]
    lines.append(f"{'concurrent':>10} {'ours':>8} {'sqlite3':>8} {'table API':>10} {'x sqlite3':>10} {'x table API':>12}")
    for width in CONCURRENT:
        one, two, three = (rates[name][width] for name in ("ours", "sqlite3", "table API"))
        lines.append(f"{width:>10} {one:>8.0f} {two:>8.0f} {three:>10.0f} {one / two:>10.1f} {one / three:>12.1f}")
    return lines
