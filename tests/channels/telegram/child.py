"""A process with one channel, to be killed: `python -m tests.channels.telegram.child URL TOKEN FILE`.

Every message is written to the file, durably and slowly, before it counts as accepted; lines on stdout say how far
it is.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from channels.base import MenuItem, Verdict
from channels.telegram import TelegramChannel
from routing.messages import Inbound, Incoming, Press


class FileHost:
    menu: Sequence[MenuItem] = ()

    def __init__(self, file: Path) -> None:
        self._file = file

    async def accept(self, what: Incoming) -> None:
        assert isinstance(what, Inbound)
        print("offered", flush=True)
        await asyncio.sleep(0.005)
        with self._file.open("a") as out:
            out.write(f"{what.external_id} {what.text}\n")
            out.flush()
            os.fsync(out.fileno())
        print("stored", flush=True)
        await asyncio.sleep(0.005)
        print("accepted", flush=True)

    async def press(self, press: Press) -> Verdict:
        return Verdict("done")

    async def seen(self) -> Mapping[str, str]:
        return {}

    async def recall(self, name: str) -> str | None:
        return None

    async def remember(self, name: str, value: str) -> None: ...

    def alive(self) -> None:
        print("alive", flush=True)

    def trouble(self, why: str) -> None:
        print(f"trouble {why}", flush=True)


if __name__ == "__main__":
    url, token, file = sys.argv[1:]
    asyncio.run(TelegramChannel("main", token, url).run(FileHost(Path(file))))
