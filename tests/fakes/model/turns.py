"""Turns as an agent is given them, without a database."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.agents.openai.agent import ModelAgent
from gateway.agents.protocol import Done, Event, TextDelta, ToolUpdate, TurnContext
from gateway.config.environment import Surroundings
from gateway.config.tables import OpenAIAgent
from store.content import Content, Json, Text, Tool, encode, to_json
from store.records import Message, Role


def row(
    role: Role,
    content: Content | str,
    *,
    turn: int | None = 1,
    seq: int = 1,
    calls: list[Json] | None = None,
    call_id: str | None = None,
    **metadata: Json,
) -> Message:
    return Message(
        id=(1 << 32) | seq,
        public_id=str(uuid.uuid4()),
        turn=turn,
        role=role,
        raw_content=encode(Text(content) if isinstance(content, str) else content),
        raw_tool_calls=None if calls is None else to_json(calls),
        tool_call_id=call_id,
        token_count=None,
        raw_metadata=to_json(metadata),
        timestamp=seq,
        changed_at=seq,
    )


def user(text: str, turn: int | None = 1, **metadata: Json) -> Message:
    return row(Role.USER, text, turn=turn, **metadata)


def agent(text: str, turn: int | None = 1, **more: Any) -> Message:
    return row(Role.AGENT, text, turn=turn, **more)


def note(text: str, turn: int | None = 1) -> Message:
    return row(Role.SYSTEM, text, turn=turn)


def tool(name: str, args: dict[str, Json], result: dict[str, Json], **more: Any) -> Message:
    return row(Role.SYSTEM, Tool(name, args, result), **more)


def turn_of(*asked: Message | str, history: tuple[Message, ...] = (), **more: Any) -> TurnContext:
    instruction = tuple(user(one, turn=9) if isinstance(one, str) else one for one in asked or ("Hi",))
    given: dict[str, Any] = {"agent": "main", "session_id": "s", "turn": 9, "summary": None} | more
    return TurnContext(history=history, instruction=instruction, **given)


def table(url: str, **keys: Any) -> OpenAIAgent:
    given = {"kind": "openai", "model": "big", "base_url": url} | keys
    return OpenAIAgent.model_validate(given, context=Surroundings({}, Path("/")))


@dataclass
class Heard:
    """What an agent said in one turn, up to its end or its failure."""

    events: list[Event] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def tools(self) -> list[ToolUpdate]:
        return [event for event in self.events if isinstance(event, ToolUpdate)]

    @property
    def done(self) -> Done:
        [done] = [event for event in self.events if isinstance(event, Done)]
        return done


async def hear(agent: ModelAgent, turn: TurnContext, heard: Heard | None = None) -> Heard:
    heard = heard or Heard()
    async with aclosing(agent.run(turn)) as events:
        async for event in events:
            heard.events.append(event)
    return heard
