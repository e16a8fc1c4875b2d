"""Many rooms under seeded faults, kills, lost sessions and an outage: every message is answered exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from tests.crash.daemon import DaemonProcess
from tests.fakes.discord.faults import Fault, Kind
from tests.fakes.discord.model import Channel, User
from tests.fakes.discord.server import FakeDiscord
from tests.platforms.schedules import Line, lines, missing, wrong

SCHEDULES = 200
SEED = 20261119
WITHIN = 30.0
OUTAGE = 60.0
PATIENCE = 240.0

CALLS = frozenset({"send", "edit", "history"})
TROUBLE = (
    Fault(Kind.CUT_BEFORE, CALLS),
    Fault(Kind.CUT_AFTER, CALLS),
    Fault(Kind.RATE_LIMIT, CALLS, retry_after=0.5),
    Fault(Kind.ERROR, CALLS, status=500),
    Fault(Kind.HTML, CALLS, status=502),
)


@pytest.mark.timeout(480)
@pytest.mark.req("P01", "P02", "P03", "P04", "P05", "P06", "P40", "P41")
async def test_every_message_is_answered_exactly_once(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with FakeDiscord() as discord:
        bot = discord.add_bot("robot", "a-discord-token")
        people = [discord.add_user(f"Person {number}") for number in range(SCHEDULES)]
        rooms = [discord.dm(person, bot) for person in people]
        plans = [lines(chance, number, WITHIN) for number in range(SCHEDULES)]
        daemon = DaemonProcess(tmp_path)
        daemon.configure(
            f'[discord.main]\ntoken = "{bot.token}"\nbase_url = "{discord.base_url}"\n'
            f'gateway_url = "{discord.gateway_url}"\ndm = "open"\nflood = 0\n'
        )
        await daemon.start()
        await discord.until(lambda: discord.gateway.connected(bot))
        await _make_known(discord, people, rooms)
        discord.faults.dice, discord.faults.rate, discord.faults.of = random.Random(SEED), 0.2, TROUBLE
        async with asyncio.TaskGroup() as tasks:
            for person, room, plan in zip(people, rooms, plans, strict=True):
                tasks.create_task(_write(discord, person, room, plan))
            for pause in (4.0, 6.0):
                await asyncio.sleep(pause)
                await daemon.kill()
                await daemon.start()
            await asyncio.sleep(4)
            discord.gateway.invalidate()
            await asyncio.sleep(4)
            discord.outage(True)
            await asyncio.sleep(OUTAGE)
            discord.outage(False)
        discord.faults.dice = None
        expected = [["You said: hello", *(line.answer for line in plan)] for plan in plans]

        def unanswered() -> list[str]:
            pairs = zip(expected, rooms, strict=True)
            return [text for each, room in pairs for text in missing(each, discord.texts(room, bot))]

        with contextlib.suppress(TimeoutError):
            await discord.until(lambda: not unanswered(), PATIENCE)
        assert unanswered() == []
        assert await daemon.terminate() == 0
    found = [wrong(each, discord.texts(room, bot), marked=False) for each, room in zip(expected, rooms, strict=True)]
    assert [problem for problem in found if problem] == []


async def _make_known(discord: FakeDiscord, people: list[User], rooms: list[Channel]) -> None:
    """A room that was never heard of cannot be caught up with: Discord lists no direct chats."""
    for person, room in zip(people, rooms, strict=True):
        discord.say(person, room, "hello")
    await discord.until(lambda: all(len(discord.visible(room)) > 1 for room in rooms), 60)


async def _write(discord: FakeDiscord, person: User, room: Channel, said: list[Line]) -> None:
    began = asyncio.get_running_loop().time()
    for line in said:
        await asyncio.sleep(began + line.at - asyncio.get_running_loop().time())
        discord.say(person, room, line.text)
