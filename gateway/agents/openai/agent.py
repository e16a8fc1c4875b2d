"""The agent: one turn, as many requests as it takes, one answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import openai

from gateway import phrases
from gateway.agents.openai import failures, pictures
from gateway.agents.openai.chat import ChatApi
from gateway.agents.openai.conversation import Prompt, arguments, prompt
from gateway.agents.openai.responses import ResponsesApi
from gateway.agents.openai.streams import Api, Ask, Closing
from gateway.agents.openai.summarising import summarise as summary_by
from gateway.agents.openai.usage import Ledger
from gateway.agents.openai.visible import Visible
from gateway.agents.protocol import Done, Event, Summary, TextDelta, ToolUpdate, TurnContext
from gateway.config.tables import ModelApi, OpenAIAgent
from routing.errors import AnswerRefused, EmptyAnswer, ModelFailed, ToolNotOffered

_log = logging.getLogger("trunkline.openai")

_OPENAI = "https://api.openai.com/v1"
#: How long OpenAI keeps an answer that can be followed, in seconds.
_THIRTY_DAYS = 30 * 86_400.0

_RETRIES = 2
_CONNECT = 10.0


class ModelAgent:
    """Answers by a language model. It keeps nothing between turns but its connections."""

    side_effects = False

    def __init__(self, config: OpenAIAgent, files: Path) -> None:
        self._config = config
        #: Where attachments are.
        self._files = files
        self._models = tuple(dict.fromkeys((config.model, *config.fallback_models)))
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url or _OPENAI,
            # The SDK wants one, also for a server that asks for none.
            api_key="none" if config.api_key is None else config.api_key.get_secret_value(),
            timeout=openai.Timeout(config.stall_timeout, connect=min(_CONNECT, config.stall_timeout)),
            max_retries=_RETRIES,
        )
        # They tell every request, and at the lowest level all that is in it. Repetitions are worth a line.
        for name, level in (("openai", logging.INFO), ("httpx2", logging.WARNING), ("httpcore2", logging.WARNING)):
            logging.getLogger(name).setLevel(level)
        self._api = self._make_api()
        #: There are no answers to follow, or the server has said that it cannot.
        self._never_chains = config.api is ModelApi.CHAT

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        images = await pictures.of_messages(turn.instruction, self._files) if self._config.images else {}
        attempts = _Attempts(self._models, None if self._never_chains else turn.previous_response_id)
        asked = prompt(turn, self._config.instructions, images)
        while True:
            shown = False
            try:
                async with aclosing(self._attempt(asked, attempts)) as events:
                    async for event in events:
                        shown = True
                        yield event
                return
            except ModelFailed as failed:
                failed.spent = asdict(attempts.ledger.total())
                self._never_chains = self._never_chains or failures.refuses_chains(failed.__cause__)
                # What people have seen is never said once more in other words: such a turn fails, visibly.
                if shown or not attempts.next_after(failed):
                    raise
                _log.warning("session %s, turn %d: %s; %s", turn.session_id, turn.turn, failed.code, failed.detail)

    async def summarise(self, text: str, focus: str | None, limit: int, model: str | None) -> Summary:
        models = tuple(dict.fromkeys((model, *self._models))) if model else self._models
        return await summary_by(self._api, models, text, focus, limit)

    async def close(self) -> None:
        await self._client.close()

    async def _attempt(self, asked: Prompt, attempts: _Attempts) -> AsyncGenerator[Event, None]:
        """One model's answer up to the closing event."""
        visible, said = Visible(), False
        closing: Closing | None = None
        ask = Ask(model=attempts.model, prompt=asked, previous=attempts.previous, ledger=attempts.ledger)
        async with aclosing(self._api.answer(ask)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Closing):
                    closing, piece = piece, visible.rest()
                else:
                    piece = visible.feed(piece)
                if piece:
                    said = said or bool(piece.strip())
                    yield TextDelta(piece)
        if closing is None:
            raise RuntimeError("an answer without its end")
        for update in _updates(closing):
            yield update
        yield attempts.done(closing, _warnings(closing, said))

    def _make_api(self) -> Api:
        config = self._config
        given: dict[str, Any] = {"temperature": config.temperature, "top_p": config.top_p}
        # Time is left for the text, and for the other models to begin one.
        patience = config.turn_timeout / (len(self._models) + 1)
        ours = config.base_url is None
        match config.api:
            case ModelApi.RESPONSES:
                given["max_output_tokens"] = config.max_output_tokens
                return ResponsesApi(self._client, _said(given), patience, _THIRTY_DAYS if ours else None)
            case ModelApi.CHAT:
                # OpenAI's newer models refuse the old name, other servers do not know the new one.
                given["max_completion_tokens" if ours else "max_tokens"] = config.max_output_tokens
                return ChatApi(self._client, _said(given), patience)


class _Attempts:
    """Which model is asked next, and how; and what all of it cost."""

    def __init__(self, models: tuple[str, ...], previous: str | None) -> None:
        self.model, *self._others = models
        self.previous = previous
        self.ledger = Ledger()
        self._warnings: list[str] = []

    def next_after(self, failed: ModelFailed) -> bool:
        """Whether there is another way. A forgotten chain is no failure of the model: it gets everything, once."""
        if self.previous is not None and failures.loses_chain(failed):
            self.previous = None
            self._warnings.append(phrases.CHAIN_LOST)
            return True
        if not failed.elsewhere or not self._others:
            return False
        other = self._others.pop(0)
        self._warnings.append(phrases.OTHER_MODEL.format(model=other, failed=self.model, why=failed.code))
        self.model = other
        return True

    def done(self, closing: Closing, warnings: tuple[str, ...]) -> Done:
        return Done(
            usage=self.ledger.total(),
            model=closing.model or self.model,
            warnings=(*self._warnings, *warnings),
            response_id=closing.response_id,
            previous_response_id=self.previous,
            chain_expires=closing.expires,
        )


def _updates(closing: Closing) -> list[ToolUpdate]:
    """Calls of tools that nobody offered, each with its result, so that the history stays whole."""
    return [
        ToolUpdate(
            call_id=call.id or f"call_{number}",
            tool=call.name or "unknown",
            args=arguments(call.arguments),
            result={"error": "there is no such tool"},
        )
        for number, call in enumerate(closing.calls)
    ]


def _warnings(closing: Closing, said: bool) -> tuple[str, ...]:
    """What is odd about an answer; raises if it is none."""
    names = ", ".join(call.name for call in closing.calls)
    if closing.refused:
        raise failures.failure(AnswerRefused, "refusal or content filter")
    if not said and closing.calls:
        raise failures.failure(ToolNotOffered, f"the model called {names}")
    if not said:
        raise failures.failure(EmptyAnswer, "it reached its limit of tokens" if closing.limited else "no text came")
    limited = (phrases.ANSWER_LIMITED,) if closing.limited else ()
    return (*limited, *((phrases.TOOL_IGNORED,) if closing.calls else ()))


def _said(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
