"""The daemon as a process of its own, to be killed at any moment."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-for-tests-only"


def _environment() -> dict[str, str]:
    """Without coverage: what dies by SIGKILL has nothing to report, and it would start at half the speed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    return {**kept, "TRUNKLINE_ADMIN_TOKEN": TOKEN}


class DaemonProcess:
    """Starts, kills and starts again on the same data directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "config.toml"
        self.log = directory / "daemon.log"
        self.url = ""
        self._process: asyncio.subprocess.Process | None = None

    @property
    def database(self) -> Path:
        return self.directory / "data" / "trunkline.db"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the daemon is not running")
        return self._process.pid

    def configure(self, more: str = "") -> None:
        data = self.directory / "data"
        text = f'[gateway]\ndata_dir = "{data}"\ndisk_reserve_mb = 0\n[http]\nlisten = "127.0.0.1:0"\n{more}'
        self.config.write_text(text)

    async def start(self) -> None:
        """Return when the daemon says that it is ready."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "gateway", "run", "--config", str(self.config)),
                cwd=ROOT,
                env=_environment(),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        if self._process.stdout is None:
            raise RuntimeError("no pipe")
        line = await self._process.stdout.readline()
        if b"ready at" not in line:
            raise RuntimeError(f"the daemon did not start: {line!r}\n{self.log.read_text()[-4000:]}")
        self.url = line.split()[-1].decode()

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def terminate(self) -> int:
        return await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> int:
        process = self._process
        if process is None:
            raise RuntimeError("the daemon is not running")
        process.send_signal(number)
        _, code = await asyncio.gather(process.communicate(), process.wait())
        self._process = None
        return code

    def __del__(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
