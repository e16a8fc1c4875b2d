"""The way to the data: the daemon that runs, a quiet one under its lock, or a sentence that says why neither."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cli import connection
from gateway.cli.connection import find, url_of
from gateway.cli.failing import Failure
from gateway.config import Listen, load
from tests.gateway.cli.conftest import PATIENCE, Place
from tests.gateway.cli.test_init import without_privileges

HOLD = """
import sys
from pathlib import Path
from store.lock import InstanceLock
InstanceLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(place: Place) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock and answers nobody."""
    place.data.mkdir(exist_ok=True)
    command = [sys.executable, "-c", HOLD, str(place.data)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=place.checkout, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PATIENCE", 0.2)


def why_not(place: Place, env: dict[str, str] | None = None) -> str:
    with pytest.raises(Failure) as failure:
        find(load(place.config, {"HOME": str(place.folder), **(env or {})}))
    return failure.value.message


def test_without_a_daemon_a_command_does_the_work_itself(place: Place) -> None:
    session = place("sessions", "new").out.strip()
    assert place("sessions", "show", session, "--json").json["id"] == session
    assert [file.name for file in sorted(place.data.iterdir())] == ["admin.token", "trunkline.db", "trunkline.lock"]
    # What it made, a daemon finds.
    place.start()
    place.say("hello", session=session)
    assert place("sessions", "show", session).lines[-1] == "You said: hello"


def test_with_a_daemon_the_daemon_does_it(running: Place) -> None:
    session = running("sessions", "new").out.strip()
    assert f"session_created session={session}" in running.log.read_text()


def test_a_token_of_the_configuration(place: Place) -> None:
    token = "a-token-of-their-own"
    place.configure(http={"listen": f"127.0.0.1:{place.port}", "admin_token": token})
    place.start()
    done = place("sessions", "new")
    assert f"session_created session={done.out.strip()}" in place.log.read_text()
    # Another one than the daemon's.
    done = place("sessions", "new", expect=1, env={"TRUNKLINE_ADMIN_TOKEN": "another-token-entirely"})
    assert done.sentence == f"The daemon at {place.url} does not accept the token of this configuration."
    for secret in (token, "another-token-entirely"):
        assert secret not in done.out + done.err


def test_the_token_is_not_sent_to_a_stranger(place: Place) -> None:
    """While no daemon runs, whatever listens on its address is somebody else."""
    place("sessions", "new")
    with socket.create_server(("127.0.0.1", place.port)) as stranger:
        place("sessions", "new")
        assert place("status", expect=3).err == f"trunkline: No daemon runs on {place.data}.\n"
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_who_holds_the_lock_must_answer(place: Place, impatient: None) -> None:
    with holder(place) as child:
        said = why_not(place)
    assert said == (
        f"Another trunkline (process {child.pid}) uses the data directory {place.data} and does not answer at "
        f"{place.url}: There is no token in {place.data / 'admin.token'}."
    )


def test_why_it_does_not_answer(place: Place, impatient: None) -> None:
    with holder(place):
        (place.data / "admin.token").write_text("some-token\n")
        assert why_not(place).endswith(
            f"and does not answer at {place.url}: The daemon at {place.url} cannot be reached: Connection refused."
        )
        with socket.create_server(("127.0.0.1", place.port)):
            assert why_not(place).endswith("cannot be reached: it does not answer in time.")
        place.configure(http={"listen": "127.0.0.1:0"})
        assert why_not(place).endswith("and does not answer: It has not said at which port.")
        (place.data / "admin.token").write_bytes(b"\xff\xfe")
        assert why_not(place) == f"The token in {place.data / 'admin.token'} cannot be read: it is not text."
        place.configure()
        assert "cannot carry" in why_not(place, {"TRUNKLINE_ADMIN_TOKEN": "two\nlines"})


def test_a_port_that_is_chosen_at_the_start(place: Place, impatient: None) -> None:
    place.configure(http={"listen": "127.0.0.1:0"})
    place.start()
    url = place("status", "--json").json["url"]
    assert place("status", "--url").out.startswith(f"{url}/?token=")
    assert place("chat", input="hello\n").out == "You said: hello\n"
    assert f"daemon_ready url={url}\n" in place.log.read_text()
    assert (place.data / "trunkline.port").stat().st_mode & 0o777 == 0o600
    place.stop()
    # What is left behind leads nobody to whoever listens there now.
    with socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))) as stranger:
        assert place("sessions", "list", "--json").json["total"] == 1
        with holder(place):
            assert why_not(place).endswith("and does not answer: It has not said at which port.")
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    # The next one says where it is.
    place.start()
    assert place("status", "--json").json["url"] != url


def test_a_port_file_that_is_none(place: Place, impatient: None) -> None:
    place.configure(http={"listen": "127.0.0.1:0"})
    with holder(place):
        (place.data / "admin.token").write_text("some-token\n")
        (place.data / "trunkline.port").write_text("somewhere\n")
        assert why_not(place).endswith("and does not answer: It has not said at which port.")


def test_a_command_waits_for_another_to_end(place: Place) -> None:
    with holder(place) as child:
        command = subprocess.Popen(
            place.command("sessions", "new", "--config", place.config),
            env=place.env(),
            cwd=place.folder,
            text=True,
            stdout=subprocess.PIPE,
        )
        assert child.stdin is not None
        child.stdin.close()
        out, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == 0
    assert len(out.strip()) == 36


def test_commands_at_the_same_time(place: Place) -> None:
    commands = [
        subprocess.Popen(
            place.command("sessions", "new", "--config", place.config),
            env=place.env(),
            cwd=place.folder,
            text=True,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    made = {command.communicate(timeout=PATIENCE)[0].strip() for command in commands}
    assert [command.returncode for command in commands] == [0, 0, 0]
    assert len(made) == 3


def test_a_data_directory_of_somebody_else(place: Place, running: Place) -> None:
    place.data.mkdir(mode=0o000)
    try:
        how = {"preexec_fn": without_privileges}
        said = place("sessions", "new", expect=73, **how).sentence
        assert said.startswith(f"Cannot write in the data directory {place.data}: Permission denied.")
        # Who was given the token can ask the daemon all the same.
        place.port = running.port
        place.configure()
        done = place("status", "--url", env={"TRUNKLINE_ADMIN_TOKEN": running.token}, **how)
        assert done.out == f"{running.url}/?token={running.token}\n"
    finally:
        place.data.chmod(0o700)


def test_a_damaged_database(place: Place) -> None:
    place.data.mkdir()
    file = place.data / "trunkline.db"
    file.write_bytes(b"Dear diary, " * 1000)
    done = place("sessions", "list", "--json", expect=65)
    assert done.sentence.startswith(f"The database {file} cannot be read: file is not a database.")
    assert done.out == ""


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("::1", "http://[::1]:1"),
        ("gateway.lan", "http://gateway.lan:1"),
    ],
)
def test_where_a_daemon_is_reached(host: str, url: str) -> None:
    assert url_of(Listen(host, 1)) == url


def test_a_path_in_place_of_the_data(place: Place) -> None:
    (place.folder / "file").write_text("theirs")
    place.configure(gateway={"data_dir": "file/data"})
    done = place("sessions", "new", expect=73)
    assert done.sentence.startswith(f"Cannot write in the data directory {place.folder / 'file' / 'data'}:")
    assert Path(place.folder / "file").read_text() == "theirs"
