"""`trunkline chat`: by hand on a terminal, and by a pipe."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.cli.conftest import PATIENCE, Place


class Terminal:
    """A command on a terminal of its own: what it shows, and what is typed."""

    def __init__(self, place: Place, *args: str | Path) -> None:
        self._screen, inside = pty.openpty()
        self.process = subprocess.Popen(
            place.command(*args, "--config", place.config),
            env=place.env({"TERM": "dumb"}),
            cwd=place.folder,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            preexec_fn=lambda: _take_terminal(),
        )
        os.close(inside)
        self.shown = ""

    def wait_for(self, words: str) -> None:
        """Read on until these words come after what was waited for last."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read(), f"it ended without {words!r}: {self.shown!r}"
        self.shown = self.shown.partition(words)[2]

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def press(self, key: str, words: str) -> None:
        """Like a person: once more if nothing happens. Python loses a Ctrl-C that comes as it begins to wait."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.type(key)
            while words not in self.shown and self._read(1.0):
                pass
        self.wait_for(words)

    def code(self) -> int:
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)
        os.close(self._screen)

    def _read(self, seconds: float = PATIENCE) -> bool:
        ready, _, _ = select.select([self._screen], [], [], seconds)
        try:
            piece = os.read(self._screen, 65_536) if ready else b""
        except OSError:  # the other side was closed
            return False
        self.shown += piece.decode(errors="replace").replace("\r", "")
        return bool(piece)


def _take_terminal() -> None:
    """As a shell does it: whoever runs the tests in the background ignores Ctrl-C, and children inherit that."""
    import fcntl
    import termios

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(running: Place) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def make(*args: str | Path) -> Terminal:
        made.append(Terminal(running, *args))
        return made[-1]

    yield make
    for one in made:
        one.close()


def wait_until_asked(place: Place, text: str) -> None:
    """Until a prompt has begun to be answered in the session that was active last."""
    [session] = place.api.get("/api/sessions", {"limit": 1, "sort": "updated"})["sessions"]
    path = f"/api/sessions/{session['id']}/events"
    with place.api.stream(path, {"since": session["createdAt"]}, timeout=PATIENCE) as lines:
        next(line for line in lines if line.startswith(b"data:") and text.encode() in line)


CTRL_C, CTRL_D = "\x03", "\x04"


def test_by_hand(running: Place, terminal: Callable[..., Terminal]) -> None:
    one = terminal("chat", "--agent", "other")
    one.wait_for("You talk to other. Ctrl-C stops an answer, Ctrl-D leaves.")
    one.wait_for("> ")
    one.type("hello\n")
    one.wait_for("You said: hello\n")
    one.wait_for("> ")
    one.type("count 3\n")
    one.wait_for("1 2 3 done.\n")
    one.wait_for("> ")
    one.type(CTRL_D)
    one.wait_for("Go on with this conversation: trunkline chat --session ")
    assert one.code() == 0
    session = one.shown.strip()
    assert running("sessions", "show", session, "--json").json["agentId"] == "other"
    # Later it goes on, with what was said last.
    again = terminal("chat", "--session", session)
    again.wait_for("> hello\nYou said: hello\n> count 3\n1 2 3 done.\nYou talk to other.")
    again.type("history\n")
    again.wait_for("This is turn 3")
    again.wait_for("> ")
    again.press(CTRL_C, "--session")
    assert again.code() == 0


@pytest.mark.req("P52")
def test_a_request_for_permission_is_answered_by_number(terminal: Callable[..., Terminal]) -> None:
    one = terminal("chat")
    one.wait_for("> ")
    one.type("ask\n")
    one.wait_for("do nothing at all")
    one.wait_for("Answer with a number from 1 to 2: ")
    one.type("perhaps\n")
    one.wait_for("A number, please: ")
    one.type("7\n")
    one.wait_for("There are 2 options")
    one.type("1\n")
    one.wait_for("You chose: ✅ Allow")
    one.wait_for("I was allowed to do nothing, and did it.")
    one.wait_for("> ")


def test_an_answer_is_shown_while_it_grows_and_ctrl_c_stops_it(
    running: Place, terminal: Callable[..., Terminal]
) -> None:
    one = terminal("chat")
    one.wait_for("> ")
    one.type("count 9999\n")
    one.wait_for("1 2 3 ")  # it would take a quarter of an hour to be complete
    one.type(CTRL_C)
    one.wait_for("[Stopped by the user before the answer was complete.")
    one.wait_for("> ")
    one.type("still there?\n")
    one.wait_for("You said: still there?\n")
    one.wait_for("> ")
    one.type("wait 9999\n")
    wait_until_asked(running, "wait 9999")
    one.type(CTRL_C)
    one.wait_for("[Stopped by the user")
    one.wait_for("> ")
    one.press(CTRL_C, "Go on with this conversation")
    assert one.code() == 0


def wait_until_connected(port: int) -> None:
    """Until somebody has connected to a port and sent what nobody has read yet: the kernel keeps account of it."""
    deadline = time.monotonic() + PATIENCE
    while not any(
        int(here.rpartition(":")[2], 16) == port and state == "01" and int(queues.partition(":")[2], 16) > 0
        for _, here, _, state, queues, *_ in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
    ):
        assert time.monotonic() < deadline
        os.sched_yield()


def test_ctrl_c_right_after_enter_stops_the_answer_and_not_the_chat(place: Place) -> None:
    daemon = place.start()
    one = Terminal(place, "chat")
    try:
        one.wait_for("> ")
        # The daemon holds its breath, so that this comes before there is a session.
        daemon.send_signal(signal.SIGSTOP)
        one.type("wait 9999\n")
        wait_until_connected(place.port)
        one.type(CTRL_C)
        daemon.send_signal(signal.SIGCONT)
        one.wait_for("[Stopped by the user")
        one.wait_for("> ")
        one.type("still there?\n")
        one.wait_for("You said: still there?\n")
        one.wait_for("> ")
        one.type(CTRL_D)
        assert one.code() == 0
    finally:
        daemon.send_signal(signal.SIGCONT)
        one.close()


def test_the_daemon_is_restarted_under_the_chat(place: Place) -> None:
    daemon = place.start()
    one = Terminal(place, "chat")
    try:
        one.wait_for("> ")
        one.type("count 20\n")
        one.wait_for("1 2 ")
        daemon.kill()
        daemon.communicate()
        place.daemons.clear()
        place.start()
        one.wait_for("18 19 20 done.\n")  # answered once more, from the beginning
        one.wait_for("> ")
        one.type(CTRL_D)
        assert one.code() == 0
    finally:
        one.close()


# By a pipe


def test_one_prompt_per_line(running: Place) -> None:
    done = running("chat", input="hello\n\n  \nhistory\nlast one without an end")
    assert done.lines == [
        "You said: hello",
        "This is turn 2; I was given 2 earlier messages.",
        "You said: last one without an end",
    ]
    assert done.err == ""


def test_commands_are_answered(running: Place) -> None:
    done = running("chat", input="hello\n/status\n/stauts\n/etc/hosts\n")
    assert "2 messages in this conversation, 0 waiting. Nothing is running.\n" in done.out
    assert "There is no command /stauts. Did you mean /status?" in done.out
    assert "You said: /etc/hosts" in done.out


def test_nothing_to_say(running: Place) -> None:
    before = running.api.get("/api/sessions")["total"]
    assert running("chat", input="").out == ""
    assert running.api.get("/api/sessions")["total"] == before


def test_an_answer_that_fails(running: Place) -> None:
    done = running("chat", input="fail\nand on\n", expect=1)
    assert done.out == "You said: and on\n"
    assert done.err == "[The request above failed and was not finished: you asked me to fail, so I did.]\n"


def test_a_session_goes_on(running: Place) -> None:
    session = running.new("other")
    assert running("chat", "--session", session, input="one\n").out == "You said: one\n"
    assert running("chat", "--session", session, input="history\n").out.startswith("This is turn 2;")
    running("sessions", "end", session)
    said = running("chat", "--session", session, input="more\n", expect=1).sentence
    assert said == f"Session {session} has ended (completed) and takes no more prompts. Start a new session."


def test_what_is_said_cannot_steer_the_terminal(running: Place) -> None:
    assert running("chat", input="\x1b]0;title\x07\n").out == "You said: �]0;title�\n"


def test_ctrl_c_ends_a_pipe(running: Place) -> None:
    chat = subprocess.Popen(
        running.command("chat", "--config", running.config),
        env=running.env(),
        cwd=running.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("hello\nwait 9999\nnever sent\n")
    chat.stdin.flush()
    assert chat.stdout.readline() == "You said: hello\n"
    wait_until_asked(running, "wait 9999")
    chat.send_signal(signal.SIGINT)
    out, err = chat.communicate(timeout=PATIENCE)
    assert (chat.returncode, out) == (130, "")
    assert "Stopped by the user" in err


def test_wrong_use(running: Place, place: Place) -> None:
    done = running("chat", "--session", "x", "--agent", "main", expect=2)
    assert "give --session or --agent, not both" in done.err
    assert running("chat", "--session", "nope", expect=1).sentence == "There is no session nope."
    said = running("chat", "--agent", "nope", expect=1).sentence
    assert said == "There is no agent called 'nope'. Configured: main, other."
    # Only a daemon that runs answers.
    said = place("chat", input="hello\n", expect=1).sentence
    assert said == (
        f"No daemon runs on {place.data}. Start one in another terminal: trunkline run --config {place.config}"
    )
    assert not place.data.exists()
