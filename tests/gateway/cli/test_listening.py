"""What is shown of a conversation as it goes on, also when the stream of its events breaks off."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import pytest

from gateway.cli import listening
from gateway.cli.chat import Paper
from gateway.cli.client import Client
from gateway.cli.listening import Event, Happened, Lost, listen
from gateway.cli.transcript import text_of
from tests.gateway.cli.conftest import PATIENCE, Place, free_port


def row(text: str, **more: Any) -> dict[str, Any]:
    return {"id": "m-1", "role": "agent", "content": {"type": "text", "text": text, **more}}


@pytest.fixture
def paper() -> Paper:
    paper = Paper()
    paper.live = True
    return paper


def test_an_answer_grows(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("one", "one two", "one two", "one two three"):
        paper.show(row(text, partial=True))
    paper.show(row("one two three.", partial=False))
    paper.end()
    paper.end()
    assert capsys.readouterr().out == "one two three.\n"


def test_one_that_is_written_anew(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("1 2 3", "1 ", "1 2 done."):
        paper.show(row(text, partial=True))
    paper.end()
    assert capsys.readouterr().out == "1 2 3\n1 2 done.\n"


def test_what_is_no_text_stands_on_a_line_of_its_own(paper: Paper, capsys: pytest.CaptureFixture[str]) -> None:
    paper.show(row("before"))
    paper.show({"id": "m-2", "role": "agent", "content": {"type": "tool", "tool": "read", "args": {}, "result": {}}})
    paper.show({**row("after"), "id": "m-3"})
    paper.end()
    assert capsys.readouterr() == ("before\nafter\n", "[tool read]\n")


def test_elsewhere_than_on_a_terminal_only_what_is_final(capsys: pytest.CaptureFixture[str]) -> None:
    paper = Paper()
    paper.show(row("gro", partial=True))
    paper.show(row("grown", partial=False))
    paper.end()
    assert capsys.readouterr().out == "grown\n"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"type": "text", "text": "a\nb"}, "a\nb"),
        ({"type": "text", "text": "a", "partial": True}, "a …"),
        ({"type": "plan", "steps": [{"content": "look"}, {"other": 1}]}, "plan:\n- look\n- {'other': 1}"),
        ({"type": "tool", "tool": "read\x1b", "args": {}, "result": {}}, "tool read�"),
        ({"type": "later"}, "(later)"),
    ],
)
def test_messages_as_people_read_them(content: dict[str, Any], text: str) -> None:
    assert text_of({"content": content}) == text


def test_a_daemon_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_PATIENCE", 0.1)
    events: SimpleQueue[Event] = SimpleQueue()
    client = Client(f"http://127.0.0.1:{free_port()}", "token")
    listen(client, "s-1", "0", events)
    lost = events.get(timeout=PATIENCE)
    assert lost == Lost(f"The daemon at {client.url} cannot be reached: Connection refused.")


def test_a_session_that_is_gone(running: Place) -> None:
    events: SimpleQueue[Event] = SimpleQueue()
    listen(running.api, "nope", "0", events)
    assert events.get(timeout=PATIENCE) == Lost("There is no session nope.")


def test_from_a_time_on(running: Place) -> None:
    session = running.new()
    begin = running.session(session)["createdAt"]
    running.say("hello", session=session)
    events: SimpleQueue[Event] = SimpleQueue()
    listen(running.api, session, begin, events)
    kinds = []
    while "turn" not in kinds:
        happened = events.get(timeout=PATIENCE)
        assert isinstance(happened, Happened)
        kinds.append(happened.kind)
    assert kinds == ["message", "message", "turn"]
