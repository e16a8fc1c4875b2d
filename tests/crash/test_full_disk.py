"""The disk is full, under load, with and without a kill: nothing accepted is lost, and it recovers by itself."""

from __future__ import annotations

import asyncio
import random
import resource
from pathlib import Path

import aiohttp
import pytest

from tests.crash.check import check
from tests.crash.daemon import DaemonProcess
from tests.crash.load import Load, client
from tests.crash.test_kill import all_answered

ROUNDS = 6
PEOPLE = 4


@pytest.mark.timeout(300)
async def test_full_disk(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path)
    daemon.configure()
    chance = random.Random(7)
    load = Load(daemon, chance)
    await daemon.start()
    async with client() as http, asyncio.TaskGroup() as tasks:
        sessions = [await load.create_session(http) for _ in range(PEOPLE)]
        people = [tasks.create_task(load.person(http, each, f"p{at}")) for at, each in enumerate(sessions)]
        load.up.set()
        for round_ in range(ROUNDS):
            await until(http, daemon, 200)
            fill_disk(daemon)
            await until(http, daemon, 503)
            if round_ % 2:
                load.up.clear()
                await daemon.kill()
                await daemon.start()
                load.up.set()
            else:
                free_disk(daemon)
        await until(http, daemon, 200)
        for person in people:
            person.cancel()
        await all_answered(http, daemon, sessions)
    assert load.refused > 0
    assert await daemon.terminate() == 0
    check(daemon.database, load.accepted)


def fill_disk(daemon: DaemonProcess) -> None:
    """No file of the daemon may grow beyond what its log has now: for SQLite the disk is full."""
    size = daemon.database.with_name("trunkline.db-wal").stat().st_size
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def free_disk(daemon: DaemonProcess) -> None:
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def until(http: aiohttp.ClientSession, daemon: DaemonProcess, status: int) -> None:
    """Wait until `/readyz` says that the store works (200), or that it does not (503)."""
    while True:
        async with http.get(f"{daemon.url}/readyz") as response:
            if response.status == status:
                return
        await asyncio.sleep(0.02)
