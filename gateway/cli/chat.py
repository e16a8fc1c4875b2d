"""`trunkline chat`: a conversation with an agent in the terminal, or one prompt per line of a pipe."""

from __future__ import annotations

import contextlib
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import click

from gateway import commands
from gateway.cli.client import Client, path_of
from gateway.cli.connection import must_find
from gateway.cli.failing import Failure
from gateway.cli.listening import Event, Happened, Interrupted, Lost, listen
from gateway.cli.options import ID, config_option, load_config
from gateway.cli.output import one_line, visible
from gateway.cli.transcript import text_of
from store.ids import new_id

_INTERRUPTED = 130
#: Of an older conversation, this many messages are shown when it goes on.
_RECALL = 6
#: How often, in seconds, it is looked whether an answer was typed.
_LOOK = 0.2


@click.command()
@config_option
@click.option("--session", "session_id", metavar="ID", type=ID, help="Go on with this session.")
@click.option("--agent", metavar="NAME", type=ID, help="Begin a session with this agent.")
def chat(config_path: Path | None, session_id: str | None, agent: str | None) -> int:
    """Chat with an agent, on the daemon that runs.

    Ctrl-C stops the running answer; a second Ctrl-C, or Ctrl-D, leaves. If the input is no terminal, every line of
    it is a prompt, only the answers are printed, and the exit code is 1 if one of them failed.
    """
    if session_id is not None and agent is not None:
        raise click.UsageError("A session has its agent already: give --session or --agent, not both.")
    client = must_find(load_config(config_path)).client
    if session_id is None:
        talk = Talk(client, _agent(client, agent))
    else:
        state = client.get(path_of("api", "sessions", session_id, "state"))
        talk = Talk(client, state["session"]["agentId"], state["session"])
    return _by_hand(talk) if sys.stdin.isatty() else _by_line(talk)


def _agent(client: Client, name: str | None) -> str:
    """Asked before the first prompt; the session itself is only made with it."""
    me = client.get("/api/me")
    known = [agent["id"] for agent in me["agents"]]
    chosen = name or me["defaultAgent"]
    if chosen is None:
        raise Failure(f"There is no default agent: name one of {', '.join(known)} with --agent.")
    if chosen not in known:
        raise Failure(f"There is no agent called {chosen!r}. Configured: {', '.join(known)}.")
    return str(chosen)


class Talk:
    """One session and what is shown of it. Only the answers to our own prompts are."""

    def __init__(self, client: Client, agent: str, session: dict[str, Any] | None = None) -> None:
        self.client = client
        self.agent = agent
        self.session: str | None = None
        #: Whether Ctrl-C was pressed during the last answer.
        self.stopped = False
        self._events: SimpleQueue[Event] = SimpleQueue()
        if session is not None:
            self._join(session)

    def _join(self, session: dict[str, Any]) -> None:
        self.session = str(session["id"])
        listen(self.client, self.session, session["updatedAt"], self._events)

    def ask(self, text: str) -> bool:
        """Send a prompt or a command and show its answer; false if it failed or was stopped."""
        if self.session is not None and commands.parse(text) is not None:
            path = path_of("api", "sessions", self.session, "command")
            click.echo(visible(self.client.post(path, {"text": text})["text"]))
            return True
        prompt = new_id()
        with _interrupts(self._events, prompt):
            if self.session is None:
                self._join(self.client.post("/api/sessions", {"agent": self.agent, "lasting": True}))
            path = path_of("api", "sessions", str(self.session))
            sent = self.client.post(f"{path}/prompt", {"text": text, "id": prompt})
            return self._answer(f"{path}/stop", sent["messageId"], prompt)

    def _answer(self, stop: str, message_id: str, prompt: str) -> bool:
        turn: int | None = None
        self.stopped = False
        paper = Paper()
        questions = Questions(self.client, str(self.session))
        while True:
            match questions.or_event(self._events):
                case Interrupted(asked) if asked == prompt:  # one that came after an answer's end is not for the next
                    if self.stopped:
                        raise KeyboardInterrupt
                    self.stopped = True
                    self.client.post(stop)
                case Lost(why):
                    paper.end()
                    raise Failure(why)
                case Happened("message", {"id": str(one), "turn": int(number)}) if one == message_id:
                    turn = number
                    if self.stopped:  # the first try came too early to stop anything
                        self.client.post(stop)
                case Happened("message", row) if turn is not None and row["turn"] == turn and row["role"] != "user":
                    paper.show(row)
                    questions.look(row)
                case Happened("turn", row) if row["sequenceNumber"] == turn and row["status"] != "pending":
                    paper.end()
                    return bool(row["status"] == "completed")


class Questions:
    """What the agent asks while it answers. On a terminal it is answered by number; elsewhere nobody is there."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._path = path_of("api", "sessions", session, "questions")
        self._open: list[dict[str, Any]] = []

    def look(self, row: dict[str, Any]) -> None:
        """A question is a note in the history, and so is what became of it."""
        if row["role"] == "system" and row["content"]["type"] == "text" and sys.stdin.isatty():
            self._open = self._client.get(self._path)
            if self._open:
                click.echo(f"Answer with a number from 1 to {len(self._open[0]['options'])}: ", nl=False, err=True)

    def or_event(self, events: SimpleQueue[Event]) -> Event:
        """The next event; while a question is open, what is typed is its answer."""
        while self._open:
            try:
                return events.get(timeout=_LOOK)
            except Empty:
                if select.select([sys.stdin], [], [], 0)[0]:
                    self._choose(sys.stdin.readline().strip())
        return events.get()

    def _choose(self, text: str) -> None:
        if not (text.isascii() and text.isdecimal()):
            click.echo("A number, please: ", nl=False, err=True)
            return
        try:
            told = self._client.post(path_of("api", "questions", self._open[0]["id"]), {"option": int(text[:4])})
            click.echo(visible(told["text"]), err=True)
            self._open = self._open[1:]
        except Failure as why:
            click.echo(str(why), err=True)
            self._open = self._client.get(self._path)


class Paper:
    """What was printed of an answer. On a terminal it grows as it comes; elsewhere only what is final is printed."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._printed: dict[str, str] = {}
        self._open: str | None = None

    def show(self, row: dict[str, Any]) -> None:
        content = row["content"]
        if row["role"] == "system" or content["type"] != "text":
            self.end()
            click.echo(f"[{text_of(row)}]", err=True)
        elif self.live or not content.get("partial"):
            self._grow(row["id"], visible(content["text"]))

    def end(self) -> None:
        if self._open is not None:
            click.echo()
            self._open = None

    def _grow(self, row: str, text: str) -> None:
        if self._open != row:
            self.end()
        before = self._printed.get(row, "")
        if text == before:
            return
        if before and not text.startswith(before):
            before = ""
            click.echo()
        click.echo(text[len(before) :], nl=False)
        self._printed[row] = text
        self._open = row


def _by_line(talk: Talk) -> int:
    answered = True
    for line in sys.stdin:
        if line.strip():
            answered &= talk.ask(line.rstrip("\n"))
        if talk.stopped:
            return _INTERRUPTED
    return 0 if answered else 1


def _by_hand(talk: Talk) -> int:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # from here on `input` has a history and can be edited
    _greet(talk)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            text = input("> ")
            if text.strip():
                talk.ask(text)
    click.echo(err=True)
    if talk.session is not None:
        click.echo(f"Go on with this conversation: trunkline chat --session {talk.session}", err=True)
    return 0


def _greet(talk: Talk) -> None:
    if talk.session is not None:
        rows = talk.client.get(path_of("api", "sessions", talk.session, "messages"), {"limit": _RECALL})
        for row in rows:
            click.echo(f"> {text_of(row)}" if row["role"] == "user" else text_of(row))
    click.echo(f"You talk to {one_line(talk.agent)}. Ctrl-C stops an answer, Ctrl-D leaves.", err=True)


@contextlib.contextmanager
def _interrupts(events: SimpleQueue[Event], prompt: str) -> Iterator[None]:
    """Ctrl-C becomes one more event: nothing that was read is lost by it."""
    before = signal.signal(signal.SIGINT, lambda *_: events.put(Interrupted(prompt)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
