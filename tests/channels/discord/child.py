"""A process of its own with a channel and a file for a store, to be killed: `python -m … TOKEN REST GATEWAY FILE`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)

from channels.base import MenuItem, Outgoing, Verdict  # noqa: E402
from channels.discord import DiscordChannel, Timing  # noqa: E402
from routing.errors import DeliveryFailed  # noqa: E402
from routing.messages import Inbound, Incoming, Press  # noqa: E402


class FileHost:
    """Every accepted message is a line that is on the disk when `accept` returns; answers follow."""

    menu: Sequence[MenuItem] = ()

    def __init__(self, file: Path) -> None:
        self._file = file
        file.touch()
        self.rows = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
        self.waiting: asyncio.Queue[Inbound] = asyncio.Queue()

    async def accept(self, what: Incoming) -> None:
        if not isinstance(what, Inbound) or what.external_id in {row["id"] for row in self.rows}:
            return
        row = {"id": what.external_id, "text": what.text, "seen": what.seen}
        self.rows.append(row)
        with self._file.open("a") as out:
            out.write(json.dumps(row) + "\n")
            out.flush()
            os.fsync(out.fileno())
        self.waiting.put_nowait(what)

    async def press(self, press: Press) -> Verdict:
        return Verdict("done")

    async def seen(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for room, message in (row["seen"] for row in self.rows):
            found[room] = max(found.get(room, "0"), message, key=int)
        return found

    async def recall(self, name: str) -> str | None:
        return None

    async def remember(self, name: str, value: str) -> None: ...

    def alive(self) -> None: ...

    def trouble(self, why: str) -> None: ...


async def answer(host: FileHost, channel: DiscordChannel) -> None:
    while True:
        found = await host.waiting.get()
        item = Outgoing(nonce=found.external_id, address=found.address, text=f"re: {found.text}")
        while True:
            try:
                await channel.send(item)
                break
            except DeliveryFailed:
                await asyncio.sleep(0.01)


async def main(token: str, base_url: str, gateway_url: str, file: str) -> None:
    host = FileHost(Path(file))
    channel = DiscordChannel("main", token, base_url, gateway_url, timing=Timing(guilds=0.05))
    await asyncio.gather(channel.run(host), answer(host, channel))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
