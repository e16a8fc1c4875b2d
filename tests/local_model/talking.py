"""What a test says to the daemon, and what it sees of its processes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.gateway.cli.conftest import PATIENCE, Place

STORY = "Tell me a long story about a fox, a river and a lighthouse."


@dataclass
class Answer:
    """How one answer grew, until its turn ended."""

    asked: float
    #: Lengths of the answer's text, each time that it was longer than before, and when that was.
    grown: list[tuple[float, int]] = field(default_factory=list)
    turn: dict[str, Any] = field(default_factory=dict)
    ended: float = 0.0


def ask(place: Place, session: str, text: str, while_growing: Callable[[], object] = lambda: None) -> Answer:
    """Prompt, and watch the answer grow; once it has begun, `while_growing` is called."""
    path = f"/api/sessions/{session}"
    since = place.session(session)["updatedAt"]
    with place.api.stream(f"{path}/events", {"since": since}, timeout=PATIENCE) as lines:
        answer = Answer(time.monotonic())
        place.api.post(f"{path}/prompt", {"text": text})
        for name, data in _events(lines):
            now = time.monotonic()
            if name == "turn":
                answer.turn, answer.ended = data, now
                if data["status"] not in {"pending", "running"}:
                    return answer
            elif data["role"] == "agent" and (length := len(data["content"]["text"])) > _last(answer):
                answer.grown.append((now, length))
                if len(answer.grown) == 1:
                    while_growing()
    raise AssertionError("the stream ended before the turn")


def _last(answer: Answer) -> int:
    return answer.grown[-1][1] if answer.grown else 0


def _events(lines: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in map(bytes.decode, lines):
        if line.startswith("event: "):
            name = line.removeprefix("event: ").strip()
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def model_of(daemon: int) -> int:
    """The process with the model."""
    [pid] = [pid for pid in _children(daemon) if b"child.py" in _read(pid, "cmdline")]
    return pid


def _children(parent: int) -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if f"\nPPid:\t{parent}\n".encode() in _read(pid, "status")]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has just ended
        return b""


def resident_mb(pid: int) -> int:
    [line] = [line for line in _read(pid, "status").splitlines() if line.startswith(b"VmRSS:")]
    return int(line.split()[1]) // 1024


def listens_at(pid: int) -> list[tuple[str, int]]:
    """Addresses of the sockets on which a process waits for connections, by the kernel's tables."""
    inodes = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in _read(pid, f"net/{table}").decode().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                address, port = fields[1].split(":")
                found.append((address, int(port, 16)))
    return found


def gone(pid: int) -> bool:
    """Not there, or a zombie that nobody has asked for yet."""
    return not _read(pid, "cmdline")
