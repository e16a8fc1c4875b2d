"""What the two APIs have in common: how an answer is opened, read and closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import openai

from gateway.agents.openai import failures
from gateway.agents.openai.conversation import Prompt
from gateway.agents.openai.pairing import Call
from gateway.agents.openai.usage import Ledger
from routing.errors import ModelStalled
from store.ids import Micros

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How an answer ended. A stream without it was cut."""

    #: The model as the provider names it.
    model: str | None = None
    response_id: str | None = None
    #: Until when the provider promises to remember the answer, if it does.
    expires: Micros | None = None
    #: Tools that the model wants to use.
    calls: tuple[Call, ...] = ()
    #: It ended at the limit of tokens, not of what there was to say.
    limited: bool = False
    #: The model or its provider would not answer.
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to one model."""

    model: str
    prompt: Prompt
    #: The answer that this one follows, where the server remembers it.
    previous: str | None
    ledger: Ledger


class Api(Protocol):
    def answer(self, ask: Ask) -> AsyncGenerator[str | Closing, None]:
        """Text as it comes, then one closing. Raises `ModelFailed`."""
        ...


async def opened(opening: Awaitable[openai.AsyncStream[T]], seconds: float) -> openai.AsyncStream[T]:
    """A stream, after as many repetitions as the SDK makes within this time."""
    try:
        async with asyncio.timeout(seconds):
            return await opening
    except TimeoutError:
        raise failures.failure(ModelStalled, f"no answer began within {seconds:g} s, repetitions included") from None
    except openai.OpenAIError as exc:
        raise failures.of(exc) from exc


async def events(stream: openai.AsyncStream[T]) -> AsyncGenerator[T, None]:
    """The events of a stream; the connection is closed with it, also when it is left early or cancelled."""
    async with stream:
        while True:
            try:
                event = await anext(stream)
            except StopAsyncIteration:
                return
            except (openai.OpenAIError, ValueError) as exc:
                raise failures.of(exc, streaming=True) from exc
            yield event
