"""Against a server that others wrote: PyPI's llmock, with each of its faults on both APIs."""

from __future__ import annotations

import pytest
from llmock.pytest_plugin import LLMock

from gateway.agents.openai.agent import ModelAgent
from routing.errors import (
    AnswerCut,
    ContextExceeded,
    ModelFailed,
    ModelStalled,
    ProviderDown,
    RateLimited,
    RequestRefused,
    ToolNotOffered,
)
from tests.agents.openai.conftest import Agents
from tests.fakes.model.turns import Heard, hear, turn_of

TEXT = "Paris is the capital of France, and has been for a long time."


@pytest.fixture
def asking(llmock: LLMock, agents: Agents, api: str) -> ModelAgent:
    return agents(llmock.base_url("openai"), api=api, api_key="any", stall_timeout=1.0, model="gpt-5.4-mini")


@pytest.fixture
def heard() -> Heard:
    return Heard()


async def test_an_answer(llmock: LLMock, asking: ModelAgent) -> None:
    llmock.reply(TEXT)
    heard = await hear(asking, turn_of("What is the capital of France?"))
    assert heard.text == TEXT
    assert heard.done.usage.source == "provider"
    assert (heard.done.usage.input or 0) > 0
    assert (heard.done.usage.output or 0) > 0
    assert heard.done.model == "gpt-5.4-mini"
    llmock.assert_resilient(strict=True)


async def test_429_is_waited_out(llmock: LLMock, asking: ModelAgent) -> None:
    llmock.rate_limit(times=2, retry_after=0.1).reply(TEXT)
    assert (await hear(asking, turn_of())).text == TEXT
    assert len(llmock.requests) == 3
    llmock.assert_resilient()


async def test_429_without_end(llmock: LLMock, asking: ModelAgent) -> None:
    llmock.rate_limit(times=None, retry_after=0.05)
    with pytest.raises(RateLimited):
        await hear(asking, turn_of())
    llmock.assert_resilient()


async def test_500_once(llmock: LLMock, asking: ModelAgent) -> None:
    llmock.fail(500).reply(TEXT)
    assert (await hear(asking, turn_of())).text == TEXT
    llmock.assert_resilient(strict=True)


async def test_500_without_end(llmock: LLMock, asking: ModelAgent) -> None:
    llmock.fail(500, times=None, retry_after=0.05)
    with pytest.raises(ProviderDown):
        await hear(asking, turn_of())


async def test_another_model_steps_in(llmock: LLMock, agents: Agents, api: str) -> None:
    llmock.fail(503, times=None, retry_after=0.05, model="big").reply(TEXT)
    both = agents(llmock.base_url("openai"), api=api, api_key="any", fallback_models=["gpt-5.4-mini"])
    heard = await hear(both, turn_of())
    assert heard.text == TEXT
    assert heard.done.warnings == ("Answered by gpt-5.4-mini, because big failed (provider_down).",)


async def test_a_cut_connection(llmock: LLMock, asking: ModelAgent, heard: Heard) -> None:
    llmock.reply(TEXT).disconnect(after_chunks=6)
    with pytest.raises(AnswerCut):
        await hear(asking, turn_of(), heard)
    assert TEXT.startswith(heard.text)
    llmock.assert_resilient()


async def test_a_silent_truncation(llmock: LLMock, asking: ModelAgent, heard: Heard) -> None:
    llmock.reply(TEXT).truncate(after_chunks=6)
    with pytest.raises(AnswerCut):
        await hear(asking, turn_of(), heard)
    assert TEXT.startswith(heard.text)
    assert heard.text != TEXT


async def test_a_stall(llmock: LLMock, asking: ModelAgent, heard: Heard) -> None:
    llmock.reply(TEXT).stall(after_chunks=6, seconds=3.0)
    with pytest.raises(ModelStalled):
        await hear(asking, turn_of(), heard)
    assert TEXT.startswith(heard.text)


async def test_garbage_in_the_stream(llmock: LLMock, asking: ModelAgent, heard: Heard) -> None:
    llmock.reply(TEXT).corrupt(after_chunks=6)
    with pytest.raises(AnswerCut):
        await hear(asking, turn_of(), heard)


async def test_too_long(llmock: LLMock, asking: ModelAgent) -> None:
    llmock.context_overflow()
    with pytest.raises(ContextExceeded):
        await hear(asking, turn_of())
    llmock.limits(context_window=20)
    with pytest.raises(ContextExceeded):
        await hear(asking, turn_of("many words " * 50))
    llmock.assert_resilient(strict=True)


async def test_a_tool_nobody_offered(llmock: LLMock, asking: ModelAgent, heard: Heard) -> None:
    llmock.call_tool("search", {"for": "cats"})
    with pytest.raises(ToolNotOffered):
        await hear(asking, turn_of(), heard)
    [update] = heard.tools
    assert (update.tool, update.args) == ("search", {"for": "cats"})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_cannot_help_is_not_tried_again(llmock: LLMock, asking: ModelAgent, status: int) -> None:
    llmock.fail(status, times=None)
    with pytest.raises(ModelFailed) as failed:
        await hear(asking, turn_of())
    assert len(llmock.requests) == 1
    assert isinstance(failed.value, RequestRefused) == (status in {400, 422})
