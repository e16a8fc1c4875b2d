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
            pid = _owner(fd)
            os.close(fd)
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


def holder(data_dir: Path) -> str | None:
    """Who holds the lock, such as " (process 42)" if it can be told; None if nobody does. Creates nothing."""
    try:
        fd = os.open(data_dir / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise DataDirUnusable(path=data_dir, why=exc.strerror) from exc
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _owner(fd)
    except OSError as exc:
        raise DataDirUnusable(path=data_dir, why=exc.strerror) from exc
    finally:
        os.close(fd)
    return None


def _owner(fd: int) -> str:
    pid = os.pread(fd, 32, 0).decode(errors="replace").strip()
    return f" (process {pid})" if pid else ""
