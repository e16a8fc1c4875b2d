"""One child process and everything it may leave behind: its own group, its pipes, its end.

Not asyncio's own: there the end of a process is only seen when its pipes are closed, too, and what the child started
may hold them for ever. Here the end is seen by itself, and the group is killed while its number is still ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

#: What the child takes over of our environment. Keys and tokens are not among it, nor settings of the library.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
#: How much is kept of what it says: of standard error the last, of standard output the first.
_KEPT_BYTES = 4096
_PIPE_BYTES = 65_536
#: How long it may take to go when its input ends, and again when it is told to.
_LEAVING = 1.5

_URL = re.compile(rb"(http://127\.0\.0\.1:[1-9][0-9]{0,4})\n")


class NoAddress(Exception):
    """The child ended, or said something else, before it said where it listens."""


class Child:
    """A process that runs from here on; whoever makes one stops it, whether it lives or not."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Raises OSError if there is no such program."""
        self._loop = asyncio.get_running_loop()
        self._said = bytearray()
        self._complained = bytearray()
        self._spoke = asyncio.Event()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: env[name] for name in _INHERITED if name in env},
            # A group of its own: the terminal's Ctrl-C does not reach it, and what it starts ends with it.
            start_new_session=True,
        )
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except OSError:  # no more files, or a very old kernel
            self._process.kill()
            self._process.communicate()
            raise
        self._loop.add_reader(self._pidfd, self._on_exit)
        for pipe, take in ((self._process.stdout, self._take_answer), (self._process.stderr, self._take_complaint)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_reader(pipe.fileno(), take)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def address(self, wanted: Mapping[str, object]) -> str:
        """Tell it what to serve, and wait for the one line that says where it does."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.write(json.dumps(wanted).encode() + b"\n")  # far less than a pipe holds
        await self._spoke.wait()
        if found := _URL.match(self._said):
            return found[1].decode()
        if self._silent:
            await self._gone()
        if self._exit.done():
            raise NoAddress(self.with_words(f"it ended with {_ending(self._exit.result())} before it was ready"))
        raise NoAddress(self.with_words("it did not give its address but something else"))

    async def ended(self) -> str:
        """Wait for its end, and say how it was."""
        code = await asyncio.shield(self._exit)
        return self.with_words(f"it ended with {_ending(code)}")

    async def stop(self) -> None:
        """End it: by the end of its input, by request, by force; nothing of its group is left."""
        try:
            self._close(self._process.stdin)
            if not await self._gone():
                self._signal(signal.SIGTERM)
                await self._gone()
        finally:
            # In any case, and also when this is cancelled: whoever called must not go before the process.
            if not self._exit.done():
                self._signal(signal.SIGKILL)
            await asyncio.shield(self._exit)
            self._close(self._process.stdout)
            self._close(self._process.stderr)

    async def _gone(self) -> bool:
        await asyncio.wait({self._exit}, timeout=_LEAVING)
        return self._exit.done()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _on_exit(self) -> None:
        # It has ended and nobody has asked for its exit code yet, so that the number of its group is nobody else's.
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._signal(signal.SIGKILL)
        self._exit.set_result(self._process.wait())
        self._take_answer()
        self._take_complaint()
        self._spoke.set()

    def _take_answer(self) -> None:
        self._said += self._read(self._process.stdout)[: _KEPT_BYTES - len(self._said)]
        if b"\n" in self._said or len(self._said) == _KEPT_BYTES or self._silent:
            self._spoke.set()

    def _take_complaint(self) -> None:
        self._complained += self._read(self._process.stderr)
        del self._complained[:-_KEPT_BYTES]

    @property
    def _silent(self) -> bool:
        """Whether it has said all that it will ever say."""
        return self._process.stdout is None or self._process.stdout.closed

    def _read(self, pipe: IO[bytes] | None) -> bytes:
        """At most what a pipe holds, so that a child that never stops talking does not stop us."""
        if pipe is None or pipe.closed:
            return b""
        try:
            more = os.read(pipe.fileno(), _PIPE_BYTES)
        except BlockingIOError:
            return b""
        if not more:
            self._close(pipe)
        return more

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None and not pipe.closed:
            self._loop.remove_reader(pipe.fileno())
            pipe.close()

    def with_words(self, what: str) -> str:
        """Add the end of what it wrote to standard error."""
        words = self._complained.decode(errors="replace").strip()
        return f"{what}; it said: {words}" if words else what


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
