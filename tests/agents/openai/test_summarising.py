"""Summaries by a model, alone and behind the whole daemon."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.agents.openai.conversation import PINNED, UNANSWERED, prompt
from gateway.agents.protocol import Summarises
from routing.errors import AnswerRefused, ContextExceeded, KeyRefused
from store import reports, spending
from store.records import Compaction, Role
from tests.agents.openai.conftest import Agents
from tests.fakes.harness import Rig, Rigs
from tests.fakes.model.script import Refuse, Reply
from tests.fakes.model.server import FakeModel
from tests.fakes.model.turns import row, turn_of

HURRY = {"retry-after-ms": "1"}


async def test_the_model_is_told_what_to_keep_and_only_its_text_counts(
    model: FakeModel, agents: Agents, api: str
) -> None:
    model.script = [Reply(thoughts=("hm",), pieces=("A cat", " called Blueberry."))]
    agent = agents(api=api, instructions="Be a pirate.")
    assert isinstance(agent, Summarises)
    written = await agent.summarise("User: my cat is Blueberry", "names", 100, None)
    assert written.text == "A cat called Blueberry."
    [request] = model.requests
    told = json.dumps(request)
    assert "my cat is Blueberry" in told
    assert "keep above all: names" in told
    assert "pirate" not in told
    assert request["model"] == "big"
    assert request.get("previous_response_id") is None


async def test_another_model_writes_if_one_is_named_and_the_own_one_stands_by(
    model: FakeModel, agents: Agents, api: str
) -> None:
    model.scripts["small"] = [Refuse(status=500, headers=HURRY)] * 3
    assert (await agents(api=api).summarise("text", None, 100, "small")).text == "Hello there."
    assert [request["model"] for request in model.requests] == ["small"] * 3 + ["big"]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Refuse(status=401), KeyRefused),
        (Refuse(status=400, code="context_length_exceeded"), ContextExceeded),
        (Reply(pieces=(), finish="content_filter"), AnswerRefused),
    ],
)
async def test_what_fails_raises(model: FakeModel, agents: Agents, api: str, step: Any, error: type[Exception]) -> None:
    model.script = [step] * 3
    with pytest.raises(error):
        await agents(api=api).summarise("text", None, 100, None)


def test_what_is_pinned_is_not_taken_for_an_open_request() -> None:
    old = row(Role.USER, "my cat is Blueberry", turn=1, seq=1, pinned=True)
    new = row(Role.USER, "and now?", turn=5, seq=9)
    history = prompt(turn_of("Hi", history=(old, new, row(Role.AGENT, "well", turn=5, seq=10))), "", {}).history
    assert [getattr(item, "text", None) for item in history] == ["my cat is Blueberry", PINNED, "and now?", "well"]
    assert UNANSWERED not in [getattr(item, "text", None) for item in history]


async def ask(rig: Rig, text: str) -> None:
    rig.chat.called.clear()
    await rig.say(text)
    async with asyncio.timeout(20):
        await rig.chat.called.wait()
    await rig.settled()


async def compacted(rig: Rig) -> list[Compaction]:
    """Of a model on the other side of a socket the rig does not know."""
    async with asyncio.timeout(20):
        while not (rows := await rig.compactions()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return rows


@pytest.mark.req("P21", "S001-50")
async def test_behind_the_daemon_a_summary_takes_the_place_of_what_was_said(
    rigs: Rigs, model: FakeModel, api: str
) -> None:
    model.scripts["small"] = [Reply(pieces=("The cat is Blueberry.",))] * 9
    main = {"kind": "openai", "model": "big", "base_url": model.url, "api": api, "api_key": "sk-very-secret"}
    compaction = {"strategy": "summary", "keep_turns": 1, "model": "small"}
    rig = await rigs(builtin=True, main={**main, "compaction": compaction, "context_window": 600}).start()
    await ask(rig, "my cat is Blueberry " + "word " * 80)
    while "small" not in {request["model"] for request in model.requests}:
        await ask(rig, "word " * 80)
    assert [row.summary for row in await compacted(rig)] == ["The cat is Blueberry."]
    await ask(rig, "how is she called?")
    last = [request for request in model.requests if request["model"] == "big"][-1]
    assert "The cat is Blueberry." in json.dumps(last)
    assert "my cat is Blueberry" not in json.dumps(last)
    assert last.get("previous_response_id") is None, "a chain would bring back what was left out"
    charged = model.ledger.values()
    used = await rig.read(reports.total)
    assert (used.input, used.cached) == (
        sum(one.read - one.cached for one in charged),
        sum(one.cached for one in charged),
    )
    assert used.output + used.reasoning == sum(one.written for one in charged), "summaries are paid for like answers"
    session = await rig.session()
    assert (await rig.read(lambda db: spending.of_session(db, session.id))).total == used.total
    assert used.turns == session.turn_count
    [person] = await rig.read(lambda db: reports.usage(db, reports.By.PERSON, 9))
    assert person.tokens == used
