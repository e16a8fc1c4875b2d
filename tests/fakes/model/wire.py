"""A scripted answer as the events of each API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from tests.fakes.model.script import Reply, Tokens

Render = Callable[[Reply, dict[str, Any]], AsyncIterator[bytes]]

#: No events: here the server waits, and here it hangs up.
GATE = b"gate"
DROP = b"drop"


async def chat(reply: Reply, about: dict[str, Any]) -> AsyncIterator[bytes]:
    def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        return _event({**about, "object": "chat.completion.chunk", "choices": choices, **reply.more, **more})

    yield chunk({"role": "assistant", "content": ""})
    for thought in reply.thoughts:
        yield chunk({"reasoning_content": thought, "reasoning": thought})
    for number, piece in enumerate(reply.pieces):
        growing = {"prompt_tokens": 10, "completion_tokens": number + 1, "total_tokens": 11 + number}
        yield chunk({"content": piece}, None, usage=growing if reply.growing else None)
    for part in _chat_calls(reply):
        yield chunk({"tool_calls": [part]})
    if reply.refusal:
        yield chunk({"refusal": reply.refusal})
    for mark in _interruptions(reply):
        yield mark
    if reply.error is not None:
        code, message = reply.error
        yield _event({"error": {"code": code, "message": message, "type": "server_error"}})
        return
    if reply.finish is None:
        return
    yield chunk({}, "tool_calls" if reply.calls and reply.finish == "stop" else reply.finish)
    if (usage := _chat_usage(reply)) is not None:
        yield chunk(None, usage=usage)
    yield b"data: [DONE]\n\n"


async def responses(reply: Reply, about: dict[str, Any]) -> AsyncIterator[bytes]:
    number = 0

    def event(kind: str, **fields: Any) -> bytes:
        nonlocal number
        number += 1
        return b"event: " + kind.encode() + b"\n" + _event({"type": kind, "sequence_number": number, **fields})

    def response(status: str, **fields: Any) -> dict[str, Any]:
        fixed = {"object": "response", "status": status, "output": [], "created_at": about["created"], **reply.more}
        return {**about, **fixed, **fields}

    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    yield event("response.created", response=response("in_progress"))
    for thought in reply.thoughts:
        yield event("response.reasoning_text.delta", **(place | {"output_index": 0}), delta=thought)
        summary = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
        yield event("response.reasoning_summary_text.delta", **summary, delta=thought)
    for index, piece in enumerate(reply.pieces):
        at = place | {"output_index": 1 + index * reply.apart}
        yield event("response.output_text.delta", **at, delta=piece, logprobs=[])
    for index, item in enumerate(_response_calls(reply)):
        yield event("response.output_item.done", output_index=2 + index, item=item)
    if reply.refusal:
        yield event("response.refusal.delta", **place, delta=reply.refusal)
    for mark in _interruptions(reply):
        yield mark
    ended = _ending(reply)
    if ended is not None:
        status, fields = ended
        yield event(f"response.{status}", response=response(status, usage=_response_usage(reply), **fields))


def _ending(reply: Reply) -> tuple[str, dict[str, Any]] | None:
    if reply.error is not None:
        code, message = reply.error
        return "failed", {"error": {"code": code, "message": message}}
    match reply.finish:
        case None:
            return None
        case "length" | "content_filter":
            reason = {"length": "max_output_tokens"}.get(reply.finish, reply.finish)
            return "incomplete", {"incomplete_details": {"reason": reason}}
        case _:
            return "completed", {}


def _chat_calls(reply: Reply) -> Iterator[dict[str, Any]]:
    """In pieces, as a model writes them."""
    for index, (call_id, name, arguments) in enumerate(reply.calls):
        yield {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
        for part in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
            yield {"index": index, "function": {"arguments": part}}


def _response_calls(reply: Reply) -> Iterator[dict[str, Any]]:
    for index, (call_id, name, arguments) in enumerate(reply.calls):
        yield {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": name, "arguments": arguments}


def _interruptions(reply: Reply) -> Iterator[bytes]:
    if reply.gate is not None:
        yield GATE
    if reply.drop:
        yield DROP


def _chat_usage(reply: Reply) -> Any:
    if reply.usage is not None or reply.tokens is None:
        return reply.usage
    return _report(reply.tokens, "prompt_tokens", "completion_tokens")


def _response_usage(reply: Reply) -> Any:
    if reply.usage is not None or reply.tokens is None:
        return reply.usage
    return _report(reply.tokens, "input_tokens", "output_tokens")


def _report(tokens: Tokens, read: str, written: str) -> dict[str, Any]:
    return {
        read: tokens.read,
        f"{read}_details": {"cached_tokens": tokens.cached},
        written: tokens.written,
        f"{written}_details": {"reasoning_tokens": tokens.thought},
        "total_tokens": tokens.read + tokens.written,
    }


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"
