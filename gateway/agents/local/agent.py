"""The agent of the kind `local`: the one of the kind `openai`, in front of a server of our own."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from pydantic import SecretStr

from gateway import phrases
from gateway.agents.local.model import missing
from gateway.agents.local.server import Endpoint, Server, Wanted
from gateway.agents.openai.agent import ModelAgent
from gateway.agents.protocol import Event, Summary, TurnContext
from gateway.config.tables import AgentTable, LocalAgent, ModelApi, OpenAIAgent
from routing.errors import AnswerCut, ModelFailed, ProviderDown

#: A broken connection is seen a moment before the end of the process that broke it, in seconds.
_MOMENT = 1.0


class LocalModelAgent:
    side_effects = False

    def __init__(self, config: LocalAgent, files: Path, server: Server | None = None) -> None:
        self._config = config
        self._files = files
        self._server = server or Server(wanted_of(config), check=lambda: missing(config.model))
        self._model: tuple[Endpoint, ModelAgent] | None = None

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        """A server that dies before it has said anything is replaced once, unnoticed."""
        for last in (False, True):
            endpoint = await self._server.endpoint()
            model = await self._model_at(endpoint)
            shown = False
            try:
                async with aclosing(model.run(turn)) as events:
                    async for event in events:
                        shown = True
                        yield event
                return
            except (AnswerCut, ProviderDown) as failed:
                if not await _ends(endpoint):
                    raise
                if shown or last:
                    raise _died(failed) from failed

    async def summarise(self, text: str, focus: str | None, limit: int, model: str | None) -> Summary:
        """There is one model here, so it is the one, whatever is named."""
        own = await self._model_at(await self._server.endpoint())
        return await own.summarise(text, focus, limit, None)

    async def close(self) -> None:
        try:
            if self._model is not None:
                await self._model[1].close()
        finally:
            await self._server.close()

    async def _model_at(self, endpoint: Endpoint) -> ModelAgent:
        known = self._model
        if known is not None and known[0] == endpoint:
            return known[1]
        new = ModelAgent(table_of(self._config, endpoint), self._files)
        self._model = endpoint, new
        if known is not None:
            await known[1].close()
        return new


def _died(failed: ModelFailed) -> AnswerCut:
    died = AnswerCut(phrases.LOCAL_DIED, detail=failed.detail)
    died.spent = failed.spent
    return died


async def _ends(endpoint: Endpoint) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_MOMENT):
            await endpoint.ended.wait()
    return endpoint.ended.is_set()


def wanted_of(config: LocalAgent) -> Wanted:
    # One core is left to the gateway and to everybody else: threads that wait for each other make it slow for all.
    cores = len(os.sched_getaffinity(0))
    return Wanted(
        model=str(config.model),
        alias=config.model.stem,
        # The answer needs room beside what the model is given.
        context_window=config.context_window + config.max_output_tokens,
        slots=config.max_turns,
        threads=config.threads or max(1, cores - 1),
    )


def table_of(config: LocalAgent, endpoint: Endpoint) -> OpenAIAgent:
    """The configuration of an agent that speaks to this server; it is ours, so there is nothing to validate."""
    common = {name: getattr(config, name) for name in AgentTable.model_fields}
    return OpenAIAgent.model_construct(
        **common,
        kind="openai",
        api=ModelApi.CHAT,
        model=config.model.stem,
        base_url=f"{endpoint.url}/v1",
        api_key=SecretStr(endpoint.key),
        instructions=config.instructions,
        max_output_tokens=config.max_output_tokens,
        # Reading a long conversation takes its time on few cores; the turn has a deadline of its own.
        stall_timeout=config.turn_timeout,
    )
