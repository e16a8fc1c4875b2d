"""Whole turns through the daemon over HTTP; start with a large database; memory at rest."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.store.scale import build

ROOT = Path(__file__).parents[1]
TOKEN = "a-token-for-benchmarks"
SESSIONS = 64
PER_SESSION = 60
BIG = 1_000_000


@dataclass(slots=True)
class Process:
    child: subprocess.Popen[str]
    port: int
    #: From the start of the process to its first word.
    seconds: float

    def stop(self) -> None:
        self.child.terminate()
        self.child.communicate()


def start(data: Path) -> Process:
    config = data.parent / "config.toml"
    config.write_text(
        f'[gateway]\ndata_dir = "{data}"\n[http]\nlisten = "127.0.0.1:0"\n'
        '[agents.main]\nkind = "builtin"\nmax_waiting = 10000\n'
    )
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "gateway", "run", "--config", str(config), "--log-level", "warning"],
        cwd=ROOT,
        env={**os.environ, "TRUNKLINE_ADMIN_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        text=True,
    )
    line = child.stdout.readline() if child.stdout else ""
    port = re.search(r":(\d+)\s*$", line)
    if port is None:
        raise RuntimeError(f"the daemon did not start: {line!r}")
    return Process(child, int(port[1]), time.perf_counter() - began)


async def request(port: int, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str, body: str) -> bytes:
    """A request on a connection that stays open; small enough not to be what is measured."""
    reader, writer = streams
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    answer = await reader.readexactly(int(length[1]) if length else 0)
    if head[9] != ord("2"):
        raise RuntimeError(f"{head!r} {answer!r}")
    return answer


async def load(port: int, database: Path) -> float:
    """Turns per second: every session sends without waiting for answers; the last answer stops the clock."""

    async def session() -> tuple[tuple[asyncio.StreamReader, asyncio.StreamWriter], str]:
        streams = await asyncio.open_connection("127.0.0.1", port)
        return streams, json.loads(await request(port, streams, "/api/sessions", "{}"))["id"]

    async def send(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], name: str) -> None:
        for number in range(PER_SESSION):
            await request(port, streams, f"/api/sessions/{name}/prompt", f'{{"text":"hello","id":"{number}"}}')

    sessions = await asyncio.gather(*(session() for _ in range(SESSIONS)))
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    began = time.perf_counter()
    await asyncio.gather(*(send(*one) for one in sessions))
    while still_open(db):  # noqa: ASYNC110 (the daemon is another process)
        await asyncio.sleep(0.01)
    seconds = time.perf_counter() - began
    db.close()
    for (_, writer), _ in sessions:
        writer.close()
    return SESSIONS * PER_SESSION / seconds


def still_open(db: sqlite3.Connection) -> int:
    waiting = "SELECT count(*) FROM inbox WHERE state IN ('waiting', 'running')"
    sending = "SELECT count(*) FROM outbox WHERE state IN ('held', 'ready', 'sending')"
    return int(db.execute(waiting).fetchone()[0]) + int(db.execute(sending).fetchone()[0])


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else float("nan")


def report() -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        process = start(data)
        idle = resident_mb(process.child.pid)
        small = process.seconds
        rates = [asyncio.run(load(process.port, data / "trunkline.db")) for _ in range(3)]
        busy = resident_mb(process.child.pid)
        process.stop()
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory) / "data"
        data.mkdir()
        build(data / "trunkline.db", messages=BIG, sessions=1000)
        process = start(data)
        big, big_idle = process.seconds, resident_mb(process.child.pid)
        process.stop()
    return [
        f"Daemon, {SESSIONS} sessions over HTTP, built-in agent: best {max(rates):.0f} whole turns/s"
        f" (runs: {', '.join(f'{rate:.0f}' for rate in rates)})",
        f"Start to ready: {small:.2f} s empty, {big:.2f} s with {BIG:,} messages",
        f"Memory: {idle:.0f} MB idle, {big_idle:.0f} MB idle with {BIG:,} messages,"
        f" {busy:.0f} MB after {3 * SESSIONS * PER_SESSION:,} turns",
    ]
