"""The daemon is really killed, under load, again and again; every accepted message is answered once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import aiohttp
import pytest

from tests.crash.check import check
from tests.crash.daemon import DaemonProcess
from tests.crash.load import Load, client

KILLS = 100
PEOPLE = 6


@pytest.mark.timeout(600)
@pytest.mark.req("S000-01", "S001-56", "S004-87", "P26")
async def test_kill_at_any_moment(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path)
    daemon.configure()
    chance = random.Random(20261118)
    load = Load(daemon, chance)
    await daemon.start()
    async with client() as http, asyncio.TaskGroup() as tasks:
        sessions = [await load.create_session(http) for _ in range(PEOPLE)]
        people = [tasks.create_task(load.person(http, each, f"p{at}")) for at, each in enumerate(sessions)]
        load.up.set()
        for _ in range(KILLS):
            # Mostly in the rush after the start, sometimes late enough for a long answer to be found half stored.
            await asyncio.sleep(chance.uniform(0.01, 0.3) if chance.random() < 0.8 else chance.uniform(0.3, 1.5))
            load.up.clear()
            await daemon.kill()
            await daemon.start()
            load.up.set()
        for person in people:
            person.cancel()
        await all_answered(http, daemon, sessions)
    assert await daemon.terminate() == 0
    ended = check(daemon.database, load.accepted)
    assert len(load.accepted) > KILLS
    assert ended["completed"] > len(load.accepted) / 2


async def all_answered(http: aiohttp.ClientSession, daemon: DaemonProcess, sessions: list[str]) -> None:
    """Wait, session by session, until nothing is queued and the last turn has ended."""
    for session in sessions:
        url = f"{daemon.url}/api/sessions/{session}"
        async with http.get(f"{url}/events?since=0") as stream:
            while not await answered(http, url):
                await stream.content.readline()


async def answered(http: aiohttp.ClientSession, url: str) -> bool:
    async with http.get(url) as response:
        body = await response.json()
    queued = any(message["state"] == "queued" for message in body["messages"])
    return not queued and all(turn["status"] != "pending" for turn in body["turns"])
