"""Through the fake Telegram: what the gateway adds to an answer, many chats at once, memory with both channels on."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.daemon_turns import ROOT, TOKEN, resident_mb
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Chat

ONE_BY_ONE = 200
AT_ONCE = (50, 200)


async def _start(folder: Path, tables: str) -> subprocess.Popen[str]:
    config = folder / "config.toml"
    config.write_text(f'[gateway]\ndata_dir = "{folder / "data"}"\n[http]\nlisten = "127.0.0.1:0"\n{tables}')
    child = subprocess.Popen(
        [sys.executable, "-m", "gateway", "run", "--config", str(config), "--log-level", "warning"],
        cwd=ROOT,
        env={**os.environ, "TRUNKLINE_ADMIN_TOKEN": TOKEN, "NO_PROXY": "*"},
        stdout=subprocess.PIPE,
        text=True,
    )
    await asyncio.to_thread(child.stdout.readline if child.stdout else str)
    return child


async def _answered(telegram: FakeTelegram, chats: list[Chat], each: int) -> None:
    while not all(len(chat.shown) >= each for chat in chats):
        await telegram.change()


async def _one_by_one(telegram: FakeTelegram, chats: list[Chat]) -> list[float]:
    """Milliseconds from the moment a message is there to the moment its answer is; a chat each."""
    spent: list[float] = []
    for chat in chats:
        began = time.perf_counter()
        chat.say("hello")
        await _answered(telegram, [chat], 1)
        spent.append((time.perf_counter() - began) * 1000)
    return spent


async def _at_once(telegram: FakeTelegram, chats: list[Chat]) -> float:
    before = [len(chat.shown) for chat in chats]
    began = time.perf_counter()
    for chat in chats:
        chat.say("hello again")
    while not all(len(chat.shown) > had for chat, had in zip(chats, before, strict=True)):
        await telegram.change()
    return time.perf_counter() - began


async def _measure() -> list[str]:
    async with FakeTelegram() as telegram, FakeDiscord() as discord:
        bot = telegram.bot()
        chats = [telegram.dm(bot, telegram.user(f"Person {number}")) for number in range(max(AT_ONCE))]
        robot = discord.add_bot("robot", "a-discord-token")
        discord.add_guild("Guild", robot)
        account = f'[telegram.main]\ntoken = "{bot.token}"\nbase_url = "{telegram.url}"\ndm = "open"\nflood = 0\n'
        both = (
            f'[discord.main]\ntoken = "{robot.token}"\nbase_url = "{discord.base_url}"\n'
            f'gateway_url = "{discord.gateway_url}"\n'
        )
        with tempfile.TemporaryDirectory() as directory:
            child = await _start(Path(directory), account + both)
            try:
                await telegram.until(lambda: telegram.calls("getUpdates"))
                await discord.until(lambda: discord.gateway.sockets)
                await asyncio.sleep(1)
                idle = resident_mb(child.pid)
                spent = sorted(await _one_by_one(telegram, chats[:ONE_BY_ONE]))
                bursts = {count: await _at_once(telegram, chats[:count]) for count in AT_ONCE}
            finally:
                child.terminate()
                await asyncio.to_thread(child.communicate)
    p99 = spent[int(len(spent) * 0.99) - 1]
    return [
        "Through a fake Telegram, built-in agent: from the update to the answer, fake and library included.",
        f"One chat after the other: median {statistics.median(spent):.1f} ms, p99 {p99:.1f} ms ({len(spent)} chats)",
        *(f"{count} chats at once: all answered after {seconds:.2f} s" for count, seconds in bursts.items()),
        f"Memory at rest with a Telegram and a Discord account connected: {idle:.0f} MB",
    ]


def report() -> list[str]:
    return asyncio.run(_measure())
