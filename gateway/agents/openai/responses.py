"""The Responses API: answers that the server remembers, so that the next request need not repeat them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import openai
from openai.types.responses import (
    EasyInputMessageParam,
    Response,
    ResponseFunctionToolCall,
    ResponseInputItemParam,
    ResponseInputMessageContentListParam,
    ResponseStreamEvent,
)

from gateway.agents.openai import failures, usage
from gateway.agents.openai.conversation import Prompt, merged
from gateway.agents.openai.pairing import Call, Item, Result, Said
from gateway.agents.openai.streams import Ask, Closing, events, opened
from routing.errors import AnswerCut
from store.ids import Micros

_SECOND = 1_000_000


class ResponsesApi:
    def __init__(
        self, client: openai.AsyncOpenAI, options: dict[str, Any], patience: float, remembers: float | None
    ) -> None:
        self._client = client
        self._options = options
        #: How long an answer may take to begin, in seconds.
        self._patience = patience
        #: How long this server is known to keep an answer, in seconds.
        self._remembers = remembers

    async def answer(self, ask: Ask) -> AsyncGenerator[str | Closing, None]:
        opening = self._client.responses.create(
            model=ask.model,
            input=items(ask.prompt, chained=ask.previous is not None),
            # The server does not carry them over from the answer before.
            instructions=ask.prompt.instructions or openai.omit,
            previous_response_id=ask.previous or openai.omit,
            stream=True,
            **self._options,
        )
        growing = _Growing()
        async with aclosing(events(await opened(opening, self._patience))) as stream:
            async for event in stream:
                if text := growing.take(event):
                    yield text
                if growing.ended is not None:
                    break  # a server that keeps the connection open is not waited for
        if growing.ended is None:
            raise failures.failure(AnswerCut, "the stream ended without response.completed")
        ask.ledger.note(growing.ended.id or object(), usage.of_response(growing.ended.usage))
        if growing.ended.status == "failed":
            error = growing.ended.error
            raise failures.of_code(*((None, None) if error is None else (error.code, error.message)))
        if not growing.said and (whole := _whole_text(growing.ended)):
            yield whole  # a server that sent no pieces
        yield self._closing(growing.ended, growing)

    def _closing(self, response: Response, growing: _Growing) -> Closing:
        calls = growing.calls or _calls(response)
        reason = None if response.incomplete_details is None else response.incomplete_details.reason
        return Closing(
            model=response.model or None,
            response_id=response.id or None,
            # A call without its result can never be followed.
            expires=_micros(response.created_at) if calls else self._expires(response),
            calls=tuple(calls),
            limited=reason == "max_output_tokens",
            refused=growing.refused or reason == "content_filter",
        )

    def _expires(self, response: Response) -> Micros | None:
        told = getattr(response, "expires_at", None)  # not of OpenAI's own API
        if isinstance(told, int | float):
            return _micros(told)
        return None if self._remembers is None else _micros(response.created_at + self._remembers)


class _Growing:
    """What is known of an answer besides its text."""

    def __init__(self) -> None:
        self.said = False
        self.refused = False
        self.calls: list[Call] = []
        self.ended: Response | None = None
        self._part: int | None = None

    def take(self, event: ResponseStreamEvent) -> str:
        """The text of an event. Thoughts come as events of other kinds, which are left alone."""
        match event.type:
            case "response.output_text.delta":
                return self._text(event.output_index, event.delta)
            case "response.refusal.delta" | "response.refusal.done":
                self.refused = True
            case "response.output_item.done" if isinstance(event.item, ResponseFunctionToolCall):
                self.calls.append(_call(event.item))
            case "response.completed" | "response.incomplete" | "response.failed":
                self.ended = event.response
            case "error":
                raise failures.of_code(event.code, event.message)
        return ""

    def _text(self, part: int, text: str) -> str:
        """Two messages of one answer stay two paragraphs."""
        apart = self.said and part != self._part
        self._part = part
        self.said = self.said or bool(text)
        return f"\n\n{text}" if apart and text else text


def _whole_text(response: Response) -> str:
    parts = [item.content for item in response.output or () if item.type == "message"]
    texts = ["".join(one.text for one in part if one.type == "output_text") for part in parts]
    return "\n\n".join(text for text in texts if text)


def _calls(response: Response) -> list[Call]:
    return [_call(item) for item in response.output or () if isinstance(item, ResponseFunctionToolCall)]


def _call(item: ResponseFunctionToolCall) -> Call:
    return Call(item.call_id or item.id or "", item.name or "", item.arguments or "")


def _micros(seconds: float | None) -> Micros | None:
    return None if seconds is None else round(seconds * _SECOND)


def items(prompt: Prompt, *, chained: bool) -> list[ResponseInputItemParam]:
    """The conversation, or only what is new to a server that remembers the rest."""
    if chained:
        return _rendered(merged(prompt.asked))
    head: list[ResponseInputItemParam] = [] if prompt.summary is None else [_system(prompt.summary)]
    return head + _rendered(merged((*prompt.history, *prompt.asked)))


def _rendered(said: Iterable[Item]) -> list[ResponseInputItemParam]:
    rendered: list[ResponseInputItemParam] = []
    for item in said:
        match item:
            case Said("user", text, images):
                content = _parts(text, images) if images else text
                rendered.append(EasyInputMessageParam(type="message", role="user", content=content))
            case Said("assistant", text):
                rendered.append(EasyInputMessageParam(type="message", role="assistant", content=text))
            case Said(_, text):
                rendered.append(_system(text))
            case Call(call_id, name, arguments):
                rendered.append({"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments})
            case Result(call_id, text):
                rendered.append({"type": "function_call_output", "call_id": call_id, "output": text})
    return rendered


def _system(text: str) -> EasyInputMessageParam:
    return EasyInputMessageParam(type="message", role="system", content=text)


def _parts(text: str, images: tuple[str, ...]) -> ResponseInputMessageContentListParam:
    parts: ResponseInputMessageContentListParam = [{"type": "input_text", "text": text}]
    for url in images:
        parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
    return parts
