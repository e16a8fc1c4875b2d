"""Models behind the whole daemon: what people see, what the history keeps, what the log tells."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway import phrases
from gateway.logs import Event
from routing.messages import Attachment, AttachmentKind
from store.records import TurnStatus, Usage
from tests.fakes.harness import Platform, Rig, Rigs
from tests.fakes.model.script import Refuse, Reply, Tokens
from tests.fakes.model.server import FakeModel

RAW = "raw provider text"
HURRY = {"retry-after-ms": "1"}


async def start(rigs: Rigs, model: FakeModel, api: str, **keys: Any) -> Rig:
    main = {"kind": "openai", "model": "big", "base_url": model.url, "api": api, "api_key": "sk-very-secret", **keys}
    return await rigs(builtin=True, main=main).start()


async def ask(rig: Rig, text: str, **how: Any) -> None:
    """Until something is sent: of a model on the other side of a socket the rig does not know."""
    rig.chat.called.clear()
    await rig.say(text, **how)
    async with asyncio.timeout(20):
        await rig.chat.called.wait()
    await rig.settled()


def said_in(request: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["role"], str(one["content"])) for one in request.get("messages") or request["input"]]


@pytest.mark.req("P27", "S004-95")
async def test_an_answer_and_what_it_cost(rigs: Rigs, model: FakeModel, api: str) -> None:
    model.script = [Reply(pieces=("Good ", "morning."), tokens=Tokens(read=30, cached=10, written=8, thought=5))]
    rig = await start(rigs, model, api)
    await ask(rig, "Hi")
    assert rig.chat.texts() == ["Good morning."]
    [turn] = await rig.turns()
    assert turn.status is TurnStatus.COMPLETED
    assert (turn.model, turn.usage) == (
        "big",
        Usage(input=20, cached=10, output=3, reasoning=5, source="provider"),
    )


@pytest.mark.req("P18", "P48")
async def test_what_failed_is_never_done_later(rigs: Rigs, model: FakeModel, api: str) -> None:
    model.script = [Refuse(status=500, message=RAW, headers=HURRY)] * 3
    rig = await start(rigs, model, api)
    await ask(rig, "Reset the password")
    [shown] = rig.chat.texts()
    assert shown.startswith("That did not work. The model's provider cannot be reached or has trouble.")
    [failed] = rig.journal.of(Event.TURN_FAILED)
    assert failed["reason"] == "provider_down"
    error_id = shown.partition("(error ")[2].partition(")")[0]
    assert f"error {error_id}: " in failed["detail"]
    assert RAW in failed["detail"]
    await ask(rig, "hello")
    roles = [role for role, _ in said_in(model.requests[-1])]
    assert roles == ["user", "assistant" if api == "chat" else "system", "user"]
    (_, first), (_, closed), (_, last) = said_in(model.requests[-1])
    assert (first, last) == ("Reset the password", "hello")
    assert "The request above failed and was not finished" in closed
    assert RAW not in str(rig.chat.texts()) + str(await rig.said())


@pytest.mark.req("P48")
async def test_a_refusal_is_a_sentence_of_ours(rigs: Rigs, model: FakeModel, api: str) -> None:
    model.script = [Reply(pieces=("I was",), refusal=RAW)]
    rig = await start(rigs, model, api)
    await ask(rig, "Hm")
    assert RAW not in str(rig.chat.texts())
    assert phrases.MODEL_FAILED["answer_refused"][1:] in rig.chat.texts()[-1]


async def test_another_model_is_said_in_the_turn(rigs: Rigs, model: FakeModel, api: str) -> None:
    model.script = [Refuse(status=404, message=RAW)]
    rig = await start(rigs, model, api, fallback_models=["small"])
    await ask(rig, "Hi")
    assert rig.chat.texts() == ["Hello there."]
    [turn] = await rig.turns()
    assert turn.warnings == ("Answered by small, because big failed (model_unknown).",)
    assert turn.model == "small"


@pytest.mark.req("R-13", "P17")
async def test_a_call_stays_in_the_history_with_its_result(rigs: Rigs, model: FakeModel, api: str) -> None:
    model.script = [Reply(pieces=("I look.",), calls=(("c1", "search", '{"for": "cats"}'),))]
    rig = await start(rigs, model, api)
    await ask(rig, "Cats?")
    assert await rig.said() == [
        ("user", "Cats?"),
        ("agent", "I look."),
        ("system", "search={'error': 'there is no such tool'}"),
    ]
    await ask(rig, "Dogs?")
    told = str(model.requests[-1])
    assert "there is no such tool" in told
    assert told.count("'name': 'search'") == 1


@pytest.mark.req("P24")
async def test_an_image_is_sent_once(rigs: Rigs, model: FakeModel, api: str) -> None:
    main = {"kind": "openai", "model": "big", "base_url": model.url, "api": api, "images": True}
    rig = rigs(builtin=True, main=main)
    chat = Platform(rig.clock)
    chat.files["f"] = b"\xff\xd8\xff" + bytes(3000)
    await rig.on(chat).start()
    cat = Attachment(kind=AttachmentKind.IMAGE, ref="f", name="cat.jpg", mime="image/jpeg", size=None)
    await ask(rig, "Look", attachments=(cat,))
    model.known.clear()  # so that the whole conversation is sent
    await ask(rig, "hi")
    first, *others = map(str, model.requests)
    assert "data:image/jpeg;base64," in first
    assert "base64" not in str(others)
    assert "cat.jpg" in others[-1]


@pytest.mark.req("S004-19", "S004-56", "P18")
async def test_the_next_turn_follows_the_last_answer(rigs: Rigs, model: FakeModel) -> None:
    rig = await start(rigs, model, "responses")
    await ask(rig, "One")
    model.script = [Refuse(status=400)] * 2
    await ask(rig, "Two")
    await ask(rig, "Three")
    # The second is refused, also when everything is sent; then the server lacks what we know of the failure.
    followed = [request.get("previous_response_id") for request in model.requests]
    assert followed == [None, "answer-1", None, None]
    roles = [role for role, _ in said_in(model.requests[-1])]
    assert roles == ["user", "assistant", "user", "system", "user"]
    assert rig.chat.texts()[0] == rig.chat.texts()[-1] == "Hello there."
    await ask(rig, "Four")
    assert model.requests[-1]["previous_response_id"] == "answer-4"
    assert said_in(model.requests[-1]) == [("user", "Four")]


async def test_a_stop_hangs_up(rigs: Rigs, model: FakeModel, api: str) -> None:
    model.script = [Reply(gate=asyncio.Event())]
    rig = await start(rigs, model, api)
    await rig.say("Tell me all")
    await model.waiting.wait()
    await ask(rig, "/stop")
    await model.left.wait()
    assert rig.chat.texts()[0] == phrases.STOPPED


def test_who_has_no_such_agent_does_not_pay_for_the_sdk(checkout: Path) -> None:
    loaded = "import sys, gateway.daemon; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], cwd=checkout, check=False).returncode == 0
