"""The supervisor and its child: whatever the child does, callers get an answer and no process is left."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway import phrases
from gateway.agents.local.server import COMMAND, Endpoint, Patience, Server, Wanted
from routing.errors import AgentFailed

SCRIPT = Path(__file__).with_name("fake_child.py")
WANTED = Wanted(model=__file__, alias="small", context_window=2048, slots=1, threads=1)
QUICK = Patience(start=20, first_pause=0.01, longest_pause=0.02)
LONG = Patience(start=20, first_pause=1000, longest_pause=1000)

Make = Callable[..., Server]


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """By which the processes of one test are found."""
    return f"mark-of-{os.getpid()}-{tmp_path.name}"


@pytest.fixture
async def make(mark: str) -> AsyncIterator[Make]:
    """Servers with the fake child, closed at the end; then nothing of them may be left."""
    made: list[Server] = []

    def server(*doing: str, patience: Patience = QUICK, wanted: Wanted = WANTED) -> Server:
        command = (sys.executable, str(SCRIPT), doing[0], mark, *doing[1:])
        made.append(Server(wanted, command=command, patience=patience))
        return made[-1]

    yield server
    for one in made:
        await one.close()
    await none_left(mark)


def processes(mark: str) -> list[int]:
    """Those that have the mark among their arguments; zombies have none."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:  # it has just ended
                continue
            if mark.encode() in arguments:
                found.append(int(entry.name))
    return found


async def until(holds: Callable[[], bool]) -> None:
    """What the system does to processes has no event."""
    while True:
        if holds():
            return
        await asyncio.sleep(0.005)


async def none_left(mark: str) -> None:
    """What was killed goes, but not at once if it was a child of the child."""
    await until(lambda: not processes(mark))


async def another_than(server: Server, first: Endpoint) -> int:
    """The child that takes the place of the first one."""
    await first.ended.wait()
    return (await server.endpoint()).pid


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about starts and ends that went wrong."""
    return [one.getMessage() for one in caplog.records if one.name == "trunkline.local" and one.levelname == "ERROR"]


async def test_it_starts_when_it_is_needed_and_once_for_all(make: Make, mark: str) -> None:
    server = make("serve")
    assert processes(mark) == []
    first, *others = await asyncio.gather(*(server.endpoint() for _ in range(5)))
    assert all(other == first for other in others)
    assert processes(mark) == [first.pid]
    assert first.url.startswith("http://127.0.0.1:")
    assert not first.ended.is_set()


async def test_a_server_that_was_never_needed_closes(make: Make) -> None:
    server = make("serve")
    await server.close()
    with pytest.raises(AgentFailed, match=phrases.BROKEN_OFF):
        await server.endpoint()


async def test_the_key_is_told_to_the_child_alone(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not for the child")
    monkeypatch.setenv("LLAMA_ARG_HOST", "0.0.0.0")
    caplog.set_level(logging.DEBUG)
    server = make("serve", str(tmp_path / "seen"))
    endpoint = await server.endpoint()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["wanted"].pop("key") == endpoint.key
    assert seen["wanted"] == {"model": __file__, "alias": "small", "context_window": 2048, "slots": 1, "threads": 1}
    assert len(endpoint.key) >= 40
    assert set(seen["env"]) <= {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH"}
    assert endpoint.key not in str(seen) + repr(endpoint) + caplog.text
    assert endpoint.key not in Path(f"/proc/{endpoint.pid}/cmdline").read_text()
    assert endpoint.key != (await make("serve").endpoint()).key


async def test_it_has_a_group_of_its_own(make: Make) -> None:
    pid = (await make("serve").endpoint()).pid
    assert os.getpgid(pid) == pid != os.getpgid(0)


async def test_a_crash_at_the_start_is_told_and_its_words_are_kept(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    server = make("crash", patience=LONG)
    with pytest.raises(AgentFailed) as caught:
        await server.endpoint()
    assert caught.value.why == phrases.LOCAL_NOT_STARTED
    assert caught.value.detail == (
        "it ended with exit code 3 before it was ready; it said: the tensors are made of cheese"
    )
    assert "cheese" not in str(caught.value)
    assert "cheese" in "".join(errors(caplog))
    # Until the next attempt everybody is told the same, at once.
    with pytest.raises(AgentFailed, match=phrases.LOCAL_NOT_STARTED):
        await server.endpoint()
    assert len(errors(caplog)) == 1


async def test_after_a_failed_start_it_is_tried_again(make: Make, tmp_path: Path) -> None:
    server = make("crash once", str(tmp_path / "once"))
    with pytest.raises(AgentFailed):
        await server.endpoint()
    pid = 0
    while not pid:
        try:
            pid = (await server.endpoint()).pid
        except AgentFailed:
            await asyncio.sleep(0.005)


async def test_a_child_that_does_not_listen_and_dies_of_a_signal(make: Make) -> None:
    with pytest.raises(AgentFailed) as caught:
        await make("deaf", patience=LONG).endpoint()
    assert caught.value.detail == "it ended with SIGSEGV before it was ready"


async def test_what_is_missing_is_told_instead_of_a_start(mark: str) -> None:
    missing = ["first the one thing", None]
    command = (sys.executable, str(SCRIPT), "serve", mark)
    server = Server(WANTED, command=command, patience=QUICK, check=lambda: missing.pop(0) if missing else None)
    with pytest.raises(AgentFailed) as caught:
        await server.endpoint()
    assert caught.value.why == "first the one thing"
    assert caught.value.detail == f"first the one thing ({__file__})"
    assert processes(mark) == []
    # Once it is there, the next attempt finds it.
    await until(lambda: not missing)
    assert (await server.endpoint()).pid
    await server.close()


@pytest.mark.parametrize("doing", ["garbage", "elsewhere", "endless"])
async def test_something_else_than_an_address(make: Make, mark: str, doing: str) -> None:
    server = make(doing, patience=LONG)
    with pytest.raises(AgentFailed) as caught:
        await server.endpoint()
    assert caught.value.why == phrases.LOCAL_NOT_STARTED
    assert caught.value.detail == "it did not give its address but something else"


async def test_a_child_that_never_gets_ready(make: Make) -> None:
    server = make("silent", patience=Patience(start=0.2, first_pause=1000))
    with pytest.raises(AgentFailed) as caught:
        await server.endpoint()
    assert caught.value.why == "the local model was not ready within 0.2 seconds."


async def test_a_program_that_cannot_be_run() -> None:
    server = Server(WANTED, command=("/no/such/program",), patience=LONG)
    with pytest.raises(AgentFailed) as caught:
        await server.endpoint()
    assert caught.value.detail == "/no/such/program cannot be run: No such file or directory"
    await server.close()


async def test_a_child_that_cannot_be_watched_is_not_left_alone(
    make: Make, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refused)
    with pytest.raises(AgentFailed) as caught:
        await make("silent", patience=LONG).endpoint()
    assert caught.value.detail.endswith("cannot be run: Too many open files")
    assert processes(mark) == []


async def test_a_child_that_dies_is_replaced(make: Make, mark: str, caplog: pytest.LogCaptureFixture) -> None:
    server = make("serve")
    first = await server.endpoint()
    os.kill(first.pid, signal.SIGKILL)
    second = await another_than(server, first)
    assert processes(mark) == [second]
    assert "it ended with SIGKILL" in "".join(errors(caplog))


async def test_what_it_says_is_taken_and_only_the_last_kept(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    server = make("chatty")
    first = await server.endpoint()
    await another_than(server, first)
    said = errors(caplog)[0]
    assert "the last words" in said
    assert len(said) < 5000


async def test_a_child_that_will_not_go_is_killed(make: Make, mark: str) -> None:
    server = make("stubborn")
    await server.endpoint()
    began = time.monotonic()
    await server.close()
    assert time.monotonic() - began < 10
    await none_left(mark)


async def test_what_the_child_started_goes_with_it(make: Make, mark: str) -> None:
    server = make("parent")
    first = await server.endpoint()
    await until(lambda: len(processes(mark)) == 2)
    os.kill(first.pid, signal.SIGKILL)
    await another_than(server, first)
    await until(lambda: len(processes(mark)) == 2)  # of the second


async def test_what_a_failed_child_started_goes_too(make: Make, mark: str) -> None:
    server = make("bad parent", patience=LONG)
    with pytest.raises(AgentFailed, match=phrases.LOCAL_NOT_STARTED):
        await server.endpoint()
    await none_left(mark)


async def test_closing_while_it_starts(make: Make, mark: str) -> None:
    server = make("silent")
    waiting = asyncio.create_task(server.endpoint())
    await until(lambda: bool(processes(mark)))
    await server.close()
    await none_left(mark)
    with pytest.raises(AgentFailed, match=phrases.BROKEN_OFF):
        await waiting


async def test_who_gives_up_waiting_does_not_disturb_the_others(make: Make) -> None:
    server = make("serve")
    impatient = asyncio.create_task(server.endpoint())
    patient = asyncio.create_task(server.endpoint())
    await asyncio.sleep(0)
    impatient.cancel()
    assert (await patient).pid
    assert impatient.cancelled()


def test_the_real_child_is_a_file_that_finds_nothing_of_ours() -> None:
    program, option, file = COMMAND
    assert (program, option) == (sys.executable, "-P")
    assert Path(file).name == "child.py"
