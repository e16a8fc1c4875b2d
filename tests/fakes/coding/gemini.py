"""The Gemini API as far as Gemini CLI uses it: what it sends, and the events that it reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.fakes.coding.brain import Said, Thought


def read(body: dict[str, Any]) -> list[Said]:
    return [said for content in body.get("contents", []) for said in _parts(content)]


def _parts(content: dict[str, Any]) -> Iterator[Said]:
    for part in content.get("parts", []):
        if "functionResponse" in part:
            yield Said("tool", json.dumps(part["functionResponse"].get("response")), result=True)
        elif "text" in part:
            yield Said(content.get("role", "user"), part["text"])


def shell(body: dict[str, Any]) -> str | None:
    """The name of the tool that runs commands, if the agent offers one."""
    tools = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
    return next((one["name"] for one in tools if one["name"] == "run_shell_command"), None)


def answers(thought: Thought, tool: str | None) -> Iterator[dict[str, Any]]:
    """Pieces of the answer, the last one with its end."""
    half = len(thought.text) // 2
    for piece in (thought.text[:half], thought.text[half:]):
        if piece:
            yield _candidate({"text": piece})
    if thought.command is not None and tool is not None:
        args = {"command": thought.command, "description": "write a file"}
        yield _candidate({"functionCall": {"name": tool, "args": args}})


def ending() -> dict[str, Any]:
    tokens = {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25}
    return {**_candidate({"text": ""}, finishReason="STOP"), "usageMetadata": tokens}


def _candidate(part: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, **more}], "modelVersion": "fake"}
