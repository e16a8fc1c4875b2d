"""An agent that behaves, from a chat to its process and back."""

from __future__ import annotations

import pytest

from tests.agents.acp.conftest import Scenes


@pytest.mark.req("S002-01", "S002-03", "S002-04", "S002-12", "S002-24", "S000-38", "S002-11")
async def test_a_message_reaches_the_agent_and_its_answer_the_chat(scenes: Scenes) -> None:
    scene = await scenes().start()
    text = "Grüße 😀\nand a second line"
    assert await scene.say(text) == f"You said: {text}"
    methods = [line["method"] for line in scene.sent() if "method" in line]
    assert methods == ["initialize", "session/new", "session/prompt"]
    [hello], [new], [prompt] = (scene.sent(name) for name in methods)
    assert hello["params"]["protocolVersion"] == 1
    assert new["params"]["cwd"] == str(scene.repo)
    assert scene.born[0]["cwd"] == str(scene.repo)
    assert prompt["params"]["prompt"] == [{"type": "text", "text": text}]
    assert len(scene.processes) == 1
