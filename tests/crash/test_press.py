"""The daemon is killed while somebody answers a request: what was told is what is stored, and nothing stays open."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from tests.crash.daemon import DaemonProcess
from tests.crash.load import client

ROUNDS = 12


@pytest.mark.timeout(300)
@pytest.mark.req("P52", "P53")
async def test_a_press_around_a_kill(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path)
    daemon.configure()
    chance = random.Random(6)
    told: dict[str, bool] = {}
    await daemon.start()
    async with client() as http:
        for _ in range(ROUNDS):
            question = await asked(http, daemon)
            press = asyncio.create_task(choose(http, daemon, question))
            await asyncio.sleep(chance.choice([0.0, 0.002, 0.005, 0.01, 0.05]))
            await daemon.kill()
            told[question] = await press
            await daemon.start()
            # Over in any case: there is nobody any more who waits for the answer.
            assert not await choose(http, daemon, question)
    assert await daemon.terminate() == 0
    with closing(sqlite3.connect(daemon.database)) as db:
        states = dict(db.execute("SELECT token, state FROM questions").fetchall())
    for question, heard in told.items():
        assert states[question] == "chosen" if heard else states[question] in ("chosen", "closed")
    assert "open" not in {states[question] for question in told}
    assert {"chosen", "closed"} <= set(states.values())


async def asked(http: aiohttp.ClientSession, daemon: DaemonProcess) -> str:
    """A new session whose agent waits for a permission."""
    async with http.post(f"{daemon.url}/api/sessions", json={}) as made:
        session = (await made.json())["id"]
    url = f"{daemon.url}/api/sessions/{session}"
    async with http.get(f"{url}/events?since=0") as stream, http.post(f"{url}/prompt", json={"text": "ask"}):
        while True:
            async with http.get(f"{url}/questions") as response:
                if found := await response.json():
                    return str(found[0]["id"])
            await stream.content.readline()


async def choose(http: aiohttp.ClientSession, daemon: DaemonProcess, question: str) -> bool:
    """Whether we were told that it counts."""
    try:
        async with http.post(f"{daemon.url}/api/questions/{question}", json={"option": 1}) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False
