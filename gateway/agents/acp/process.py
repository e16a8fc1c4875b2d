"""One child process: a group of its own, pipes that never block us, a kept tail of its complaints, and a sure end.

Not asyncio's own: there the end of a process is only seen when its pipes are closed, too, and what the child started
may hold them for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from gateway.agents.acp import kin

#: What the child takes over of our environment. Keys and tokens are not among it.
_INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
#: How much is kept of what it writes to standard error.
_TAIL = 4096
_CHUNK = 65_536
#: What may still lie in its output when it has ended; more is not its own.
_LAST_WORDS = 4 * 2**20
#: How long it may take to go when its input ends, and again when it is told to, in seconds.
_LEAVING = 1.5


class Process:
    """A process that runs from here on; whoever makes one stops it, whether it lives or not."""

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str], mark: str) -> None:
        """Raises OSError if there is no such program."""
        self._loop = asyncio.get_running_loop()
        #: In the environment of everything that belongs to it.
        self.mark = mark
        self._tail = bytearray()
        self._unsent = bytearray()
        self._sent = asyncio.Event()
        self._sent.set()
        self._paused = False
        self._stopping: asyncio.Task[None] | None = None
        #: Takes what the child says; empty at its end.
        self.on_output: Callable[[bytes], None] = lambda _: None
        #: Why nothing more can be written to it, if so.
        self.write_error: OSError | None = None
        self.exit: asyncio.Future[int] = self._loop.create_future()
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            cwd=cwd,
            env={**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **env, kin.MARK: mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except OSError:  # no more files
            self._process.kill()
            self._process.communicate()
            raise
        self._loop.add_reader(self._pidfd, self._on_exit)
        for pipe, take in ((self._process.stdout, self._take_output), (self._process.stderr, self._take_complaint)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._loop.add_reader(pipe.fileno(), take)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        #: With the pid it names this process and no later one.
        self.started = kin.started(self.pid)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return not self.exit.done()

    @property
    def vanished(self) -> bool:
        """It is gone, also if nobody told us."""
        return self.exit.done() or kin.started(self.pid) != self.started

    @property
    def complaints(self) -> str:
        """The end of what it wrote to standard error."""
        return self._tail.decode(errors="replace").strip()

    @property
    def ending(self) -> str:
        """How it ended, for people who read logs."""
        if not self.exit.done():
            return "still running"
        code = self.exit.result()
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
        return f"signal {-code}"

    # -- its input -----------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Never blocks; `sent` tells when all of it is in the pipe."""
        if self.write_error is not None:
            raise self.write_error
        self._unsent += data
        self._sent.clear()
        self._flush()

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    async def sent(self) -> None:
        """Raises OSError if the pipe broke."""
        await self._sent.wait()
        if self.write_error is not None:
            raise self.write_error

    def _flush(self) -> None:
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            self._broke(BrokenPipeError("its input is closed"))
            return
        try:
            while self._unsent:
                count = os.write(pipe.fileno(), memoryview(self._unsent)[:_CHUNK])
                del self._unsent[:count]
        except BlockingIOError:
            self._loop.add_writer(pipe.fileno(), self._flush)
            return
        except OSError as error:
            self._broke(error)
            return
        self._loop.remove_writer(pipe.fileno())
        self._sent.set()

    def _broke(self, error: OSError) -> None:
        self.write_error = self.write_error or error
        self._unsent.clear()
        self._close(self._process.stdin)
        self._sent.set()

    # -- its output ----------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Read no more for now: the child has to wait."""
        pipe = self._process.stdout
        if not self._paused and pipe is not None and not pipe.closed:
            self._paused = True
            self._loop.remove_reader(pipe.fileno())

    def resume(self) -> None:
        pipe = self._process.stdout
        if self._paused and pipe is not None and not pipe.closed:
            self._paused = False
            self._loop.add_reader(pipe.fileno(), self._take_output)

    def _take_output(self) -> None:
        data = self._read(self._process.stdout)
        if data is not None:
            self.on_output(data)

    def _take_complaint(self) -> None:
        self._tail += self._read(self._process.stderr) or b""
        del self._tail[:-_TAIL]

    def _read(self, pipe: IO[bytes] | None) -> bytes | None:
        """At most one piece, so that a child that never stops talking does not stop us. None: nothing is there."""
        if pipe is None or pipe.closed:
            return None
        try:
            data = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._close(pipe)
        return data

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe is not None and not pipe.closed:
            self._loop.remove_reader(pipe.fileno())
            self._loop.remove_writer(pipe.fileno())
            pipe.close()

    # -- its end -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End it: by the end of its input, by request, by force. Nothing that it started is left."""
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop(), name="end of an agent process")
        # Whoever waits may be cancelled; the end goes on.
        await asyncio.shield(self._stopping)

    def kill(self) -> None:
        """At once."""
        self._signal(signal.SIGKILL)

    async def _stop(self) -> None:
        self._broke(BrokenPipeError("it is being ended"))
        if not await self._gone():
            self._signal(signal.SIGTERM)
            if not await self._gone():
                self._signal(signal.SIGKILL)
        await asyncio.shield(self.exit)
        for pipe in (self._process.stdout, self._process.stderr):
            self._close(pipe)
        await asyncio.to_thread(kin.kill, self.mark, None)

    async def _gone(self) -> bool:
        await asyncio.wait({self.exit}, timeout=_LEAVING)
        return self.exit.done()

    def _signal(self, number: signal.Signals) -> None:
        if not self.exit.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _on_exit(self) -> None:
        # It has ended and nobody has asked for its exit code yet, so that the number of its group is nobody else's.
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._signal(signal.SIGKILL)
        code = self._process.wait()
        self._take_complaint()
        self._last_words()
        self.exit.set_result(code)
        self._broke(BrokenPipeError("it has ended"))

    def _last_words(self) -> None:
        """What it said before it ended, but not what others may still say through the same pipe."""
        taken = 0
        while taken < _LAST_WORDS and (data := self._read(self._process.stdout)):
            taken += len(data)
            self.on_output(data)
        self._close(self._process.stdout)
        self.on_output(b"")
