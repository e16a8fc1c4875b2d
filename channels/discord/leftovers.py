"""What discord.py leaves behind when it is stopped while it connects: a socket and a thread that nobody knows."""

from __future__ import annotations

import asyncio
import threading
import weakref
from http import HTTPStatus

import aiohttp
import discord
from discord.gateway import KeepAliveHandler


class Leftovers:
    def __init__(self) -> None:
        self._sockets: weakref.WeakSet[aiohttp.ClientResponse] = weakref.WeakSet()

    def trace(self) -> aiohttp.TraceConfig:
        """For the client's HTTP: every socket passes by here when it is opened."""

        async def passing(_: object, __: object, passed: aiohttp.TraceRequestEndParams) -> None:
            if passed.response.status == HTTPStatus.SWITCHING_PROTOCOLS:
                self._sockets.add(passed.response)

        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(passing)
        return trace

    async def clear(self, client: discord.Client, seconds: float) -> None:
        for socket in list(self._sockets):
            socket.close()
        threads = [each for each in threading.enumerate() if isinstance(each, KeepAliveHandler)]
        own = [each for each in threads if each.ws._connection is client._connection]
        for thread in own:
            thread.stop()
        # One that is just sending a heartbeat needs this loop to get to its end.
        await asyncio.gather(*(asyncio.to_thread(thread.join, seconds) for thread in own))
