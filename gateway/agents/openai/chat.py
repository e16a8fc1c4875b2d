"""Chat Completions, as OpenAI and any compatible server have them (Ollama, vLLM, llama.cpp …)."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import openai
from openai.types.chat import ChatCompletionChunk, ChatCompletionContentPartParam, ChatCompletionMessageParam
from openai.types.chat.chat_completion_chunk import ChoiceDelta

from gateway.agents.openai import failures, usage
from gateway.agents.openai.conversation import Prompt, merged
from gateway.agents.openai.pairing import Call, Item, Result, Said
from gateway.agents.openai.streams import Ask, Closing, events, opened
from routing.errors import AnswerCut, ModelFailed, ProviderDown

_log = logging.getLogger("trunkline.openai")

_BEGINNING = "(The beginning of this conversation is left out.)"


class ChatApi:
    def __init__(self, client: openai.AsyncOpenAI, options: dict[str, Any], patience: float) -> None:
        self._client = client
        self._options = options
        #: How long an answer may take to begin, in seconds.
        self._patience = patience

    async def answer(self, ask: Ask) -> AsyncGenerator[str | Closing, None]:
        opening = self._client.chat.completions.create(
            model=ask.model,
            messages=messages(ask.prompt),
            stream=True,
            stream_options={"include_usage": True},
            **self._options,
        )
        growing = _Growing()
        # Not by the answer's id: some servers draw it from a few hundred numbers.
        number = object()
        try:
            async with aclosing(events(await opened(opening, self._patience))) as chunks:
                async for chunk in chunks:
                    ask.ledger.note(number, usage.of_chat(chunk.usage))
                    if text := growing.take(chunk):
                        yield text
        except ModelFailed as failed:
            if growing.finish is None:
                raise
            # All was said; only what it cost is missing.
            _log.warning("a stream broke after the end of the answer: %s", failed.detail)
        yield growing.closing()


@dataclass(slots=True)
class _Growing:
    """What is known of an answer besides its text."""

    model: str | None = None
    finish: str | None = None
    refused: bool = False
    calls: dict[int, list[str]] = field(default_factory=dict)

    def take(self, chunk: ChatCompletionChunk) -> str:
        """The text of a chunk; thoughts, which come under other names, are not asked for."""
        self.model = self.model or chunk.model or None
        text = ""
        for choice in chunk.choices or ():
            if choice.delta is not None:
                self._note_calls(choice.delta)
                self.refused = self.refused or bool(choice.delta.refusal)
                text += choice.delta.content or ""
            self.finish = choice.finish_reason or self.finish
        return text

    def closing(self) -> Closing:
        if self.finish is None:
            raise failures.failure(AnswerCut, "the stream ended without a finish_reason")
        if self.finish == "error":
            raise failures.failure(ProviderDown, "finish_reason was error")
        calls = [Call(parts[0], parts[1], "".join(parts[2:])) for _, parts in sorted(self.calls.items())]
        return Closing(
            model=self.model,
            calls=tuple(calls),
            limited=self.finish == "length",
            refused=self.refused or self.finish == "content_filter",
        )

    def _note_calls(self, delta: ChoiceDelta) -> None:
        """A call comes in pieces: its id and its name once, then its arguments bit by bit."""
        for part in delta.tool_calls or ():
            call = self.calls.setdefault(part.index or 0, ["", ""])
            call[0] = call[0] or part.id or ""
            if part.function is not None:
                call[1] = call[1] or part.function.name or ""
                call.append(part.function.arguments or "")


def messages(prompt: Prompt) -> list[ChatCompletionMessageParam]:
    """One system message, then user and assistant in turns.

    Many templates of open models accept nothing else, so what the gateway notes stands in the assistant's place, where
    nobody but the gateway can write.
    """
    head = "\n\n".join(text for text in (prompt.instructions, prompt.summary) if text)
    rendered: list[ChatCompletionMessageParam] = [{"role": "system", "content": head}] if head else []
    items = list(merged(map(_noted, (*prompt.history, *prompt.asked))))
    if items and not _by_user(items[0]):
        rendered.append({"role": "user", "content": _BEGINNING})
    rendered += _rendered(items)
    return rendered


def _noted(item: Item) -> Item:
    if isinstance(item, Said) and item.speaker == "note":
        return Said("assistant", f"[Note of the gateway: {item.text}]")
    return item


def _by_user(item: Item) -> bool:
    return isinstance(item, Said) and item.speaker == "user"


def _rendered(items: Iterable[Item]) -> list[ChatCompletionMessageParam]:
    rendered: list[ChatCompletionMessageParam] = []
    for item in items:
        match item:
            case Said("user", text, images):
                rendered.append({"role": "user", "content": _parts(text, images) if images else text})
            case Said(_, text):
                rendered.append({"role": "assistant", "content": text})
            case Call(call_id, name, arguments):
                rendered.append(
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                        ],
                    }
                )
            case Result(call_id, text):
                rendered.append({"role": "tool", "tool_call_id": call_id, "content": text})
    return rendered


def _parts(text: str, images: tuple[str, ...]) -> list[ChatCompletionContentPartParam]:
    parts: list[ChatCompletionContentPartParam] = [{"type": "text", "text": text}]
    for url in images:
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts
