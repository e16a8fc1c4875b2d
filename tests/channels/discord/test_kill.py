"""The process is killed; the fake lives on in the test."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.channels.discord.doubles import Rig
from tests.fakes.discord.model import Message


async def start(rig: Rig, file: Path, checkout: Path) -> asyncio.subprocess.Process:
    discord = rig.discord
    connected = len(discord.gateway.identified)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.channels.discord.child",
        discord.bot.token,
        discord.base_url,
        discord.gateway_url,
        str(file),
        cwd=checkout,
        env=os.environ,
    )
    await discord.until(lambda: len(discord.gateway.identified) > connected)
    return process


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


@pytest.mark.req("P05", "P06")
async def test_nothing_is_lost_or_heard_twice_when_it_is_killed(idle: Rig, tmp_path: Path, checkout: Path) -> None:
    rig, discord, file = idle, idle.discord, tmp_path / "inbox"
    discord.buckets.limits.clear()
    process = await start(rig, file, checkout)
    discord.say(rig.ann, rig.general, "first")
    discord.say(rig.ann, rig.dm, "first")
    await discord.until(lambda: len(discord.calls("send")) >= 2)
    said = 1
    for _ in range(3):
        for _ in range(10):  # killed while it stores
            discord.say(rig.ann, rig.general, f"number {said}")
            discord.say(rig.ann, rig.dm, f"number {said}")
            said += 1
        await kill(process)
        discord.say(rig.ann, rig.general, f"number {said}")
        discord.say(rig.ann, rig.dm, f"number {said}")
        said += 1
        process = await start(rig, file, checkout)
    last = discord.say(rig.ann, rig.general, "last")
    last_dm = discord.say(rig.ann, rig.dm, "last")
    await discord.until(lambda: {last.id, last_dm.id} <= {one.reply_to for one in every_message(rig)})
    await kill(process)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for place in (rig.general, rig.dm):
        stored = [row["text"] for row in rows if row["seen"][0] == str(place.id)]
        assert stored == ["first", *(f"number {number}" for number in range(1, said)), "last"]
        answers = [one.content for one in discord.visible(place) if one.author is discord.bot]
        assert len(answers) == len(set(answers))


def every_message(rig: Rig) -> list[Message]:
    return [one for place in (rig.general, rig.dm) for one in rig.discord.visible(place)]
