"""What a message says: a typed union, stored as JSON exactly as the session API shows it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

#: What JSON can hold. Deliberately loose: it is other programs' data (tool arguments, plan steps).
Json = Any


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    #: None for a user's text; true while an agent's answer still grows.
    partial: bool | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[dict[str, Json], ...]


@dataclass(frozen=True, slots=True)
class Tool:
    tool: str
    args: dict[str, Json]
    result: dict[str, Json]


Content = Text | Plan | Tool


def encode(content: Content) -> str:
    match content:
        case Text(text, None):
            value: dict[str, Json] = {"type": "text", "text": text}
        case Text(text, partial):
            value = {"type": "text", "text": text, "partial": partial}
        case Plan(steps):
            value = {"type": "plan", "steps": list(steps)}
        case Tool(tool, args, result):
            value = {"type": "tool", "tool": tool, "args": args, "result": result}
    return to_json(value)


def decode(stored: str) -> Content:
    value = json.loads(stored)
    match value["type"]:
        case "plan":
            return Plan(tuple(value["steps"]))
        case "tool":
            return Tool(value["tool"], value["args"], value["result"])
        case _:
            return Text(value["text"], value.get("partial"))


def to_json(value: Json) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    return clean(text)


def _finite(value: Json) -> Json:
    """NaN and the infinities, which Python's JSON has and no other does, become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def clean(text: str) -> str:
    """Text that can be stored: half surrogates, which no database takes, become the replacement character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
