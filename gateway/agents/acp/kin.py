"""Who belongs to a child process, as /proc tells: its group, and all that carries its mark in the environment.

A group alone is not enough: what calls setsid() leaves it. The mark is inherited by everything the child starts.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

#: The environment variable with the mark of one child.
MARK = "TRUNKLINE_AGENT_PROCESS"

_PROC = Path("/proc")
_ROUNDS = 20


def started(pid: int) -> int | None:
    """When a process began, in the kernel's own ticks; with the pid it names a process for ever. None: it is gone."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else int(fields[19])


def of(mark: str, group: int | None) -> set[int]:
    """Everything that lives of a child: in its group, if that number is still its own, or with its mark."""
    wanted = f"{MARK}={mark}".encode()
    return {pid for pid in _pids() if (group is not None and _group(pid) == group) or _carries(pid, wanted)}


def kill(mark: str, group: int | None) -> int:
    """End them all by force; what is born meanwhile, too. Returns how many there were."""
    ended: set[int] = set()
    for _ in range(_ROUNDS):
        found = of(mark, group)
        if not found:
            break
        ended |= found
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return len(ended)


def _pids() -> Iterator[int]:
    own = os.getpid()
    return (int(name) for name in os.listdir(_PROC) if name.isdecimal() and int(name) != own)


def _group(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else int(fields[2])


def _carries(pid: int, wanted: bytes) -> bool:
    """The environment as it was at the start of the program; somebody else's cannot be read and is not ours."""
    try:
        content = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return wanted in content.split(b"\0")


def _stat(pid: int) -> list[str] | None:
    """The fields from the state on; the name before them may hold anything."""
    try:
        content = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return content.rpartition(")")[2].split()
