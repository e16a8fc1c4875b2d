"""Two hundred chats, each with its own seeded faults; kills and an outage on top: every message is answered."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from tests.crash.daemon import DaemonProcess
from tests.fakes.telegram import faults
from tests.fakes.telegram.faults import Fault
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Chat
from tests.platforms.schedules import Line, lines, missing, wrong

SCHEDULES = 200
SEED = 20261118
#: People write within so many seconds; the rest of the time is trouble.
WITHIN = 30.0
OUTAGE = 60.0
#: More than the longest pause between two tries of a delivery, several times.
PATIENCE = 200.0

TROUBLE: tuple[Fault, ...] = (
    faults.CUT_BEFORE,
    faults.CUT_AFTER,
    faults.HTML,
    faults.error(500, "Internal Server Error"),
    faults.retry_after(1),
    faults.retry_after(3),
)


@pytest.mark.timeout(420)
@pytest.mark.req("P01", "P02", "P03", "P04", "P05", "P06", "P41")
async def test_every_message_is_answered_once_or_marked(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with FakeTelegram() as telegram:
        bot = telegram.bot()
        chats = [telegram.dm(bot, telegram.user(f"Person {number}")) for number in range(SCHEDULES)]
        plans = {chat.id: lines(chance, number, WITHIN) for number, chat in enumerate(chats)}
        for chat in chats:
            for method in ("sendMessage", "sendMessage", "editMessageText"):
                telegram.faults.add(method, *chance.choices(TROUBLE, k=chance.randrange(3)), chat=chat.id)
        telegram.faults.add("getUpdates", *chance.choices(TROUBLE, k=10))
        daemon = DaemonProcess(tmp_path)
        daemon.configure(
            f'[telegram.main]\ntoken = "{bot.token}"\nbase_url = "{telegram.url}"\ndm = "open"\nflood = 0\n'
        )
        await daemon.start()
        async with asyncio.TaskGroup() as tasks:
            for chat in chats:
                tasks.create_task(_write(chat, plans[chat.id]))
            for pause in (4.0, 5.0, 6.0):
                await asyncio.sleep(pause)
                await daemon.kill()
                await daemon.start()
            await telegram.go_down()
            await asyncio.sleep(OUTAGE)
            await telegram.come_up()
        expected = {chat.id: [line.answer for line in plans[chat.id]] for chat in chats}

        def unanswered() -> list[str]:
            return [text for chat in chats for text in missing(expected[chat.id], chat.texts)]

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while unanswered():
                    await telegram.change()
        assert unanswered() == []
        assert await daemon.terminate() == 0
    assert {chat.id: wrong(expected[chat.id], chat.texts, marked=True) for chat in chats} == {
        chat.id: None for chat in chats
    }


async def _write(chat: Chat, said: list[Line]) -> None:
    began = asyncio.get_running_loop().time()
    for line in said:
        await asyncio.sleep(began + line.at - asyncio.get_running_loop().time())
        chat.say(line.text)
