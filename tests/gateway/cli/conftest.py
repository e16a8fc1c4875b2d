"""The command as a process, with and without a daemon beside it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from gateway.cli.client import Client

#: Far more than anything here takes; it only keeps a broken test from hanging.
PATIENCE = 30.0

#: Variables that would lead the command to somebody's real files, or change what it prints.
LEFT_OUT = ("TRUNKLINE_", "AGENT_", "XDG_", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY", "COLUMNS", "PYTHONDONTWRITE")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one thing that a command says when it fails."""
        [line] = self.err.splitlines()
        assert line.startswith("trunkline: ")
        return line.removeprefix("trunkline: ")


@dataclass
class Place:
    """A home directory with a configuration, and the commands that are run there."""

    folder: Path
    checkout: Path
    compiled: Path
    port: int
    daemons: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the daemons of this place logged."""
        return self.folder / "log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        given = tomllib.loads(self.config.read_text())["http"].get("admin_token")
        return str(given or (self.data / "admin.token").read_text().strip())

    def configure(self, **tables: Mapping[str, object]) -> None:
        base: dict[str, Mapping[str, object]] = {
            "gateway": {"data_dir": "data", "disk_reserve_mb": 0},
            "http": {"listen": f"127.0.0.1:{self.port}"},
        }
        whole = {name: {**base.get(name, {}), **tables.get(name, {})} for name in {**base, **tables}}
        self.config.write_text(tomli_w.dumps(whole))

    def env(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        around = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
        return around | {
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.checkout),
            "PYTHONPYCACHEPREFIX": str(self.compiled),
            "TZ": "UTC",
            **(more or {}),
        }

    def command(self, *args: str | Path) -> list[str]:
        return [sys.executable, "-m", "gateway", *map(str, args)]

    def plain(
        self, *args: str | Path, expect: int = 0, input: str = "", env: Mapping[str, str] | None = None, **how: Any
    ) -> Done:
        """Run a command as it is given."""
        done = subprocess.run(
            self.command(*args),
            input=input,
            env=self.env(env),
            cwd=self.folder,
            text=True,
            timeout=PATIENCE,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how},
        )
        assert done.returncode == expect, f"{args} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in (done.stderr or "")
        return Done(done.returncode, done.stdout, done.stderr)

    def __call__(self, *args: str | Path, **how: Any) -> Done:
        """Run a command with this place's configuration."""
        return self.plain(*args, "--config", self.config, **how)

    def start(self) -> subprocess.Popen[str]:
        """Start a daemon and wait until it is ready."""
        with self.log.open("a") as log:
            daemon = subprocess.Popen(
                self.command("run", "--config", self.config),
                env=self.env(),
                cwd=self.folder,
                text=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.daemons.append(daemon)
        assert daemon.stdout is not None
        for line in daemon.stdout:
            if "is ready at" in line:
                return daemon
        raise AssertionError(self.log.read_text())

    def stop(self) -> None:
        """Stop every daemon and wait for its end."""
        while self.daemons:
            daemon = self.daemons.pop()
            daemon.send_signal(signal.SIGTERM)
            daemon.communicate(timeout=PATIENCE)
            assert daemon.returncode == 0

    # What the test itself does on the running daemon, without a process for each step.

    @property
    def api(self) -> Client:
        return Client(self.url, self.token)

    def new(self, agent: str = "main") -> str:
        """The id of a new session."""
        return str(self.api.post("/api/sessions", {"agent": agent})["id"])

    def session(self, session: str) -> Any:
        return self.api.get(f"/api/sessions/{session}/state")["session"]

    def say(self, *texts: str, session: str | None = None) -> str:
        """Have a conversation; returns the session's id when every text was answered."""
        session = session or self.new()
        path = f"/api/sessions/{session}"
        for text in texts:
            before = self.session(session)
            with self.api.stream(f"{path}/events", {"since": before["updatedAt"]}, timeout=PATIENCE) as lines:
                self.api.post(f"{path}/prompt", {"text": text})
                number = f'"sequenceNumber": {before["turnCount"] + 1}, "status": '
                next(line for line in map(bytes.decode, lines) if number in line and '"status": "pending"' not in line)
        return session


def free_port() -> int:
    """A port below those that the system gives to outgoing connections, so that none of them takes it."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("there is no free port")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the started processes keep what Python compiled."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def place(tmp_path: Path, checkout: Path, compiled: Path) -> Iterator[Place]:
    """A place of its own, without a daemon until one is started."""
    yield from made(tmp_path, checkout, compiled)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, checkout: Path, compiled: Path) -> Iterator[Place]:
    """A daemon for all tests, with the agents main and other."""
    for place in made(tmp_path_factory.mktemp("running"), checkout, compiled):
        place.configure(agents={"main": {"kind": "builtin"}, "other": {"kind": "builtin"}})
        place.start()
        yield place


def made(folder: Path, checkout: Path, compiled: Path) -> Iterator[Place]:
    place = Place(folder, checkout, compiled, free_port())
    place.configure()
    try:
        yield place
    finally:
        place.stop()
