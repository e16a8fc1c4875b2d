"""What the daemon says to whoever starts it: a link to click, unless a log would keep it."""

import asyncio
import os
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.crash.daemon import ROOT

PATIENCE = 30.0


async def greet(folder: Path, *, journal: bool = False, env: dict[str, str] | None = None) -> list[str]:
    """The first three lines, and what the link in them leads to."""
    config = folder / "config.toml"
    config.write_text(
        f'[gateway]\ndata_dir = "{folder / "data"}"\ndisk_reserve_mb = 0\n[http]\nlisten = "127.0.0.1:0"\n'
    )
    ours, theirs = os.pipe()
    told = os.fstat(ours)
    # Shells inherit the variable from a session under systemd; it means us only if it names our output.
    stream = f"{told.st_dev}:{told.st_ino}" if journal else "8:12345"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "run", "--config", str(config)),
        cwd=ROOT,
        env={**os.environ, "JOURNAL_STREAM": stream, **(env or {})},
        stdout=theirs,
        stderr=asyncio.subprocess.DEVNULL,
    )
    os.close(theirs)
    try:
        with open(ours) as out:
            lines = [(await asyncio.to_thread(out.readline)).rstrip("\n") for _ in range(3)]
            async with (
                asyncio.timeout(PATIENCE),
                aiohttp.ClientSession() as session,
                session.get(lines[1].split()[-1], allow_redirects=False) as answer,
            ):
                return [*lines, f"{answer.status} {answer.headers.get('Location', '')}".strip()]
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.req("CARD-28")
async def test_the_link_opens_the_page(tmp_path: Path) -> None:
    ready, link, _, led_to = await greet(tmp_path)
    url = ready.split()[-1]
    token = (tmp_path / "data" / "admin.token").read_text().strip()
    assert link == f"Chat in your browser: {url}/?token={token}"
    assert led_to == "303 /"


@pytest.mark.req("CARD-28")
async def test_the_journal_is_not_told_the_token(tmp_path: Path) -> None:
    ready, link, where, led_to = await greet(tmp_path, journal=True)
    assert link == f"Chat in your browser: {ready.split()[-1]}/"
    assert where.startswith(f"The admin token is in {tmp_path / 'data' / 'admin.token'}.")
    assert led_to == "200"


@pytest.mark.req("CARD-28")
async def test_a_token_of_ones_own_is_not_repeated(tmp_path: Path) -> None:
    lines = await greet(tmp_path, env={"TRUNKLINE_ADMIN_TOKEN": "canary-of-my-own"})
    assert lines[1] == f"Chat in your browser: {lines[0].split()[-1]}/"
    assert "canary" not in "".join(lines)
