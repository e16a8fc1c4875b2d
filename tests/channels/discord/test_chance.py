"""Random afternoons: everything is heard once and answered once, whatever fails."""

from __future__ import annotations

import asyncio
import random

import pytest

from channels.base import Outgoing
from routing.errors import DeliveryFailed
from tests.channels.discord.doubles import Rig
from tests.fakes.discord.faults import Fault, Kind
from tests.fakes.discord.server import FakeDiscord

CALLS = frozenset({"send", "history", "channel"})
FAULTS = [
    Fault(Kind.CUT_BEFORE, CALLS),
    Fault(Kind.CUT_AFTER, CALLS),
    Fault(Kind.RATE_LIMIT, CALLS, retry_after=0.01),
    Fault(Kind.ERROR, CALLS, status=503),
    Fault(Kind.ERROR_AFTER, CALLS, status=503),
]
#: The library waits longer after every lost connection.
PATIENCE = 120.0
GATEWAY = ["invalidate", "abort", "reconnect", "restart", "nothing", "nothing"]


class Supervisor:
    """What the daemon does: it starts the channel again, and repeats what may be repeated."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.answered = 0

    async def keep_running(self) -> None:
        while True:
            try:
                await self.rig.channel.run(self.rig.host)
            except ConnectionError:
                await asyncio.sleep(0.01)

    async def answer(self) -> None:
        while True:
            await self.rig.host.until(lambda: len(self.rig.host.inbox) > self.answered)
            found = self.rig.host.inbox[self.answered]
            await self.insist(self.rig.item(f"re: {found.text}", found, nonce=found.external_id))
            self.answered += 1

    async def insist(self, item: Outgoing) -> None:
        while True:
            try:
                await self.rig.channel.send(item)
            except DeliveryFailed as failed:
                if not failed.retryable:
                    raise
                await asyncio.sleep(min(failed.retry_after or 0.01, 0.05))
            else:
                self.rig.host.watch.changed()
                return


@pytest.mark.timeout(180)
@pytest.mark.req("P01", "P02", "P03", "P05", "P06", "P08", "P40")
@pytest.mark.parametrize("seed", range(25))
async def test_everything_is_heard_once_and_answered_once(seed: int) -> None:
    dice = random.Random(seed)
    async with FakeDiscord(heartbeat_ms=200) as discord:
        discord.buckets.limits.clear()
        rig = Rig(discord)
        await rig.start()
        places = [rig.general, rig.dm, discord.add_thread(rig.general, "matter")]
        for place in places:
            discord.say(rig.ann, place, f"first {place.id}")
        await rig.host.received(3)
        await rig.stop()
        discord.faults.dice, discord.faults.of = dice, FAULTS
        supervisor = Supervisor(rig)
        tasks = [asyncio.create_task(supervisor.keep_running()), asyncio.create_task(supervisor.answer())]
        for number in range(20):
            discord.say(rig.ann, dice.choice(places), f"number {number}")
            match dice.choice(GATEWAY):
                case "restart":
                    tasks[0].cancel()
                    await asyncio.gather(tasks[0], return_exceptions=True)
                    rig.channel = rig.make()
                    tasks[0] = asyncio.create_task(supervisor.keep_running())
                case "nothing":
                    pass
                case how:
                    getattr(discord.gateway, how)()
            await asyncio.sleep(dice.random() * 0.02)
        await rig.host.until(lambda: supervisor.answered == 23 or any(task.done() for task in tasks), PATIENCE)
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for place in places:
            asked = [one for one in discord.visible(place) if one.author is rig.ann]
            answers = [one for one in discord.visible(place) if one.author is discord.bot]
            assert [one.content for one in answers] == [f"re: {one.content}" for one in asked]
            assert [one.reply_to for one in answers] == [one.id for one in asked]
