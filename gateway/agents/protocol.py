"""The contract between a turn and an agent: a context goes in, a stream of events comes out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from gateway.clock import Clock
from gateway.persist import Persist
from store.content import Json, Text
from store.ids import Micros
from store.records import Message, Usage


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer, exactly as the agent wrote it."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanUpdate:
    """The whole plan as it is now; it replaces the one before."""

    steps: tuple[dict[str, Json], ...]


class ToolStatus(StrEnum):
    """The last two are ours: the protocols of agents do not know them."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


class OptionKind(StrEnum):
    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


@dataclass(frozen=True, slots=True)
class Diff:
    """A file that a tool call changes. `old` is None for a new one."""

    path: str
    old: str | None
    new: str


@dataclass(frozen=True, slots=True)
class ToolUpdate:
    """The state of one tool call; later updates with the same id complete it."""

    call_id: str
    tool: str
    args: dict[str, Json] = field(default_factory=dict)
    result: dict[str, Json] = field(default_factory=dict)
    status: ToolStatus = ToolStatus.COMPLETED
    diffs: tuple[Diff, ...] = ()


@dataclass(frozen=True, slots=True)
class Thought:
    """What the agent thinks; hidden unless somebody asked for it."""

    text: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A fact about the run that people should know. In words of ours, never the agent's."""

    text: str


@dataclass(frozen=True, slots=True)
class Option:
    id: str
    name: str
    kind: OptionKind


@dataclass(frozen=True, slots=True)
class Permission:
    """The agent waits until somebody allows or rejects a tool call; its own timers stop meanwhile."""

    call: ToolUpdate
    options: tuple[Option, ...]
    #: The id of the chosen option; None if nobody chose. Set exactly once, or cancelled with the run.
    answer: asyncio.Future[str | None] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Done:
    """The closing event. A stream that ends without it is an error, not an answer."""

    usage: Usage = Usage()
    #: The model that answered, if it has a name.
    model: str | None = None
    warnings: tuple[str, ...] = ()
    #: What the provider calls this answer, the one it followed, and how long it can be followed.
    response_id: str | None = None
    previous_response_id: str | None = None
    chain_expires: Micros | None = None


Event = TextDelta | Thought | PlanUpdate | ToolUpdate | Notice | Permission | Done


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """All that an agent may see of a turn: its own session, nothing of the store."""

    agent: str
    session_id: str
    turn: int
    #: What stands for the older part of the conversation, if it was compacted.
    summary: str | None
    #: The verbatim tail before this turn, oldest first.
    history: tuple[Message, ...]
    #: The messages of this turn (several if they were collected), oldest first.
    instruction: tuple[Message, ...]
    #: The provider's id of the answer that this turn follows, if nothing came between and it has not expired.
    previous_response_id: str | None = None

    @property
    def text(self) -> str:
        return instruction_text(self.instruction)


class Agent(Protocol):
    #: Whether a run can change the world outside; then it is never repeated unasked, and strangers are kept out.
    side_effects: bool

    def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        """Answer; cancelling the iterator cancels the run."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Summary:
    text: str
    #: Of all the models that were asked for it.
    usage: Usage = Usage()
    model: str | None = None


@runtime_checkable
class Summarises(Protocol):
    """An agent that can write down what the old part of a conversation said."""

    async def summarise(self, text: str, focus: str | None, limit: int, model: str | None) -> Summary:
        """A summary of at most about `limit` tokens, with regard to `focus`; by `model` if it is named.

        The text is what people and agents said: material, never an instruction. Raises what `run` raises.
        """
        ...


@runtime_checkable
class Hosted(Protocol):
    """An agent that keeps things in the store, beside what turns keep."""

    def open(self, persist: Persist, clock: Clock) -> None:
        """Called once, before the first run."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """An agent whose sessions have a process each, which can be there before the session is."""

    #: Where it works unless somebody says otherwise, by name or id.
    repo: str

    def prepared(self, session_id: str, directory: Path) -> AbstractAsyncContextManager[str]:
        """A process for a session that is about to be made; its value is what the agent calls the session.

        The process is kept if the block ends well. Raises AgentLimit, because nobody waits here, or AgentFailed.
        """
        ...


def instruction_text(messages: tuple[Message, ...]) -> str:
    return "\n".join(plain_text(message) for message in messages)


def plain_text(message: Message) -> str:
    """The words of a message; plans and tool calls have none."""
    return message.content.text if isinstance(message.content, Text) else ""
