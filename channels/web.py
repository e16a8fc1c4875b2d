"""The embedded channel: page and HTTP API. What is sent is in the history already, where it is read."""

from __future__ import annotations

import asyncio

from channels.base import Host, Outgoing


class WebChannel:
    """Messages come in through the HTTP routes; sending succeeds at once, because the row is the truth."""

    reads_history = True
    silent_after: float | None = None

    def __init__(self, name: str, account: str) -> None:
        self.name = name
        self.account = account

    async def run(self, host: Host) -> None:
        host.alive()
        await asyncio.get_running_loop().create_future()

    async def send(self, item: Outgoing) -> str:
        return item.nonce
