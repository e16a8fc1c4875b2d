"""Answers over both APIs: text as it comes, what it cost, and what a request says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import phrases
from gateway.agents.openai.agent import ModelAgent
from gateway.agents.protocol import Done, TextDelta, ToolUpdate
from routing.errors import ToolNotOffered
from store.records import Usage
from tests.agents.openai.conftest import Agents
from tests.fakes.model.script import Reply, Tokens
from tests.fakes.model.server import FakeModel
from tests.fakes.model.turns import Heard, hear, table, turn_of, user


@pytest.mark.req("P37")
async def test_text_comes_piece_by_piece_and_as_it_is(model: FakeModel, agents: Agents, api: str) -> None:
    pieces = ("  One", " ", "\n\n", "two ", "\ttabs", "  end \n")
    model.script = [Reply(pieces=pieces)]
    heard = await hear(agents(api=api), turn_of("Hi"))
    texts = [event.text for event in heard.events if isinstance(event, TextDelta)]
    assert "".join(texts) == "".join(pieces)
    assert len(texts) > 3
    assert isinstance(heard.events[-1], Done)


@pytest.mark.req("P27", "S004-91")
async def test_what_it_cost_in_buckets(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(tokens=Tokens(read=100, cached=60, written=30, thought=25))]
    done = (await hear(agents(api=api), turn_of())).done
    assert done.usage == Usage(input=40, cached=60, output=5, reasoning=25, source="provider")
    assert done.model == "big"
    assert done.warnings == ()


@pytest.mark.req("P27")
async def test_no_report_is_unknown_not_zero(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(tokens=None)]
    assert (await hear(agents(api=api), turn_of())).done.usage == Usage()


@pytest.mark.req("P27")
async def test_a_report_that_grows_is_counted_once(model: FakeModel, agents: Agents) -> None:
    model.script = [Reply(pieces=("a", "b", "c"), growing=True, tokens=None)]
    done = (await hear(agents(api="chat"), turn_of())).done
    assert done.usage == Usage(input=10, output=3, source="provider")
    model.script = [Reply(pieces=("a", "b", "c"), growing=True, tokens=Tokens(read=10, written=4))]
    done = (await hear(agents(api="chat"), turn_of())).done
    assert done.usage == Usage(input=10, cached=0, output=4, reasoning=0, source="provider")


@pytest.mark.req("P48")
async def test_thoughts_are_not_shown(model: FakeModel, agents: Agents, api: str) -> None:
    marked = ("<th", "ink>they are a cr", "ook</", "think>", "\n\nDear", " customer<|im", "_end|>")
    model.script = [Reply(thoughts=("they want", " money"), pieces=marked)]
    assert (await hear(agents(api=api), turn_of())).text == "Dear customer"


async def test_what_is_configured_is_sent(model: FakeModel, agents: Agents, api: str) -> None:
    given = {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 77, "instructions": "Be brief.", "api_key": "sk-1"}
    await hear(agents(api=api, **given), turn_of("Hi"))
    [request] = model.requests
    assert (request["model"], request["stream"]) == ("big", True)
    assert (request["temperature"], request["top_p"]) == (0.5, 0.9)
    assert model.headers[0]["Authorization"] == "Bearer sk-1"
    if api == "chat":
        assert request["max_tokens"] == 77
        assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    else:
        assert request["max_output_tokens"] == 77
        assert request["instructions"] == "Be brief."
        assert request["input"] == [{"type": "message", "role": "user", "content": "Hi"}]
    await hear(agents(api=api), turn_of("Hi"))
    assert not {"temperature", "top_p", "max_tokens", "max_output_tokens", "instructions"} & set(model.requests[1])


async def test_an_answer_at_the_limit_says_so(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(finish="length")]
    heard = await hear(agents(api=api), turn_of())
    assert heard.text == "Hello there."
    assert heard.done.warnings == (phrases.ANSWER_LIMITED,)


@pytest.mark.req("P37")
async def test_two_messages_of_one_answer_are_not_glued(model: FakeModel, agents: Agents) -> None:
    model.script = [Reply(pieces=("I look it up.", "", "It is blue."), apart=True)]
    assert (await hear(agents(), turn_of())).text == "I look it up.\n\nIt is blue."


async def test_a_server_without_pieces(model: FakeModel, agents: Agents) -> None:
    text: list[Any] = [{"type": "output_text", "text": "All at once.", "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": text}
    model.script = [Reply(pieces=(), more={"output": [message]})]
    assert (await hear(agents(), turn_of())).text == "All at once."


@pytest.mark.req("R-13")
async def test_a_call_of_a_tool_is_stored_and_its_absence_told(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(calls=(("c1", "search", '{"for": "cats"}'), ("c2", "broken", '{"for')))]
    heard = await hear(agents(api=api), turn_of())
    result = {"error": "there is no such tool"}
    assert heard.tools == [
        ToolUpdate("c1", "search", {"for": "cats"}, result),
        ToolUpdate("c2", "broken", {"unreadable": '{"for'}, result),
    ]
    assert heard.done.warnings == (phrases.TOOL_IGNORED,)


@pytest.mark.req("R-13", "P17")
async def test_nothing_but_a_call_is_an_error_of_its_own(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(pieces=(), calls=(("c1", "search", "{}"),))]
    heard = Heard()
    with pytest.raises(ToolNotOffered) as failed:
        await hear(agents(api=api, fallback_models=["other"]), turn_of(), heard)
    assert [one.tool for one in heard.tools] == ["search"]
    assert "search" in failed.value.detail
    assert failed.value.spent["input"] == 10
    assert len(model.requests) == 1


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(50)


def with_picture(folder: Path, name: str = "s/cat.png", content: bytes = PICTURE, **more: Any) -> Any:
    path = folder / "files" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    about = {"kind": "image", "name": "cat.png", "mime": "image/png", "size": 58, "file": name, "error": None}
    return user("Look", attachments=[about], **more)


@pytest.mark.req("P24")
async def test_images_of_this_turn_only(model: FakeModel, agents: Agents, api: str, tmp_path: Path) -> None:
    seer = agents(api=api, images=True)
    old, new = with_picture(tmp_path), with_picture(tmp_path, turn=9)
    await hear(seer, turn_of(new))
    await hear(seer, turn_of("hi", history=(old,)))
    await hear(agents(api=api), turn_of(new))
    first, second, blind = map(str, model.requests)
    assert first.count("data:image/png;base64,iVBORw0KGgo") == 1
    for request in (first, second, blind):
        assert '[file: image "cat.png"]' in request
    assert "base64" not in second
    assert "base64" not in blind


@pytest.mark.req("P24")
@pytest.mark.parametrize("name", ["../outside.png", "s/gone.png", "s/text.png"])
async def test_what_is_no_image_of_ours_is_not_sent(
    model: FakeModel, agents: Agents, tmp_path: Path, name: str
) -> None:
    message = with_picture(tmp_path, name, b"no picture" if "text" in name else PICTURE)
    if "gone" in name:
        (tmp_path / "files" / name).unlink()
    assert (await hear(agents(images=True), turn_of(message))).text
    assert "base64" not in str(model.requests[0])


async def test_leaving_hangs_up(model: FakeModel, agents: Agents, api: str) -> None:
    model.script = [Reply(gate=asyncio.Event())]
    task = asyncio.create_task(hear(agents(api=api), turn_of()))
    await model.waiting.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await model.left.wait()


async def test_closing_hangs_up(model: FakeModel, agents: Agents, api: str) -> None:
    """The iterator is closed after the first event, as by a turn that has failed meanwhile."""
    model.script = [Reply(gate=asyncio.Event())]
    events = agents(api=api).run(turn_of())
    assert await anext(events) == TextDelta("Hello")
    await events.aclose()
    await model.left.wait()


@settings(max_examples=15, deadline=None)
@given(text=st.text(st.characters(exclude_characters="<[◁", exclude_categories=["Cs"]), min_size=1), data=st.data())
def test_any_text_in_any_pieces_comes_through(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=5).map(sorted))
    pieces = tuple(text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True))

    async def ask(api: str) -> str:
        async with FakeModel(Reply(pieces=(*pieces, "."))) as server:
            agent = ModelAgent(table(server.url, api=api), Path("/nowhere"))
            try:
                return (await hear(agent, turn_of())).text
            finally:
                await agent.close()

    for api in ("responses", "chat"):
        assert asyncio.run(ask(api)) == f"{text}."
