"""The real command as a process: it serves, stops, refuses to start with a clear sentence, and harms no data."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
import sqlite3
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import tomli_w

from gateway.version import __version__
from store import migrations
from store.database import NAME, on_file, prepare
from store.schema import STEPS

TOKEN = "canary-of-the-administrator-7f3a"
#: Far more than anything here takes; it only keeps a broken test from hanging.
PATIENCE = 30.0

#: Variables that would lead the command to somebody's real files, or make every start slow.
LEFT_OUT = ("TRUNKLINE_", "AGENT_", "XDG_", "STATE_DIRECTORY", "CREDENTIALS_DIRECTORY", "PYTHONDONTWRITEBYTECODE")


@dataclass(slots=True)
class Command:
    """One process of ours; its lines are kept as they come."""

    process: asyncio.subprocess.Process
    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    readers: list[asyncio.Task[None]] = field(default_factory=list)
    grew: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def said(self) -> str:
        return "\n".join([*self.out, *self.err])

    async def line(self, words: str) -> str:
        """The first line, of either stream, that has these words in it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self.grew.clear()
                for line in (*self.out, *self.err):
                    if words in line:
                        return line
                assert not all(reader.done() for reader in self.readers), f"{words!r} was never said: {self.said}"
                await self.grew.wait()

    async def url(self) -> str:
        return (await self.line("is ready at ")).rpartition(" ")[2]

    async def code(self) -> int:
        """The exit code, when everything has been read."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*self.readers)
            return await self.process.wait()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.code()

    def events(self) -> list[dict[str, Any]]:
        """What was logged as JSON; every line has to be."""
        return [json.loads(line) for line in self.err]

    async def follow(self, stream: asyncio.StreamReader, lines: list[str]) -> None:
        async for line in stream:
            lines.append(line.decode().rstrip("\n"))
            self.grew.set()


Start = Callable[..., Awaitable[Command]]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the started processes keep what Python compiled."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
async def start(checkout: Path, compiled: Path, tmp_path: Path) -> AsyncIterator[Start]:
    """Start the command; what still runs at the end of the test is ended."""
    started: list[Command] = []
    around = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    around |= {"HOME": str(tmp_path), "PYTHONPATH": str(checkout), "PYTHONPYCACHEPREFIX": str(compiled)}

    async def start(*args: str | Path, env: Mapping[str, str] | None = None, **how: Any) -> Command:
        how = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE, "cwd": tmp_path, **how}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", *map(str, args)),
            env={**around, **(env or {})},
            limit=2**22,
            **how,
        )
        command = Command(process)
        started.append(command)
        for stream, lines in ((process.stdout, command.out), (process.stderr, command.err)):
            if stream is not None:
                command.readers.append(asyncio.create_task(command.follow(stream, lines)))
        for reader in command.readers:
            reader.add_done_callback(lambda _: command.grew.set())
        return command

    yield start
    for command in started:
        if command.process.returncode is None:
            command.process.kill()
        await command.code()


Run = Callable[..., Awaitable[Command]]


@pytest.fixture
def run(start: Start) -> Run:
    """Start the command and wait for its end."""

    async def run(*args: str | Path, expect: int, **how: Any) -> Command:
        command = await start(*args, **how)
        code = await command.code()
        assert code == expect, command.said
        assert "Traceback" not in command.said
        return command

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configure(tmp_path / "config.toml")


def configure(file: Path, **tables: Mapping[str, object]) -> Path:
    base: dict[str, Mapping[str, object]] = {
        "gateway": {"data_dir": "data", "disk_reserve_mb": 0, "drain_seconds": PATIENCE},
        "http": {"listen": "127.0.0.1:0"},
    }
    whole = {name: {**base.get(name, {}), **tables.get(name, {})} for name in {**base, **tables}}
    file.write_text(tomli_w.dumps(whole))
    return file


def make_database(data: Path) -> Path:
    """A database of today with something in it."""
    path = prepare(data)
    on_file(path, migrations.migrate)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO people (public_id, name) VALUES ('p-1', 'Ada')")
    return path


def dump(path: Path) -> list[str]:
    """All that a database holds."""
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return sorted(db.iterdump())  # a copy may list what it defines in another order


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return tables_of(db)


def tables_of(db: sqlite3.Connection) -> set[str]:
    rows = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'").fetchall()
    return {name for (name,) in rows} - {"_sqlite_migrations"}


def sentence(command: Command) -> str:
    """The one thing that the command says beside its log, and nothing on standard output."""
    assert command.out == []
    [line] = [line for line in command.err if line.startswith("trunkline: ")]
    assert line.endswith(".")
    return line.removeprefix("trunkline: ")


async def ask(url: str, method: str, path: str, token: str, **how: Any) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.request(method, url + path, **how) as answer:
        assert answer.status < 300, await answer.text()
        return await answer.json()


async def prompt(url: str, text: str, token: str = TOKEN) -> str:
    """A session with one prompt in it; returns its address."""
    session = await ask(url, "POST", "/api/sessions", token)
    path = f"/api/sessions/{session['id']}"
    await ask(url, "POST", f"{path}/prompt", token, json={"text": text})
    return path


async def misplace(url: str, token: str) -> None:
    """Send the token where it does not belong, and where it would be logged."""
    async with aiohttp.ClientSession() as session:
        for path in (f"/api/{token}", f"/api/sessions?token={token}"):
            async with session.get(url + path) as answer:
                assert answer.status == 401
                assert token not in await answer.text()


# Serving and stopping


@pytest.mark.req("CARD-02", "S000-01")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_run_serves_until_a_signal(start: Start, config: Path, data: Path, number: signal.Signals) -> None:
    daemon = await start("run", "--config", config)
    url = await daemon.url()
    assert daemon.out[0] == f"Trunkline {__version__} is ready at {url}"
    token = (data / "admin.token").read_text().strip()
    path = await prompt(url, "hello", token)
    await daemon.line(" turn_completed ")
    before = await ask(url, "GET", path, token)
    assert await ask(url, "GET", "/healthz", "") == {"status": "ok"}
    assert await daemon.stop(number) == 0
    assert daemon.err[-1].split()[1:] == ["INFO", "daemon_stopped"]
    assert [file.name for file in sorted(data.iterdir())] == ["admin.token", NAME, "trunkline.lock", "trunkline.port"]
    # And again, with the same token and the same history.
    if number is signal.SIGTERM:
        again = await start("run", "--config", config)
        assert await ask(await again.url(), "GET", path, token) == before


@pytest.mark.req("CARD-28")
async def test_the_first_start_tells_where_its_token_is_and_not_what_it_is(
    start: Start, config: Path, data: Path
) -> None:
    daemon = await start("run", "--config", config, "--log-level", "debug")
    url = await daemon.url()
    file = data / "admin.token"
    assert await daemon.line("The admin token is ") == (
        f"The admin token is in {file}. Send it as `Authorization: Bearer TOKEN`."
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    token = file.read_text().strip()
    assert len(token) >= 32
    await prompt(url, "hello", token)
    await misplace(url, token)
    assert await daemon.stop() == 0
    assert sum("path=/api/***" in line for line in daemon.err) == 1
    shown = [line for line in (*daemon.out, *daemon.err) if token in line]
    # The link to the page, for whoever started it by hand, is the only place.
    assert all(line.startswith("Chat in your browser: ") for line in shown)


@pytest.mark.req("CARD-28")
@pytest.mark.parametrize("format", ["text", "json"])
async def test_a_given_token_is_never_shown(start: Start, tmp_path: Path, data: Path, format: str) -> None:
    config = configure(tmp_path / "config.toml", http={"admin_token": "from-the-file-31337", "listen": "127.0.0.1:0"})
    args = ("run", "--config", config, "--log-level", "debug", "--log-format", format)
    daemon = await start(*args, env={"TRUNKLINE_ADMIN_TOKEN": TOKEN})
    url = await daemon.url()
    await daemon.line("The admin token is the one that you configured.")
    await prompt(url, f"my token is {TOKEN}")
    await daemon.line("turn_completed")
    await misplace(url, TOKEN)
    # The variable wins over the file.
    headers = {"Authorization": "Bearer from-the-file-31337"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(f"{url}/api/sessions") as answer:
        assert answer.status == 401
    assert await daemon.stop() == 0
    assert not (data / "admin.token").exists()
    for secret in (TOKEN, "from-the-file-31337"):
        assert secret not in daemon.said


async def test_json_lines_under_fixed_names(start: Start, config: Path, data: Path) -> None:
    args = ("run", "--config", config, "--log-level", "debug", "--log-format", "json")
    daemon = await start(*args, env={"TRUNKLINE_ADMIN_TOKEN": TOKEN})
    url = await daemon.url()
    path = await prompt(url, "hello")
    await daemon.line("turn_completed")
    await ask(url, "DELETE", path, TOKEN)
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/sessions") as answer:
        assert answer.status == 401
    assert await daemon.stop() == 0
    events = daemon.events()
    assert all({"time", "level", "event"} <= event.keys() for event in events)
    named = {event["event"]: event for event in events}
    order = ["daemon_started", "recovery", "daemon_ready", "session_created", "message_accepted", "turn_started"]
    order += ["turn_completed", "session_ended", "http_refused", "daemon_stopping", "daemon_stopped"]
    names = [event["event"] for event in events if event["event"] in order]
    assert list(dict.fromkeys(names)) == order
    assert {"channel_connected"} <= named.keys()
    assert named["daemon_started"]["version"] == __version__
    assert named["daemon_started"]["pid"] == daemon.process.pid
    assert named["daemon_started"]["data"] == str(data)
    assert named["daemon_ready"]["url"] == url
    assert named["turn_completed"]["session"] in path
    assert named["http_refused"]["path"] == "/api/sessions"
    assert not [event for event in events if event["level"] in {"WARNING", "ERROR", "CRITICAL"}]


async def test_the_first_signal_lets_a_turn_end(start: Start, config: Path, data: Path) -> None:
    daemon = await start("run", "--config", config, "--log-level", "debug", env={"TRUNKLINE_ADMIN_TOKEN": TOKEN})
    await prompt(await daemon.url(), "wait 0.5")
    await daemon.line(" turn_started ")
    assert await daemon.stop() == 0
    assert "turns=1" in await daemon.line(" daemon_stopping ")
    with closing(sqlite3.connect(data / NAME)) as db:
        assert db.execute("SELECT status, answer_summary FROM turns").fetchall() == [
            ("completed", "I waited 0.5 seconds.")
        ]


async def test_the_second_signal_cuts(start: Start, config: Path, data: Path) -> None:
    daemon = await start("run", "--config", config, "--log-level", "debug", env={"TRUNKLINE_ADMIN_TOKEN": TOKEN})
    path = await prompt(await daemon.url(), f"wait {PATIENCE * 2}")
    await daemon.line(" turn_started ")
    daemon.process.send_signal(signal.SIGTERM)
    await daemon.line(" daemon_stopping ")
    async with asyncio.timeout(PATIENCE / 2):
        assert await daemon.stop(signal.SIGINT) == 0
    assert "daemon_stopped" in daemon.err[-1]
    assert "Traceback" not in daemon.said
    # What was cut is neither lost nor counted as a crash.
    with closing(sqlite3.connect(data / NAME)) as db:
        assert db.execute("SELECT status, attempts FROM turns").fetchall() == [("pending", 0)]
    again = await start("run", "--config", config, "--log-level", "debug", env={"TRUNKLINE_ADMIN_TOKEN": TOKEN})
    url = await again.url()
    assert "rerun=1" in await again.line(" recovery ")
    assert (await ask(url, "POST", f"{path}/stop", TOKEN))["stopped"] is True


async def test_it_serves_when_nobody_can_read_the_greeting(start: Start, config: Path) -> None:
    with Path("/dev/full").open("w") as full:
        daemon = await start("run", "--config", config, stdout=full)
    url = (await daemon.line(" daemon_ready ")).rpartition("url=")[2]
    assert await ask(url, "GET", "/healthz", "") == {"status": "ok"}
    daemon.process.terminate()
    await daemon.line(" daemon_stopped")


async def test_a_configuration_in_its_usual_place(start: Start, tmp_path: Path) -> None:
    file = tmp_path / ".config" / "trunkline" / "config.toml"
    file.parent.mkdir(parents=True)
    configure(file, gateway={"data_dir": "here", "disk_reserve_mb": 0})
    daemon = await start("run")
    await daemon.url()
    assert str(file) in await daemon.line(" daemon_started ")
    assert (file.parent / "here" / NAME).exists()
    assert await daemon.stop() == 0


# Bad configuration

BAD: dict[str, tuple[str | bytes, str]] = {
    "syntax": ("[gateway\n", "is not valid TOML: Expected ']' at the end of a table declaration (at line 1"),
    "unknown key": ('[gateway]\ndatadir = "x"\n', "[gateway] datadir is not a known key: did you mean data_dir?"),
    "unknown agent": ('[gateway]\ndefault_agent = "mian"\n', 'default_agent = "mian": there is no such agent; did'),
    "unknown kind": (
        '[agents.a]\nkind = "gemini"\n',
        '[agents.a] kind = "gemini": must be "builtin" or "openai" or "local" or "acp".',
    ),
    "bad listen": ('[http]\nlisten = "8787"\n', '[http] listen = "8787": must be "host:port", such as'),
    "open to everybody": ('[http]\nlisten = "0.0.0.0:0"\n', "is open to other machines, and that needs an admin token"),
    "a secret that is not there": ('[http]\nadmin_token = {env = "NOPE"}\n', "variable NOPE is not set."),
    "not text": (b"\xff\xfe[gateway]\n", "line 1 is not UTF-8 text; save the file as UTF-8."),
    "an account without its token": ("[telegram.bot]\n", "[telegram.bot] token is missing."),
}


@pytest.mark.req("CARD-28")
@pytest.mark.parametrize(("content", "words"), BAD.values(), ids=BAD.keys())
async def test_a_bad_configuration(run: Run, tmp_path: Path, content: str | bytes, words: str) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    command = await run("run", "--config", file, expect=78)
    said = sentence(command) if not command.err[-1].endswith("?") else command.err[-1].removeprefix("trunkline: ")
    assert said.startswith(f"{file}: ")
    assert words in said
    assert len(command.err) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("AGENT_SESSION_IDLE_TIMEOUT", "soon", 'AGENT_SESSION_IDLE_TIMEOUT = "soon": must be a number of minutes'),
        ("TRUNKLINE_ADMIN_TOKEN", " ", "TRUNKLINE_ADMIN_TOKEN is empty or not UTF-8 text: set it to a token, or unset"),
    ],
)
async def test_a_bad_variable(run: Run, config: Path, data: Path, variable: str, value: str, words: str) -> None:
    command = await run("run", "--config", config, expect=78, env={variable: value})
    assert words in sentence(command)
    assert not data.exists()


async def test_a_configuration_that_is_not_there(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nowhere.toml"
    assert sentence(await run("run", "--config", file, expect=78)) == f"{file}: there is no such file."
    said = sentence(await run("run", "--config", tmp_path, expect=78))
    assert said == f"{tmp_path}: is a directory; name the file in it."


async def test_every_problem_is_a_line(run: Run, tmp_path: Path, data: Path) -> None:
    secret = "hunter2-in-the-wrong-place"
    content = f'[gateway]\ndata_dir = "data"\ndefault_agent = "x"\n[http]\nlisten = "x"\nadmin_tokn = "{secret}"\n'
    (tmp_path / "config.toml").write_text(content)
    for args in (["run"], ["db", "migrate"]):
        command = await run(*args, "--config", tmp_path / "config.toml", expect=78)
        assert len(command.err) == 3
        assert all(line.startswith("trunkline: ") for line in command.err)
        assert secret not in command.said
    assert not data.exists()


# Data that cannot be used


@pytest.mark.parametrize("args", [["run"], ["db", "migrate"]], ids=" ".join)
async def test_a_damaged_database(run: Run, config: Path, data: Path, args: list[str]) -> None:
    data.mkdir()
    damaged = b"Dear diary, " * 1000
    (data / NAME).write_bytes(damaged)
    said = sentence(await run(*args, "--config", config, expect=65))
    assert said.startswith(f"The database {data / NAME} cannot be read: file is not a database. Nothing was changed.")
    assert (data / NAME).read_bytes() == damaged
    assert not (data / "admin.token").exists()


@pytest.mark.parametrize("args", [["run"], ["db", "rollback"]], ids=" ".join)
async def test_a_newer_database(run: Run, config: Path, data: Path, args: list[str]) -> None:
    path = make_database(data)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('trunkline', 'm999_later', '')"
        )
        db.execute("CREATE TABLE later (x)")
    before = path.read_bytes()
    said = sentence(await run(*args, "--config", config, expect=65))
    assert f"The database {path} was written by a newer trunkline (it has m999_later). Nothing was changed." in said
    assert path.read_bytes() == before
    assert {file.name for file in data.iterdir()} == {NAME, "trunkline.lock"}


def without_privileges() -> None:
    """Even root cannot write where it says read-only: without CAP_DAC_OVERRIDE modes count for root, too."""
    pr_capbset_drop, cap_dac_override = 24, 1
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).prctl(pr_capbset_drop, cap_dac_override, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot give up CAP_DAC_OVERRIDE")


async def test_a_read_only_data_directory(run: Run, config: Path, data: Path) -> None:
    path = make_database(data)
    before = path.read_bytes()
    data.chmod(0o500)
    try:
        said = sentence(await run("run", "--config", config, expect=73, preexec_fn=without_privileges))
    finally:
        data.chmod(0o700)
    assert said == (
        f"Cannot write in the data directory {data}: no permission to write. "
        "Make it writable, or set another [gateway] data_dir."
    )
    assert path.read_bytes() == before
    assert [file.name for file in data.iterdir()] == [NAME]


async def test_a_data_directory_that_cannot_be(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("theirs")
    config = configure(tmp_path / "config.toml", gateway={"data_dir": "file/data"})
    said = sentence(await run("run", "--config", config, expect=73))
    assert said.startswith(f"Cannot write in the data directory {tmp_path / 'file' / 'data'}: Not a directory.")
    assert (tmp_path / "file").read_text() == "theirs"


async def test_a_token_file_that_is_none(run: Run, config: Path, data: Path) -> None:
    before = dump(make_database(data))
    file = data / "admin.token"
    file.write_bytes(b"\xff\xfe")
    said = sentence(await run("run", "--config", config, expect=73))
    assert "admin.token: it is not text; delete it, and a new one is made." in said
    assert file.read_bytes() == b"\xff\xfe"
    file.unlink()
    file.mkdir()
    assert "admin.token: Is a directory." in sentence(await run("run", "--config", config, expect=73))
    assert dump(data / NAME) == before


async def test_something_unexpected_is_one_line_in_the_log(start: Start, config: Path, data: Path) -> None:
    path = make_database(data)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE identities")
    before = dump(path)
    daemon = await start("run", "--config", config, "--log-format", "json")
    assert await daemon.code() == 70
    assert daemon.out == []
    failed = daemon.events()[-1]
    assert (failed["event"], failed["level"]) == ("daemon_failed", "CRITICAL")
    assert "no such table" in failed["error"]
    assert "Traceback" in failed["traceback"]
    assert dump(path) == before


# Two at a time


async def test_a_second_instance(start: Start, run: Run, config: Path, data: Path, tmp_path: Path) -> None:
    daemon = await start("run", "--config", config, env={"TRUNKLINE_ADMIN_TOKEN": TOKEN})
    url = await daemon.url()
    path = await prompt(url, "hello")
    await daemon.line(" turn_completed ")
    before = await ask(url, "GET", path, TOKEN)
    for args in (["run"], ["db", "migrate"], ["db", "rollback"]):
        said = sentence(await run(*args, "--config", config, expect=75))
        assert said.startswith(f"Another trunkline (process {daemon.process.pid}) uses the data directory {data}.")
    # The one that was first does not notice.
    assert await ask(url, "GET", path, TOKEN) == before
    await prompt(url, "still here")
    # Another directory is another matter.
    other = await start("run", "--config", configure(tmp_path / "other.toml", gateway={"data_dir": "other"}))
    await other.url()
    assert await daemon.stop() == 0


async def test_a_port_in_use(run: Run, tmp_path: Path, data: Path) -> None:
    before = dump(make_database(data))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        config = configure(tmp_path / "config.toml", http={"listen": listen})
        said = sentence(await run("run", "--config", config, expect=69))
    assert said == (
        f"Cannot listen on {listen}: Address already in use. "
        "Set another [http] listen, or stop the program that uses this one."
    )
    assert dump(data / NAME) == before


# The database


@pytest.mark.req("S000-90", "S000-93")
async def test_migrate_and_roll_back(run: Run, config: Path, data: Path) -> None:
    path = data / NAME
    names = [step.name for step in STEPS]
    assert (await run("db", "migrate", "--config", config, expect=0)).out == [f"Applied {', '.join(names)}."]
    assert {"sessions", "messages", "turns"} <= tables(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO people (public_id, name) VALUES ('p-1', 'Ada')")
        db.execute("CREATE TABLE theirs (x)")
        db.execute("INSERT INTO theirs VALUES ('kept')")
    before = dump(path)
    assert (await run("db", "migrate", "--config", config, expect=0)).out == ["The database is up to date."]
    assert dump(path) == before
    assert (await run("db", "rollback", "--config", config, expect=0)).out == [f"Undid {names[-1]}."]
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in (statement for step in STEPS[:-1] for statement in step.up):
            db.execute(statement)
        assert tables(path) == tables_of(db) | {"theirs"}
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT x FROM theirs").fetchall() == [("kept",)]
    [copy] = data.glob("*.before-undo-*")
    assert dump(copy) == before


async def test_nothing_to_roll_back(run: Run, config: Path, data: Path) -> None:
    assert (await run("db", "rollback", "--config", config, expect=0)).out == ["There is no migration to undo."]
    assert tables(data / NAME) == set()


# Explaining


async def test_explain(start: Start, run: Run, config: Path, data: Path) -> None:
    asked = ("explain", "--config", config, "--channel", "web", "--account", "main", "--chat", "7", "--sender", "7")
    lines = (await run(*asked, expect=0)).out
    assert lines[0].split() == ["agent:", "main", "(matched", "by", "default)"]
    assert "answered (allowed by dm=open)" in lines[2]
    assert not data.exists()
    refused = (await run(*asked, "--kind", "group", expect=0)).out
    assert "not answered: the group is not in `groups` (group_not_listed)" in refused[2]
    wrong = await run(*(*asked, "--account", "other"), expect=2)
    assert "There is no account [web.other] in the configuration. Configured: [web.main]." in wrong.said
    # Also while the daemon runs, of which it changes nothing.
    daemon = await start("run", "--config", config)
    await daemon.url()
    with closing(sqlite3.connect(data / NAME)) as db:
        before = [*db.iterdump()]
        assert (await run(*asked, expect=0)).out == lines
        assert [*db.iterdump()] == before
    assert await daemon.stop() == 0


# Words


async def test_version_and_help(run: Run) -> None:
    version, top, of_run = await asyncio.gather(
        run("--version", expect=0), run("--help", expect=0), run("run", "--help", expect=0)
    )
    assert version.out == [f"trunkline, version {__version__}"]
    assert top.out[0] == "Usage: trunkline [OPTIONS] COMMAND [ARGS]..."
    assert {"run", "db", "explain"} <= set(top.said.split())
    for words in ("--config FILE", "--log-format [text|json]", "--log-level [debug|info|warning|error]", "config.toml"):
        assert words in " ".join(of_run.said.split())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["rnu"], "No such command 'rnu'"),
        (["run", "--log-level", "loud"], "'loud' is not one of 'debug', 'info', 'warning', 'error'"),
        (["db"], "Bring the database up to date."),
        ([], "Usage: trunkline"),
    ],
)
async def test_a_command_that_does_not_exist(run: Run, args: list[str], words: str) -> None:
    command = await run(*args, expect=2)
    assert words in command.said
    assert command.out == []
