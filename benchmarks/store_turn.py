"""What a turn costs in the store, against two usual ways to write it, with the same durability."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Database as SqliteUtils

from gateway.steps import Started, begin
from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import inbox, messages, migrations, outbox, sessions, turns
from store.content import Text, to_json
from store.database import Store, connect
from store.ids import new_id, now, pack, span
from store.inbox import Arrival
from store.messages import HistoryOptions
from store.outbox import Draft
from store.records import NewMessage, OutboxState, Role, Usage
from store.turns import Ending

CONCURRENT = (1, 16, 64, 256)
SECONDS = 0.5
ROUNDS = 7
QUESTION = "q" * 200
ANSWER = "a" * 800

Turn = Callable[[int, int], Awaitable[None]]
Close = Callable[[], Awaitable[None]]
T = TypeVar("T")


class Steps:
    """The writes and the read of one turn, as functions over a connection: accept, begin, page, commit, deliver."""

    def __init__(self, worker: int, number: int) -> None:
        self._address = Address(channel="memory", account="a", chat=str(worker))
        key = SessionKey("bench", "memory", "a", PeerKind.GROUP, str(worker))
        self._arrival = Arrival(external_id=f"{worker}/{number}", key=key, address=self._address, text=QUESTION)

    def accept(self, db: sqlite3.Connection) -> int:
        return inbox.accept(db, self._arrival, now(), max_waiting=50).item.id

    def begin(self, db: sqlite3.Connection, item: int) -> Started:
        started = begin(db, [item], now())
        if started is None:
            raise RuntimeError("nothing to answer")
        return started

    def page(self, db: sqlite3.Connection, started: Started) -> None:
        messages.page(db, started.session.id, HistoryOptions())

    def commit(self, db: sqlite3.Connection, started: Started) -> None:
        commit(db, self._address, started)

    def claim(self, db: sqlite3.Connection) -> int:
        row = outbox.claim(db, self._address.place, now())
        if row is None:
            raise RuntimeError("nothing to deliver")
        return row.id

    def sent(self, db: sqlite3.Connection, row: int) -> None:
        outbox.sent(db, row, "1", now())


def commit(db: sqlite3.Connection, address: Address, started: Started) -> None:
    """The end of a turn: its answer, and the delivery of it."""
    answer = NewMessage(role=Role.AGENT, content=Text(ANSWER, partial=False))
    ending = Ending(answer_summary=ANSWER, usage=Usage(input=50, output=200, source="provider"))
    turns.complete(db, started.turn.id, None, answer, ending, now())
    draft = Draft(address=address, text=ANSWER, turn=started.turn.id)
    outbox.put_answer(db, draft, OutboxState.READY, now())


async def ours(directory: Path) -> tuple[Turn, Close]:
    """The store as it is: the writer thread commits what waits together."""
    store = await Store.open(directory)

    async def turn(worker: int, number: int) -> None:
        steps = Steps(worker, number)
        item = await store.write(steps.accept)
        started = await store.write(lambda db: steps.begin(db, item))
        await store.read(lambda db: steps.page(db, started))
        await store.write(lambda db: steps.commit(db, started))
        row = await store.write(steps.claim)
        await store.write(lambda db: steps.sent(db, row))

    return turn, store.close


async def plain_sqlite(directory: Path) -> tuple[Turn, Close]:
    """The same functions on the same schema with one commit per write, in a thread behind a lock."""
    db = connect(directory / "plain.db")
    migrations.migrate(db, directory / "plain.db")
    lock = asyncio.Lock()

    def work(worker: int, number: int) -> None:
        steps = Steps(worker, number)
        item = _committed(db, steps.accept)
        started = _committed(db, lambda one: steps.begin(one, item))
        steps.page(db, started)
        _committed(db, lambda one: steps.commit(one, started))
        row = _committed(db, steps.claim)
        _committed(db, lambda one: steps.sent(one, row))

    async def turn(worker: int, number: int) -> None:
        async with lock:
            await asyncio.to_thread(work, worker, number)

    async def close() -> None:
        db.close()

    return turn, close


def _committed(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    db.execute("BEGIN IMMEDIATE")
    result = work(db)
    db.execute("COMMIT")
    return result


async def table_api(directory: Path) -> tuple[Turn, Close]:
    """The same rows on the same schema by sqlite-utils' table API, behind `to_thread` and a lock."""
    conn = connect(directory / "table.db")
    migrations.migrate(conn, directory / "table.db")
    db = SqliteUtils(conn)
    for worker in range(max(CONCURRENT)):
        sessions.create(conn, SessionKey("bench", "memory", "a", PeerKind.GROUP, str(worker)), now())
    lock = asyncio.Lock()

    async def turn(worker: int, number: int) -> None:
        async with lock:
            await asyncio.to_thread(_by_table_api, db, worker + 1)

    async def close() -> None:
        conn.close()

    return turn, close


def _by_table_api(db: SqliteUtils, session: int) -> None:
    """Insert, get, update: the calls that the documentation of the library shows first."""
    inbox_, turns_, messages_ = db.table("inbox"), db.table("turns"), db.table("messages")
    sessions_, outbox_ = db.table("sessions"), db.table("outbox")
    key, address, at = sessions_.get(session)["key"], '{"channel":"memory","account":"a","chat":"1"}', now()
    arrived = {"channel": "memory", "external_id": new_id(), "key": key, "address": address, "received_at": at}
    item = str(inbox_.insert({**arrived, "message_id": new_id(), "text": QUESTION}).last_pk)
    row = sessions_.get(session)
    seq, turn = row["last_seq"] + 1, pack(session, row["turn_count"] + 1)
    sessions_.update(session, {"last_seq": seq, "message_count": seq, "turn_count": row["turn_count"] + 1})
    begun = {"conversation_id": row["public_id"], "first_message": seq, "last_message": seq, "created_at": at}
    turns_.insert({"id": turn, "public_id": new_id(), **begun, "instruction_summary": QUESTION, "status_at": at})
    said = {"id": pack(session, seq), "public_id": new_id(), "turn": turn, "role": "user"}
    messages_.insert({**said, "content": to_json({"type": "text", "text": QUESTION})})
    inbox_.update(item, {"state": "running", "turn": turn})
    list(messages_.rows_where("id BETWEEN ? AND ?", span(session), order_by="id desc", limit=50))
    said = {"id": pack(session, seq + 1), "public_id": new_id(), "turn": turn, "role": "agent"}
    messages_.insert({**said, "content": to_json({"type": "text", "text": ANSWER, "partial": False})})
    row = sessions_.get(session)
    totals = {"total_input_tokens": row["total_input_tokens"] + 50, "total_output_tokens": 200}
    sessions_.update(session, {"last_seq": seq + 1, "message_count": seq + 1, **totals})
    turns_.update(turn, {"status": "completed", "answer_summary": ANSWER, "status_at": now()})
    inbox_.update(item, {"state": "done", "text": ""})
    drafted = {"place": key, "address": address, "turn": turn, "kind": "final", "text": ANSWER, "state": "ready"}
    delivery = str(outbox_.insert({**drafted, "created_at": at, "changed_at": at}).last_pk)
    outbox_.update(delivery, {"state": "sending", "attempts": 1})
    outbox_.update(delivery, {"state": "sent", "sent_id": "1"})


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
    """The median of several rounds. The variants take turns in each, so that noise hits all of them."""
    rates: dict[str, dict[int, float]] = {"ours": {}, "sqlite3": {}, "table API": {}}
    with tempfile.TemporaryDirectory() as directory:
        made = {
            "ours": await ours(Path(directory)),
            "sqlite3": await plain_sqlite(Path(directory)),
            "table API": await table_api(Path(directory)),
        }
        offsets = itertools.count(0, 1_000_000)
        for concurrent in CONCURRENT:
            seen: dict[str, list[float]] = {name: [] for name in made}
            for _ in range(ROUNDS):
                for name, (turn, _) in made.items():
                    seen[name].append(await rate(turn, concurrent, next(offsets)))
            for name, found in seen.items():
                rates[name][concurrent] = statistics.median(found)
        for _, close in made.values():
            await close()
    return rates


def report() -> list[str]:
    rates = asyncio.run(measure())
    lines = ["Store, whole turns per second with synchronous=FULL (accept, begin, page, commit, deliver):", ""]
    lines.append("concurrent     ours  sqlite3  table API  x sqlite3  x table API")
    for width in CONCURRENT:
        one, two, three = (rates[name][width] for name in ("ours", "sqlite3", "table API"))
        lines.append(f"{width:>10} {one:>8.0f} {two:>8.0f} {three:>10.0f} {one / two:>10.1f} {one / three:>12.1f}")
    return lines
