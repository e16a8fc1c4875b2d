"""Following an answer that the server remembers, and going on when it does not."""

from __future__ import annotations

import pytest

from gateway import phrases
from gateway.agents.openai.responses import ResponsesApi
from routing.errors import ContextExceeded, RateLimited
from tests.agents.openai.conftest import Agents
from tests.fakes.harness import Journal
from tests.fakes.model.script import Refuse, Reply
from tests.fakes.model.server import CREATED, FakeModel
from tests.fakes.model.turns import agent, hear, turn_of, user

BEFORE = (user("My name is Ada.", 1), agent("Hello, Ada.", 1))
HURRY = {"retry-after-ms": "1"}


@pytest.mark.req("S004-19", "S004-56", "S004-95")
async def test_only_what_is_new_is_sent(model: FakeModel, agents: Agents) -> None:
    main = agents(instructions="Be kind.")
    first = (await hear(main, turn_of("My name is Ada."))).done
    assert (first.response_id, first.previous_response_id) == ("answer-1", None)
    second = await hear(main, turn_of("Who am I?", history=BEFORE, previous_response_id="answer-1"))
    assert second.done.previous_response_id == "answer-1"
    assert second.done.response_id == "answer-2"
    assert second.done.warnings == ()
    request = model.requests[1]
    assert request["previous_response_id"] == "answer-1"
    assert request["instructions"] == "Be kind."
    assert request["input"] == [{"type": "message", "role": "user", "content": "Who am I?"}]


@pytest.mark.req("S004-19")
async def test_an_unknown_answer_is_made_up_for_in_the_same_turn(
    model: FakeModel, agents: Agents, journal: Journal
) -> None:
    turn = turn_of("Who am I?", history=BEFORE, previous_response_id="lost", summary="They met.")
    heard = await hear(agents(), turn)
    assert heard.text == "Hello there."
    assert heard.done.warnings == (phrases.CHAIN_LOST,)
    assert heard.done.previous_response_id is None
    assert len(model.requests) == 2
    assert "previous_response_id" not in model.requests[1]
    said = [item["content"] for item in model.requests[1]["input"]]
    assert "They met." in said[0]
    assert said[1:] == ["My name is Ada.", "Hello, Ada.", "Who am I?"]
    assert "lost" in journal.lines[0][0]


@pytest.mark.req("S004-19")
async def test_a_server_that_never_follows_is_asked_once(model: FakeModel, agents: Agents) -> None:
    model.chains = False
    main = agents()
    for _ in range(3):
        heard = await hear(main, turn_of("Who am I?", history=BEFORE, previous_response_id="x"))
        assert heard.done.previous_response_id is None
    assert ["previous_response_id" in request for request in model.requests] == [True, False, False, False]
    assert heard.done.warnings == ()


@pytest.mark.req("S004-19")
async def test_a_chain_that_grew_too_long_is_cut_before_anything_is_compacted(model: FakeModel, agents: Agents) -> None:
    model.known.add("long")
    model.script = [Refuse(status=400, code="context_length_exceeded")]
    heard = await hear(agents(), turn_of("Go on", history=BEFORE, previous_response_id="long"))
    assert heard.done.warnings == (phrases.CHAIN_LOST,)
    model.window = 10
    with pytest.raises(ContextExceeded):
        await hear(agents(), turn_of("Go on", history=BEFORE, previous_response_id="long"))
    assert len(model.requests) == 4


async def test_other_trouble_does_not_break_the_chain(model: FakeModel, agents: Agents) -> None:
    model.known.add("known")
    model.script = [Refuse(status=429, headers=HURRY)] * 3
    with pytest.raises(RateLimited):
        await hear(agents(), turn_of(previous_response_id="known"))
    assert [request["previous_response_id"] for request in model.requests] == ["known"] * 3
    model.script = [Refuse(status=500, headers=HURRY)] * 3
    heard = await hear(agents(fallback_models=["small"]), turn_of(previous_response_id="known"))
    assert heard.done.previous_response_id == "known"


async def test_an_unknown_model_is_not_taken_for_a_lost_chain(model: FakeModel, agents: Agents) -> None:
    model.known.add("known")
    model.script = [Refuse(status=404, code="model_not_found")]
    heard = await hear(agents(fallback_models=["small"]), turn_of(previous_response_id="known"))
    assert heard.done.warnings == ("Answered by small, because big failed (model_unknown).",)
    assert [request["previous_response_id"] for request in model.requests] == ["known", "known"]


@pytest.mark.req("S004-48", "S004-91", "S004-102")
async def test_how_long_an_answer_can_be_followed(model: FakeModel, agents: Agents) -> None:
    assert (await hear(agents(), turn_of())).done.chain_expires is None  # this server promises nothing
    model.more = {"expires_at": CREATED + 60}
    assert (await hear(agents(), turn_of())).done.chain_expires == (CREATED + 60) * 1_000_000
    # OpenAI keeps them for 30 days.
    model.more = {}
    main = agents()
    main._api = ResponsesApi(main._client, {}, 30.0, 30 * 86_400.0)
    assert (await hear(main, turn_of())).done.chain_expires == (CREATED + 30 * 86_400) * 1_000_000
    # What waits for the result of a call cannot be followed at all.
    model.script = [Reply(calls=(("c", "search", "{}"),))]
    assert (await hear(agents(), turn_of())).done.chain_expires == CREATED * 1_000_000


async def test_chat_completions_have_no_chain(model: FakeModel, agents: Agents) -> None:
    heard = await hear(agents(api="chat"), turn_of("Who am I?", history=BEFORE, previous_response_id="x"))
    assert (heard.done.response_id, heard.done.previous_response_id, heard.done.chain_expires) == (None, None, None)
    assert [one["content"] for one in model.requests[0]["messages"]] == ["My name is Ada.", "Hello, Ada.", "Who am I?"]
