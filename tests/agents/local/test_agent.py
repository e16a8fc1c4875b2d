"""The agent in front of its own server: answers, and what becomes of one when the server dies."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway import phrases
from gateway.agents.local.agent import LocalModelAgent, wanted_of
from gateway.agents.local.server import Patience, Server
from gateway.agents.protocol import Done, Event, TextDelta, TurnContext
from gateway.config.tables import LocalAgent
from routing.errors import AnswerCut, ContextExceeded
from store.content import Text, encode
from store.records import Message, Role, Usage

SCRIPT = Path(__file__).with_name("fake_model.py")
CONFIG = LocalAgent.model_construct(kind="local", model=Path("/models/tiny.gguf"), max_output_tokens=11)
QUICK = Patience(start=20, first_pause=0.01, longest_pause=0.02)


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[LocalModelAgent]:
    command = (sys.executable, str(SCRIPT), "mark", str(tmp_path / "once"))
    made = LocalModelAgent(CONFIG, tmp_path, Server(wanted_of(CONFIG), command=command, patience=QUICK))
    yield made
    await made.close()


def turn(text: str) -> TurnContext:
    message = Message(1, "m", 1, Role.USER, encode(Text(text)), None, None, None, "{}", 1, 1)
    return TurnContext(agent="main", session_id="s", turn=1, summary=None, history=(), instruction=(message,))


async def ask(agent: LocalModelAgent, text: str) -> list[Event]:
    return [event async for event in agent.run(turn(text))]


async def test_an_answer_with_its_usage(agent: LocalModelAgent) -> None:
    *deltas, done = await ask(agent, "hello")
    assert deltas == [TextDelta("11: "), TextDelta("hello")]
    assert done == Done(usage=Usage(input=7, output=3, source="provider"), model="tiny")
    await ask(agent, "hello again")


async def test_the_server_is_started_again_between_two_answers(agent: LocalModelAgent) -> None:
    await ask(agent, "hello")
    first = await agent._server.endpoint()
    os.kill(first.pid, signal.SIGKILL)
    *deltas, _ = await ask(agent, "hello")
    assert deltas == [TextDelta("11: "), TextDelta("hello")]
    assert (await agent._server.endpoint()).pid != first.pid


async def test_a_server_that_dies_before_it_says_anything_is_asked_again(agent: LocalModelAgent) -> None:
    *deltas, _ = await ask(agent, "die once")
    assert deltas == [TextDelta("11: "), TextDelta("die once")]


async def test_a_server_that_always_dies_is_told(agent: LocalModelAgent) -> None:
    with pytest.raises(AnswerCut) as caught:
        await ask(agent, "die at once")
    assert caught.value.why == phrases.LOCAL_DIED


async def test_what_was_seen_is_not_said_again(agent: LocalModelAgent) -> None:
    events = agent.run(turn("die in the middle"))
    assert await anext(events) == TextDelta("11: ")
    with pytest.raises(AnswerCut) as caught:
        await anext(events)
    assert caught.value.why == phrases.LOCAL_DIED
    *deltas, _ = await ask(agent, "hello")
    assert deltas == [TextDelta("11: "), TextDelta("hello")]


async def test_other_failures_are_those_of_the_model(agent: LocalModelAgent) -> None:
    with pytest.raises(ContextExceeded):
        await ask(agent, "too long")


def test_what_the_child_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    wanted = wanted_of(CONFIG)
    assert (wanted.model, wanted.alias, wanted.slots, wanted.threads) == ("/models/tiny.gguf", "tiny", 1, 3)
    assert wanted.context_window == 4096 + 11
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert wanted_of(CONFIG).threads == 1
    assert wanted_of(CONFIG.model_copy(update={"threads": 8})).threads == 8
