"""Each thing that goes wrong is an error of its own; the provider's words stay in the log."""

from __future__ import annotations

import asyncio
import re

import pytest

from gateway import phrases
from routing import errors
from routing.errors import (
    AnswerCut,
    AnswerRefused,
    ContextExceeded,
    EmptyAnswer,
    KeyRefused,
    ModelFailed,
    ModelStalled,
    ModelUnknown,
    OutOfCredit,
    ProviderDown,
    RateLimited,
    RequestRefused,
)
from store.records import Usage
from tests.agents.openai.conftest import Agents
from tests.fakes.harness import Journal
from tests.fakes.model.script import Refuse, Reply, Step, Tokens
from tests.fakes.model.server import FakeModel
from tests.fakes.model.turns import Heard, hear, turn_of

RAW = "raw provider text"
#: So that the SDK's repetitions take no time.
HURRY = {"retry-after-ms": "1"}
PAGE = "<html><head><title>502 Bad Gateway</title></head>" + "<p>raw provider text</p>" * 1000
VLLM = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens: raw provider text"

CASES: list[tuple[Step, type[ModelFailed]]] = [
    (Refuse(status=401, code="invalid_api_key"), KeyRefused),
    (Refuse(status=403), KeyRefused),
    (Refuse(status=402), OutOfCredit),
    (Refuse(status=429, code="insufficient_quota", headers=HURRY), OutOfCredit),
    (Refuse(status=429, headers=HURRY), RateLimited),
    (Refuse(status=404, code="model_not_found"), ModelUnknown),
    (Refuse(status=404, page="<h1>raw provider text</h1>"), ModelUnknown),
    (Refuse(status=403, code="model_not_found"), ModelUnknown),
    (Refuse(status=500, headers=HURRY), ProviderDown),
    (Refuse(status=502, page=PAGE, headers=HURRY), ProviderDown),
    (Refuse(status=400, code="context_length_exceeded"), ContextExceeded),
    (Refuse(status=400, kind="exceed_context_size_error"), ContextExceeded),
    (Refuse(status=400, message=VLLM), ContextExceeded),
    (Refuse(status=400, code="content_filter"), AnswerRefused),
    (Refuse(status=400), RequestRefused),
    (Refuse(status=422), RequestRefused),
    (Reply(pieces=(), error=("server_error", RAW)), ProviderDown),
    (Reply(pieces=(), error=("rate_limit_exceeded", RAW)), RateLimited),
    (Reply(pieces=(), error=("context_length_exceeded", RAW)), ContextExceeded),
    (Reply(pieces=("So",), error=("server_error", RAW)), ProviderDown),
    (Reply(pieces=(), error=("bio_policy", RAW)), AnswerRefused),
    (Reply(pieces=(), error=("invalid_prompt", RAW)), RequestRefused),
    (Reply(finish=None), AnswerCut),
    (Reply(pieces=(), finish=None), AnswerCut),
    (Reply(drop=True), AnswerCut),
    (Reply(finish="content_filter"), AnswerRefused),
    (Reply(pieces=(), refusal=RAW), AnswerRefused),
    (Reply(pieces=()), EmptyAnswer),
    (Reply(pieces=("  ", "\n")), EmptyAnswer),
    (Reply(pieces=(), thoughts=(RAW,), finish="length"), EmptyAnswer),
    (Reply(pieces=("<think>", RAW)), EmptyAnswer),
]


@pytest.mark.req("P48", "P24")
@pytest.mark.parametrize(("step", "kind"), CASES)
async def test_each_is_its_own_error(
    model: FakeModel, agents: Agents, api: str, step: Step, kind: type[ModelFailed]
) -> None:
    model.script = [step] * 3
    heard = Heard()
    with pytest.raises(ModelFailed) as caught:
        await hear(agents(api=api), turn_of(), heard)
    failed = caught.value
    assert type(failed) is kind
    found = re.fullmatch(r"(.+) \(error ([0-9a-f]{8})\)", failed.why)
    assert found is not None
    assert found[1] == phrases.MODEL_FAILED[kind.code]
    assert RAW not in heard.text + failed.why
    assert len(failed.why) < 200
    assert failed.detail.startswith(f"error {found[2]}: ")
    assert len(failed.detail) < 600
    if isinstance(step, Refuse):
        assert RAW in failed.detail


def test_every_error_of_a_model_has_its_sentence() -> None:
    kinds = {kind.code for kind in ModelFailed.__subclasses__() if kind.__module__ == errors.__name__}
    assert kinds == set(phrases.MODEL_FAILED)


@pytest.mark.req("P25")
@pytest.mark.parametrize("said", [VLLM, "context_length_exceeded", "Previous response with id 'x' not found."])
async def test_what_a_user_says_is_only_text(model: FakeModel, agents: Agents, api: str, said: str) -> None:
    """A provider that repeats it in its message changes nothing about that."""
    heard = await hear(agents(api=api), turn_of(said))
    assert heard.text == "Hello there."
    model.script = [Refuse(status=400, message=f"Invalid value: '{said}'")]
    with pytest.raises(RequestRefused):
        await hear(agents(api=api), turn_of(said))


async def test_the_sdk_tries_again_and_waits_as_told(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Refuse(status=429, headers={"retry-after": "0.2"}), Refuse(status=503, headers=HURRY), Reply()]
    began = asyncio.get_running_loop().time()
    heard = await hear(agents(api=api), turn_of())
    assert heard.text == "Hello there."
    assert asyncio.get_running_loop().time() - began >= 0.2
    assert heard.done.warnings == ()
    assert len(model.requests) == 3


async def test_a_wait_that_does_not_fit_into_the_turn_is_not_begun(model: FakeModel, agents: Agents, api: str) -> None:
    """Half of the turn is for the beginning of an answer; with another model to ask, a third."""
    model.script = [Refuse(status=429, headers={"retry-after": "100"})]
    heard = await hear(agents(api=api, turn_timeout=0.6, fallback_models=["small"]), turn_of())
    assert heard.done.warnings == (phrases.OTHER_MODEL.format(model="small", failed="big", why="model_stalled"),)
    model.script = [Refuse(status=429, headers={"retry-after": "100"})]
    with pytest.raises(ModelStalled):
        await hear(agents(api=api, turn_timeout=0.2), turn_of())


@pytest.mark.parametrize(
    "step",
    [
        Refuse(status=429, headers=HURRY),
        Refuse(status=503, headers=HURRY),
        Refuse(status=404, code="model_not_found"),
        Reply(pieces=(), error=("server_error", RAW)),
        Reply(pieces=(), drop=True),
        Reply(pieces=(), finish=None, thoughts=("hm",)),
    ],
)
async def test_another_model_steps_in(model: FakeModel, agents: Agents, api: str, step: Step, journal: Journal) -> None:
    model.scripts = {"big": [step] * 3, "middle": [step] * 3}
    heard = await hear(agents(api=api, fallback_models=["middle", "small"]), turn_of())
    assert heard.text == "Hello there."
    assert heard.done.model == "small"
    assert [warning.partition(" (")[0] for warning in heard.done.warnings] == [
        "Answered by middle, because big failed",
        "Answered by small, because middle failed",
    ]
    assert RAW not in str(heard.done.warnings)
    assert len(journal.lines) == 2


@pytest.mark.parametrize(
    "step",
    [
        Refuse(status=401),
        Refuse(status=400),
        Refuse(status=400, code="context_length_exceeded"),
        Reply(pieces=(), refusal="no"),
        Reply(pieces=()),
        # Something was shown: it is not said once more in other words.
        Reply(drop=True),
        Reply(error=("server_error", RAW)),
        Reply(finish=None),
    ],
)
async def test_another_model_is_not_asked(model: FakeModel, agents: Agents, api: str, step: Step) -> None:
    model.script = [step]
    with pytest.raises(ModelFailed):
        await hear(agents(api=api, fallback_models=["small"]), turn_of())
    assert [request["model"] for request in model.requests] == ["big"]


async def test_when_no_model_can_the_last_error_counts(model: FakeModel, agents: Agents, api: str) -> None:
    model.scripts = {"big": [Refuse(status=404)], "small": [Refuse(status=500, headers=HURRY)] * 3}
    with pytest.raises(ProviderDown):
        await hear(agents(api=api, fallback_models=["small"]), turn_of())


@pytest.mark.req("P27")
async def test_a_failure_tells_what_it_cost(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(pieces=(), tokens=Tokens(read=50, cached=10, written=7, thought=7))]
    with pytest.raises(EmptyAnswer) as failed:
        await hear(agents(api=api), turn_of())
    assert Usage(**failed.value.spent) == Usage(input=40, cached=10, output=0, reasoning=7, source="provider")
    model.script = [Refuse(status=401)]
    with pytest.raises(KeyRefused) as refused:
        await hear(agents(api=api), turn_of())
    assert Usage(**refused.value.spent) == Usage()


async def test_nobody_is_there(agents: Agents, api: str, unused_tcp_port: int) -> None:
    with pytest.raises(ProviderDown):
        await hear(agents(f"http://127.0.0.1:{unused_tcp_port}/v1", api=api), turn_of())


async def test_a_model_that_goes_silent_is_given_up(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(gate=asyncio.Event())]
    heard = Heard()
    with pytest.raises(ModelStalled):
        await hear(agents(api=api, stall_timeout=0.2), turn_of(), heard)
    assert heard.text.startswith("Hello")


async def test_a_connection_lost_after_the_end_loses_nothing(model: FakeModel, agents: Agents) -> None:
    """The report on the cost comes last; without it the answer is still whole."""
    model.script = [
        Reply(more={"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}, drop=True)
    ]
    heard = await hear(agents(api="chat"), turn_of())
    assert set(heard.text) == {"x"}
    assert heard.done.usage == Usage()
