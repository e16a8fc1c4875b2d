"""One daemon per data directory: an exclusive lock for life, freed by the kernel even after a crash."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType

from routing.errors import AlreadyRunning, DataDirUnusable

NAME = "trunkline.lock"


class InstanceLock:
    """Held from `acquire` to `release`; the file holds the owner's pid for people to read."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / NAME
        self._fd: int | None = None

    def acquire(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise DataDirUnusable(path=self.path.parent, why=exc.strerror) from exc
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            pid = f" (process {holder})" if holder else ""
            raise AlreadyRunning(pid=pid, path=self.path.parent) from exc
        except OSError as exc:
            os.close(fd)
            raise DataDirUnusable(path=self.path.parent, why=exc.strerror) from exc
        self._fd = fd
        with contextlib.suppress(OSError):  # a full disk: the lock holds without the pid
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> InstanceLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
