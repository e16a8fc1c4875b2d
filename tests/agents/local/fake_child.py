"""Stands in for `gateway/agents/local/child.py`: the same protocol, and every way to break it.

Its arguments are what it is to do, and a mark by which it and what it starts are found among the processes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

doing, mark, *more = sys.argv[1:]
URL = "http://127.0.0.1:{}\n"


def wait_for_the_end() -> None:
    while os.read(0, 4096):
        pass


def another() -> None:
    """A process that lives on with our pipes."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", mark])


def serve() -> None:
    wanted = json.loads(sys.stdin.buffer.readline())
    if more:
        Path(more[0]).write_text(json.dumps({"wanted": wanted, "env": dict(os.environ), "argv": sys.argv}))
    os.write(1, URL.format(10_000 + os.getpid() % 50_000).encode())


match doing:
    case "serve":
        serve()
        wait_for_the_end()
    case "crash":
        os.write(2, b"the tensors are made of cheese\n")
        sys.exit(3)
    case "crash once":
        once = Path(more.pop())
        if not once.exists():
            once.touch()
            sys.exit(3)
        serve()
        wait_for_the_end()
    case "deaf":
        os.close(0)
        os.kill(os.getpid(), signal.SIGSEGV)
    case "silent":
        signal.pause()
    case "garbage":
        os.write(1, b"Loading, please wait\n")
        wait_for_the_end()
    case "elsewhere":
        os.write(1, b"http://example.org:80\n")
        wait_for_the_end()
    case "endless":
        while True:
            os.write(1, b"x" * 65_536)
    case "chatty":
        os.write(2, b"y" * 1_000_000)
        serve()
        os.write(2, b"z" * 1_000_000)
        os.write(1, b"z" * 1_000_000)
        os.write(2, b"the last words")
        sys.exit(1)
    case "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        serve()
        while True:
            signal.pause()
    case "parent":
        another()
        serve()
        wait_for_the_end()
    case "bad parent":
        another()
        sys.exit(1)
