"""Load over HTTP: people who send until they are told that it was accepted, and never give up."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import aiohttp

from tests.crash.daemon import TOKEN, DaemonProcess


@dataclass(slots=True)
class Sent:
    session: str
    text: str
    #: The id that the 202 gave.
    message_id: str


@dataclass(slots=True)
class Load:
    """Every message carries an id of its own, so that sending it again is safe."""

    daemon: DaemonProcess
    random: random.Random
    accepted: list[Sent] = field(default_factory=list)
    #: Cleared while the daemon is down.
    up: asyncio.Event = field(default_factory=asyncio.Event)
    refused: int = 0

    async def create_session(self, client: aiohttp.ClientSession) -> str:
        async with client.post(f"{self.daemon.url}/api/sessions", json={}) as response:
            response.raise_for_status()
            return str((await response.json())["id"])

    async def person(self, client: aiohttp.ClientSession, session: str, name: str) -> None:
        """Sends message after message until cancelled; a message is finished only when it was accepted."""
        number = 0
        while True:
            number += 1
            text = self._text(f"{name}-{number}")
            message_id = await self._send(client, session, f"{name}-{number}", text)
            self.accepted.append(Sent(session, text, message_id))
            await asyncio.sleep(self.random.uniform(0, 0.03))

    def _text(self, name: str) -> str:
        """One in five streams, long enough that a kill finds half of an answer stored."""
        return f"count {self.random.randint(2, 8)}" if self.random.random() < 0.2 else f"hello from {name}"

    async def _send(self, client: aiohttp.ClientSession, session: str, external_id: str, text: str) -> str:
        while True:
            await self.up.wait()
            try:
                url = f"{self.daemon.url}/api/sessions/{session}/prompt"
                async with client.post(url, json={"text": text, "id": external_id}) as response:
                    if response.status == 202:
                        return str((await response.json())["messageId"])
                    if response.status not in {429, 503}:
                        raise AssertionError(f"{response.status}: {await response.text()}")
                    self.refused += 1
            except (aiohttp.ClientError, ConnectionError):
                pass
            await asyncio.sleep(0.02)


def client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
