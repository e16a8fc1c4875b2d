"""What lies between the SDK and a child: only well-formed messages pass, whatever the child writes.

The SDK's own stream dies of a line that says `null`, waits for ever for an answer whose id has the wrong type, lets
`_meta` overwrite arguments, has no limit for a line and none for the time of a write. Here such a line is refused,
counted and logged, and the next one is read. Updates do not pass through the SDK at all: it gives each a task of its
own, and their order is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable
from typing import Any

from gateway.agents.acp.process import Process
from gateway.clock import Clock

#: The longest line that is read, in bytes. Agents send files, and whole answers, in one.
MAX_LINE = 32 * 2**20
#: How long the child may not read while something is written to it, in seconds.
SEND_SECONDS = 30.0
#: Lines that wait here before the child has to.
_AHEAD = 256

UPDATE = "session/update"

Message = dict[str, Any]


class Lines:
    """Bytes in, whole lines out; of a line that is too long nothing is kept."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._skipping = False
        #: Lines that were too long.
        self.refused = 0

    def feed(self, data: bytes) -> list[bytes]:
        found: list[bytes] = []
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._add(part)
            if not self._skipping:
                found.append(bytes(self._rest))
            self._rest.clear()
            self._skipping = False
        self._add(rest)
        return found

    def _add(self, part: bytes) -> None:
        if self._skipping:
            return
        if len(self._rest) + len(part) > self._longest:
            self._skipping = True
            self._rest.clear()
            self.refused += 1
        else:
            self._rest += part


class Refused(Exception):
    """A line that is no message of the protocol."""


def understand(line: bytes) -> Message | None:
    """A line as a message that the SDK can take; None for an empty one. Raises Refused."""
    if not line.strip():
        return None
    try:
        message = json.loads(line.decode())
    except UnicodeDecodeError:
        raise Refused("not UTF-8") from None
    except (ValueError, RecursionError):
        raise Refused("not JSON") from None
    if not isinstance(message, dict):
        raise Refused("not an object")
    return _call(message) if "method" in message else _answer(message)


def _call(message: Message) -> Message:
    method, params = message["method"], message.get("params")
    if not isinstance(method, str):
        raise Refused("its method is not a text")
    if params is not None and not isinstance(params, dict):
        raise Refused("its params are not an object")
    # The SDK hands what is in _meta to our functions as if it were an argument.
    cleaned: Message = {"method": method, "params": {k: v for k, v in (params or {}).items() if k != "_meta"}}
    if "id" in message:
        if not isinstance(message["id"], int | str) or isinstance(message["id"], bool):
            raise Refused("its id is neither a number nor a text")
        cleaned["id"] = message["id"]
    return cleaned


def _answer(message: Message) -> Message:
    number = message.get("id")
    if isinstance(number, str) and number.isascii() and number.isdecimal() and len(number) < 10:
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool):
        raise Refused("it is neither a call nor an answer to one")
    if message.get("error") is not None:
        return {"id": number, "error": _error(message["error"])}
    return {"id": number, "result": message.get("result")}


def _error(error: object) -> Message:
    told = error if isinstance(error, dict) else {}
    code, words = told.get("code"), told.get("message")
    return {
        "code": code if isinstance(code, int) else -32603,
        "message": words if isinstance(words, str) else "Error",
        "data": told.get("data"),
    }


class Transport:
    """Implements the SDK's `Transport` over a child process."""

    def __init__(
        self,
        process: Process,
        clock: Clock,
        *,
        on_update: Callable[[Message], None],
        on_answer: Callable[[], None],
        on_refused: Callable[[str, bytes], None],
        longest: int = MAX_LINE,
    ) -> None:
        self._process = process
        self._clock = clock
        self._on_update = on_update
        #: One of our requests is being answered: nothing that comes after it belongs to it.
        self._on_answer = on_answer
        self._on_refused = on_refused
        self._lines = Lines(longest)
        self._waiting: deque[bytes] = deque()
        self._came = asyncio.Event()
        self._ended = False
        #: Requests of ours that were not answered yet.
        self._asked: set[int] = set()
        #: When the last message came.
        self.heard = clock.monotonic()
        #: Set when the child can say nothing more.
        self.silent = asyncio.Event()
        #: Cleared while what came has to be dealt with first; then the child has to wait.
        self.room = asyncio.Event()
        self.room.set()
        process.on_output = self._take

    async def send(self, message: Message) -> None:
        """Raises ConnectionError if the child cannot be written to, or does not read."""
        if "method" not in message:
            # An answer to a child that is gone interests nobody, and the SDK would make a traceback of it.
            with contextlib.suppress(ConnectionError):
                await self._write(message)
            return
        if isinstance(message.get("id"), int):
            self._asked.add(message["id"])
        await self._write(message)

    async def _write(self, message: Message) -> None:
        line = json.dumps(message, ensure_ascii=True, separators=(",", ":"), default=str).encode() + b"\n"
        try:
            self._process.write(line)
            async with self._clock.timeout(SEND_SECONDS):
                await self._process.sent()
        except TimeoutError:
            raise ConnectionError(f"it has read nothing for {SEND_SECONDS:g} seconds (writing)") from None
        except OSError as error:
            raise ConnectionError(f"{error} (writing)") from error

    async def receive(self) -> Message | None:
        while True:
            await self.room.wait()
            while not self._waiting:
                if self._ended:
                    self.silent.set()
                    return None
                self._came.clear()
                self._process.resume()
                await self._came.wait()
            message = self._next()
            # Whoever is given a message gets to work on it before the next one.
            await asyncio.sleep(0)
            if message is not None:
                return message

    async def close(self) -> None:
        self._take(b"")

    def _next(self) -> Message | None:
        """The next message that the SDK has to see."""
        line = self._waiting.popleft()
        try:
            message = understand(line)
            if message is None:
                return None
            if "method" not in message:
                return self._of_ours(message)
        except Refused as refused:
            self._on_refused(str(refused), line)
            return None
        self.heard = self._clock.monotonic()
        if "id" in message:
            return message
        if message["method"] == UPDATE:
            self._on_update(message["params"])
        return None

    def _of_ours(self, message: Message) -> Message:
        if message["id"] not in self._asked:
            raise Refused("nothing with this id was asked")
        self._asked.discard(message["id"])
        self.heard = self._clock.monotonic()
        self._on_answer()
        return message

    def _take(self, data: bytes) -> None:
        if not data:
            self._ended = True
        before = self._lines.refused
        self._waiting.extend(self._lines.feed(data))
        if self._lines.refused > before:
            self._on_refused("too long", b"")
        if len(self._waiting) > _AHEAD:
            self._process.pause()
        self._came.set()
