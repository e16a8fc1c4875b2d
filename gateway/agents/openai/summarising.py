"""Summaries by a model: one request without a conversation, answered by the first model that can."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict

from gateway.agents.openai import failures
from gateway.agents.openai.conversation import Prompt
from gateway.agents.openai.pairing import Said
from gateway.agents.openai.streams import Api, Ask, Closing
from gateway.agents.openai.usage import Ledger
from gateway.agents.openai.visible import Visible
from gateway.agents.protocol import Summary
from gateway.agents.summarising import task
from routing.errors import AnswerCut, AnswerRefused, ModelFailed

_log = logging.getLogger("trunkline.openai")


async def summarise(api: Api, models: Sequence[str], text: str, focus: str | None, limit: int) -> Summary:
    """What the first of the models says that answers. Raises `ModelFailed`."""
    asked = Prompt(instructions=task(focus, limit), summary=None, history=(), asked=(Said("user", text),))
    ledger = Ledger()
    for model, last in zip(models, [False] * (len(models) - 1) + [True], strict=True):
        try:
            said = await _answer(api, Ask(model=model, prompt=asked, previous=None, ledger=ledger))
            return Summary(said, ledger.total(), model)
        except ModelFailed as failed:
            failed.spent = asdict(ledger.total())
            if last or not failed.elsewhere:
                raise
            _log.warning("no summary by %s: %s; %s", model, failed.code, failed.detail)
    raise ValueError("there is no model to ask")


async def _answer(api: Api, ask: Ask) -> str:
    """The visible text of one answer: what a model thinks first is no summary."""
    visible, said = Visible(), list[str]()
    closing: Closing | None = None
    async with aclosing(api.answer(ask)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Closing):
                closing = piece
                said.append(visible.rest())
            else:
                said.append(visible.feed(piece))
    if closing is None:
        raise failures.failure(AnswerCut, "a summary without its end")
    if closing.refused:
        raise failures.failure(AnswerRefused, "refusal or content filter, of a summary")
    if closing.limited:
        _log.warning("a summary by %s reached its limit of tokens and is cut", ask.model)
    return "".join(said)
