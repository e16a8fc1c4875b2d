"""An agent that behaves, from a chat to its process and back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway import phrases
from store.content import Plan, Text, Tool
from store.records import Role, Usage
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


def tool(**more: Any) -> list[Any]:
    return [
        "update",
        {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Read a file", "kind": "read", **more},
    ]


def progress(**more: Any) -> list[Any]:
    return ["update", {"sessionUpdate": "tool_call_update", "toolCallId": "t1", **more}]


def plan(*statuses: str) -> list[Any]:
    entries = [{"content": f"step {n}", "priority": "high", "status": one} for n, one in enumerate(statuses)]
    return ["update", {"sessionUpdate": "plan", "entries": entries}]


@pytest.mark.req("S002-30", "S002-31", "S002-33", "S002-34", "S002-35", "S002-36", "P37")
async def test_text_plans_and_tools_are_stored_as_they_come(scenes: Scenes) -> None:
    content = [{"type": "content", "content": {"type": "text", "text": "42 lines"}}]
    prompt = [
        ["say", "I will "],
        ["say", "look.\n"],
        ["update", {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}],
        plan("pending", "pending"),
        tool(rawInput={"path": "x"}),
        plan("completed", "pending"),
        progress(status="completed", content=content, rawOutput={"lines": 42}),
        ["say", "It has"],
        ["say", " 42 lines."],
    ]
    scene = await scenes(prompt=prompt).start()
    assert await scene.say("look") == "I will look.\n\nIt has 42 lines."
    rows = {row.role: row for row in await scene.rig.history()}
    contents = [row.content for row in await scene.rig.history()]
    assert [one.text for one in contents if isinstance(one, Text)] == ["look", "I will look.\n", "It has 42 lines."]
    [steps] = [one.steps for one in contents if isinstance(one, Plan)]
    assert [step["status"] for step in steps] == ["completed", "pending"]
    [stored] = [one for one in contents if isinstance(one, Tool)]
    assert stored.tool == "Read a file"
    assert stored.args == {"kind": "read", "input": {"path": "x"}}
    assert stored.result == {"text": "42 lines", "output": {"lines": 42}}
    assert rows[Role.SYSTEM]


async def test_a_character_that_was_cut_in_two_is_whole(scenes: Scenes) -> None:
    scene = await scenes(prompt=[["say", "a \ud83d"], ["say", "\ude00 b"], ["say", "\ud83d"]]).start()
    assert await scene.say("hi") == "a 😀 b"


async def test_an_agent_that_only_works_is_answered_for(scenes: Scenes) -> None:
    scene = await scenes(prompt=[tool(status="completed")]).start()
    assert await scene.say("hi") == phrases.ACP_WORDLESS


@pytest.mark.parametrize(
    ("response", "usage"),
    [
        (
            {"usage": {"totalTokens": 60, "inputTokens": 10, "outputTokens": 20, "cachedReadTokens": 30}},
            Usage(input=10, cached=30, output=20, source="provider"),
        ),
        (
            {"_meta": {"quota": {"token_count": {"input_tokens": 22, "output_tokens": 14}}}},
            Usage(input=22, output=14, source="provider"),
        ),
    ],
)
async def test_tokens_are_kept_as_reported(scenes: Scenes, response: dict[str, Any], usage: Usage) -> None:
    answer = ["answer", {"stopReason": "end_turn", **response}]
    scene = await scenes(prompt=[["say", "ok"], answer]).start()
    await scene.say("hi")
    [turn] = await scene.rig.turns()
    assert turn.usage == usage


async def test_tokens_that_nobody_reports_are_estimated(scenes: Scenes) -> None:
    broken = {"_meta": {"quota": {"token_count": {"input_tokens": -1, "output_tokens": "many"}}}}
    scene = await scenes(prompt=[["say", "ok"], ["answer", {"stopReason": "end_turn", **broken}]]).start()
    await scene.say("hi")
    [turn] = await scene.rig.turns()
    assert turn.usage.source == "estimated"


def test_the_sdk_is_imported_only_where_it_is_needed(checkout: Path) -> None:
    """It takes a good part of a second, and most installations have no such agent."""
    code = "import sys, gateway.daemon; sys.exit('acp' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=checkout, check=True)
