"""Whatever happens when, a message that was confirmed to Telegram was stored before."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from channels.telegram import TelegramChannel
from routing.errors import DeliveryFailed
from routing.messages import Inbound
from tests.channels.telegram.host import PATIENCE, QUICK, HostDouble, message, running
from tests.fakes.telegram.faults import CUT_AFTER, CUT_BEFORE, HTML, Chaos, error
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat


async def start(server: FakeTelegram, bot: Bot, file: Path, checkout: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.channels.telegram.child", server.url, bot.token, str(file)),
        cwd=checkout,
        stdout=asyncio.subprocess.PIPE,
    )


async def wait_for(process: asyncio.subprocess.Process, mark: str, count: int) -> None:
    assert process.stdout
    async with asyncio.timeout(PATIENCE):
        while count:
            line = (await process.stdout.readline()).decode()
            assert line, "the process ended"
            count -= line.startswith(mark)


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    # Also the end of the pipe: the transport is closed only then.
    await process.communicate()


def stored(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.req("P05", "P06")
async def test_a_process_that_is_killed_loses_nothing(
    server: FakeTelegram, bot: Bot, dm: Chat, tmp_path: Path, checkout: Path
) -> None:
    file = tmp_path / "stored"
    chance = random.Random(5)
    said = 0
    for mark, count in [("alive", 1), ("offered", 1), ("stored", 2), ("accepted", 1), ("offered", 3), ("accepted", 3)]:
        for _ in range(chance.randint(3, 5)):
            dm.say(f"message {said}")
            said += 1
        process = await start(server, bot, file, checkout)
        await wait_for(process, mark, count)
        await kill(process)
        ids = {int(line.split()[0].partition(":")[2]) for line in stored(file)}
        assert set(bot.confirmed) <= ids, "confirmed, but not stored"
    process = await start(server, bot, file, checkout)
    async with asyncio.timeout(PATIENCE):
        await server.until(lambda: len(bot.confirmed) == said)
    await kill(process)
    texts = {line.partition(" ")[2] for line in stored(file)}
    assert texts == {f"message {number}" for number in range(said)}
    # The same message has the same id however often it came, so that the store sees the repeats.
    assert len({line.split()[0] for line in stored(file)}) == said


@pytest.mark.req("P05")
async def test_a_cancel_at_any_moment_loses_nothing(server: FakeTelegram, bot: Bot, dm: Chat) -> None:
    taken: list[str] = []
    for steps in range(0, 200, 5):
        dm.say(str(steps))
        host = HostDouble()
        task = asyncio.create_task(TelegramChannel("main", bot.token, server.url, timing=QUICK).run(host))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        taken += [one.external_id for one in host.taken if isinstance(one, Inbound)]
        assert {f"{bot.user.id}:{number}" for number in bot.confirmed} <= set(taken)
    host = HostDouble()
    async with running(server, bot, host):
        await server.until(lambda: len(bot.confirmed) == 40)
    assert len(bot.confirmed) == len(set(bot.confirmed))


KINDS = (CUT_BEFORE, CUT_AFTER, HTML, error(500, "Internal Server Error"), error(409, "Conflict: terminated"))


async def answer(channel: TelegramChannel, asked: Inbound) -> int:
    """As the gateway does it: again until it is out, with a mark if it may be a repeat. The number of marks."""
    marks = 0
    while True:
        text = f"re {asked.text}" + " (again)" * bool(marks)
        try:
            await channel.send(message(asked.address, text))
        except DeliveryFailed as failure:
            if not failure.retryable:
                raise
            marks += failure.ambiguous
        else:
            return marks


@pytest.mark.req("P01", "P02", "P08")
@pytest.mark.parametrize("seed", range(30))
async def test_a_bad_day(server: FakeTelegram, bot: Bot, host: HostDouble, seed: int) -> None:
    """Each message is heard, and answered once unless the outcome was unknown, and then the repeat says so."""
    chats = [server.dm(bot, server.user(name)) for name in ("A", "B", "C")]
    server.faults.chaos = Chaos(seed, rate=0.3, left=25, kinds=KINDS)
    chance = random.Random(seed)
    async with running(server, bot, host, connected=False) as channel:
        for number in range(12):
            chance.choice(chats).say(str(number))
            if chance.random() < 0.3:
                server.cut_all()
        await host.until(lambda: len({_id(one) for one in host.taken}) == 12)
        heard = {_id(one): one for one in host.taken if isinstance(one, Inbound)}
        for one in heard.values():
            await answer(channel, one)
    for chat in chats:
        said = [one.text for one in chat.messages.values() if one.bot is None]
        shown = [one.text for one in chat.shown]
        for text in said:
            assert shown.count(f"re {text}") <= 1
            assert f"re {text}" in shown or f"re {text} (again)" in shown
        assert all(one.reply_to for one in chat.shown)


def _id(what: object) -> str:
    assert isinstance(what, Inbound)
    return what.external_id
