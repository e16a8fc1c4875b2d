"""The daemon itself is killed: what its agents left behind is gone soon after the next start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import aiohttp
import pytest

from gateway import phrases
from tests.crash.daemon import TOKEN, DaemonProcess
from tests.fakes.acp.scene import PROGRAM, eventually, processes


@pytest.mark.req("P31", "P30")
async def test_nothing_outlives_a_daemon_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root" / "repo" / ".git").mkdir(parents=True)
    monkeypatch.setenv("AGENT_WORKSPACE_ROOT", str(tmp_path / "root"))
    token = f"scene-{tmp_path}"
    script = {"stays": True, "start": [["stubborn"], ["grandchild"]], "prompts": {"work": [["say", "begun"], ["hang"]]}}
    command = json.dumps([sys.executable, str(PROGRAM), json.dumps(script)])
    daemon = DaemonProcess(tmp_path)
    daemon.configure(
        f'[agents.main]\nkind = "acp"\nrepo = "repo"\ncommand = {command}\nenv = {{ SCENE = "{token}" }}\n'
    )
    await daemon.start()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        async with http.post(f"{daemon.url}/api/sessions", json={"lasting": True}) as answer:
            session = (await answer.json())["id"]
        where = f"/api/sessions/{session}"
        async with http.post(f"{daemon.url}{where}/prompt", json={"text": "work"}) as answer:
            assert answer.status == 202
        await eventually(lambda: len(processes(token)) == 2)
        await daemon.kill()
        assert len(processes(token)) == 2
        await daemon.start()
        await eventually(lambda: not processes(token), 10)
        async with http.get(f"{daemon.url}{where}/messages") as answer:
            told = json.dumps(await answer.json(), ensure_ascii=False)
        assert phrases.INTERRUPTED in told
        async with http.post(f"{daemon.url}{where}/prompt", json={"text": "hello"}) as answer:
            assert answer.status == 202
        await eventually(lambda: len(processes(token)) == 2)
    assert await daemon.terminate() == 0
    assert processes(token) == []
