"""The whole path with a real language model. What it says is its own affair: only the shape is looked at."""

from __future__ import annotations

import http.client
import os
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway import phrases
from tests.gateway.cli.conftest import Place
from tests.local_model.conftest import Record
from tests.local_model.talking import STORY, Answer, ask, gone, listens_at, model_of, resident_mb

# On a busy machine a small model is slow as well.
pytestmark = pytest.mark.timeout(300)


def until(holds: Callable[[], bool], seconds: float) -> float:
    """How long it took; what the system does to processes has no event."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds
        time.sleep(0.005)
    return time.monotonic() - began


def loaded_in(place: Place) -> list[float]:
    """How long each start of the model took, as the log says."""
    return [
        float(found) for found in re.findall(r"is ready: process \d+, after ([0-9.]+) seconds", place.log.read_text())
    ]


def is_whole(answer: Answer) -> bool:
    turn = answer.turn
    counted = turn["inputTokens"] > 0 and turn["outputTokens"] > 0 and turn["usageSource"] == "provider"
    return turn["status"] == "completed" and bool(turn["agentAnswerSummary"].strip()) and counted


def test_an_answer_streams_and_is_counted(place: Place, record: Record) -> None:
    daemon = place.start()
    session = place.new()
    first = ask(place, session, "Hello!")
    assert is_whole(first)
    second = ask(place, session, STORY)
    assert is_whole(second)
    assert len(second.grown) > 1
    assert second.turn["openAIModel"] == "SmolLM2-135M-Instruct.Q4_1"
    assert place.session(session)["turnCount"] == 2
    record.note("model loaded", f"{loaded_in(place)[0]:.2f} s after its process was started")
    record.note("first words of the first answer, with loading", f"{first.grown[0][0] - first.asked:.2f} s")
    record.note("first words of the second answer", f"{second.grown[0][0] - second.asked:.2f} s")
    spent = second.ended - second.asked
    tokens = second.turn["outputTokens"]
    record.note("a longer answer", f"{tokens} tokens in {spent:.1f} s ({tokens / spent:.0f} per second, all included)")
    record.note("memory of the model's process", f"{resident_mb(model_of(daemon.pid))} MB")


def test_an_answer_is_stopped_and_the_next_one_comes(place: Place, record: Record) -> None:
    place.start()
    session = place.new()
    stopped: list[float] = []

    def stop() -> None:
        stopped.append(time.monotonic())
        assert place.api.post(f"/api/sessions/{session}/stop")["stopped"]

    answer = ask(place, session, STORY, stop)
    assert answer.turn["status"] not in {"completed", "pending", "running"}
    record.note("stopping an answer", f"{answer.ended - stopped[0]:.2f} s")
    assert is_whole(ask(place, session, "Hello!"))


def test_a_model_that_was_killed_is_started_again(place: Place, record: Record) -> None:
    daemon = place.start()
    session = place.new()
    assert is_whole(ask(place, session, "Hello!"))
    first = model_of(daemon.pid)
    assert not gone(first)
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first), 5)
    again = ask(place, session, "Hello!")
    assert is_whole(again)
    assert model_of(daemon.pid) != first
    record.note("first words after the model was killed", f"{again.grown[0][0] - again.asked:.2f} s")


def test_a_model_that_is_killed_while_it_speaks(place: Place) -> None:
    daemon = place.start()
    session = place.new()
    broken = ask(place, session, STORY, lambda: os.kill(model_of(daemon.pid), signal.SIGKILL))
    assert broken.turn["status"] == "failed"
    assert phrases.LOCAL_DIED in str(broken.turn["errors"])
    assert is_whole(ask(place, session, "Hello!"))


def test_people_wait_for_each_other(place: Place) -> None:
    """One answer at a time, and every conversation its own."""
    place.start()
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda session: ask(place, session, "Hello!"), [place.new() for _ in range(3)]))
    assert all(map(is_whole, answers))


def test_what_is_too_long_for_the_model_is_told(place: Place) -> None:
    place.start()
    session = place.new()
    answer = ask(place, session, "fox " * 20_000)
    assert answer.turn["status"] == "failed"
    assert "n_ctx" not in str(answer.turn["errors"])
    assert is_whole(ask(place, session, "Hello!"))


def test_nobody_else_can_use_the_model(place: Place) -> None:
    daemon = place.start()
    assert is_whole(ask(place, place.new(), "Hello!"))
    model = model_of(daemon.pid)
    [(address, port)] = listens_at(model)
    assert address == "0100007F"  # 127.0.0.1
    for headers in ({}, {"Authorization": "Bearer guessed"}):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("POST", "/v1/chat/completions", b"{}", headers)
        assert connection.getresponse().status == 401
        connection.close()
    assert len(loaded_in(place)) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_that_ends_leaves_nothing(place: Place, record: Record, number: signal.Signals) -> None:
    daemon = place.start()
    assert is_whole(ask(place, place.new(), "Hello!"))
    model = model_of(daemon.pid)
    place.daemons.remove(daemon)
    assert not gone(model)
    daemon.send_signal(number)
    took = until(lambda: gone(model), 10)
    daemon.communicate(timeout=10)
    assert daemon.returncode == (0 if number is signal.SIGTERM else -number)
    record.note(f"the model's process is gone after {number.name} to the daemon", f"{took:.2f} s")
