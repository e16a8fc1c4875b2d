"""A daemon with one agent of the protocol, whose process is the scripted one; and a look at what is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gateway import phrases
from gateway.agents.acp import kin
from gateway.agents.acp.agent import AcpAgent
from gateway.agents.acp.pool import Pool
from gateway.clock import SystemClock
from tests.fakes.harness import Rig, Rigs

PROGRAM = Path(__file__).with_name("agent.py")
#: For what takes no time of its own; a machine under load may need some.
PATIENCE = 20.0

_NOTICES = (
    *(phrases.ACP_SILENT, phrases.ACP_QUEUED, phrases.ACP_RESUMED, phrases.ACP_RETOLD),
    *(phrases.ACP_FORGOTTEN, phrases.ACP_OUTSIDE),
)
NOTICE = re.compile("|".join(re.sub(r"\\{.*?\\}", ".*", re.escape(text)) for text in _NOTICES))


async def eventually(check: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Wait for something that other processes do; returns what the check gives."""
    async with asyncio.timeout(seconds):
        while not (found := check()):  # noqa: ASYNC110 (other processes set no events here)
            await asyncio.sleep(0.01)
    return found


def processes(token: str) -> list[int]:
    """Every living process with this text in its environment, whatever its parents and groups."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and kin.started(int(folder.name)) is not None:
            with contextlib.suppress(OSError):
                if token.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


class Scene:
    """`await Scene(rigs, tmp_path, prompt=[["say", "Hi"]]).start()`."""

    def __init__(self, rigs: Rigs, folder: Path, table: Mapping[str, Any] | None = None, **script: Any) -> None:
        self.folder = folder
        #: In the environment of everything that the agent starts.
        self.token = secrets.token_hex(16)
        self.repo = folder / "root" / "repo"
        (self.repo / ".git").mkdir(parents=True, exist_ok=True)
        self.log_file = folder / "agent.log"
        self.script = {"log": str(self.log_file), "state": str(folder / "state"), **script}
        tables: dict[str, Any] = {
            "gateway": {"workspace_root": str(folder / "root")},
            "memory": {"main": {"allow": [str(number) for number in range(1, 100)]}},
        }
        clock = (table or {}).get("clock") or SystemClock()
        extra = {name: value for name, value in (table or {}).items() if name not in {"clock", "gateway"}}
        tables["gateway"].update((table or {}).get("gateway", {}))
        self._table = extra
        self.rig: Rig = rigs(builtin=True, main=self._main(), clock=clock, **tables)

    def _main(self) -> dict[str, Any]:
        command = [sys.executable, str(PROGRAM), json.dumps(self.script)]
        env = {"SCENE": self.token, **self._table.get("env", {})}
        table = {"kind": "acp", "command": command, "repo": "repo", "start_timeout": 10.0, **self._table, "env": env}
        return {name: value for name, value in table.items() if value is not None}

    async def start(self) -> Scene:
        await self.rig.start()
        return self

    async def restart(self, **script: Any) -> Scene:
        """Start the daemon again after it was stopped, perhaps with another script."""
        self.script.update(script)
        self.rig.tables["agents"]["main"] = self._main()
        return await self.start()

    async def stop(self) -> None:
        """As after SIGTERM, on a clock that moves by itself."""
        daemon, task = self.rig._daemon, self.rig._task
        assert daemon is not None
        assert task is not None
        daemon.stop()
        await asyncio.wait({task}, timeout=PATIENCE)
        await task

    async def say(self, text: str, **how: Any) -> str:
        """Write, and return the next thing that is shown in the chat and is no notice."""
        chat = how.get("chat") or ("-100" if how.get("group") else how.get("sender", "1"))
        before = len(self.answers(chat))
        await self.rig.say(text, **how)
        await eventually(lambda: len(self.answers(chat)) > before)
        return self.answers(chat)[-1]

    def answers(self, chat: str = "1") -> list[str]:
        return [text for text in self.rig.chat.texts(chat) if not NOTICE.fullmatch(text)]

    async def told(self, session: Any = None) -> list[str]:
        """The system messages of a session."""
        return [text for role, text in await self.rig.said(session) if role == "system"]

    def sent(self, method: str | None = None) -> list[dict[str, Any]]:
        """What the agent was sent, over all its processes."""
        if not self.log_file.exists():
            return []
        lines = [json.loads(line) for line in self.log_file.read_text().splitlines()]
        return [line for line in lines if method is None or line.get("method") == method]

    @property
    def born(self) -> list[dict[str, Any]]:
        """What each process of it found at its start."""
        return [line for line in self.sent() if "argv" in line]

    @property
    def agent(self) -> AcpAgent:
        assert self.rig._daemon is not None
        agent = self.rig._daemon._agents["main"]
        assert isinstance(agent, AcpAgent)
        return agent

    @property
    def pool(self) -> Pool:
        return self.agent.pool

    async def gone(self) -> None:
        """Nothing of any agent is left."""
        await eventually(lambda: not self.processes)

    @property
    def processes(self) -> list[int]:
        return processes(self.token)
