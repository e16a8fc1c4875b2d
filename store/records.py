"""What rows become: frozen values, without behaviour and without a way back to the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from routing.keys import SessionKey
from routing.messages import Address
from store.about import About
from store.content import Content, Json, decode
from store.ids import Micros, seq_of


class Status(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    COMPACTED = "compacted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    ERROR = "error"
    ARCHIVED = "archived"

    @property
    def live(self) -> bool:
        return self in {Status.ACTIVE, Status.IDLE, Status.COMPACTED}


class TurnStatus(StrEnum):
    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"


class Role(StrEnum):
    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"


class InboxState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class OutboxState(StrEnum):
    #: Stored with its turn, not yet released.
    HELD = "held"
    READY = "ready"
    #: Recorded before the call; found after a crash, its outcome is unknown.
    SENDING = "sending"
    SENT = "sent"
    #: Failed for good; operators see it and can send it again.
    PARKED = "parked"
    DROPPED = "dropped"


class OutboxKind(StrEnum):
    PREVIEW = "preview"
    FINAL = "final"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a turn in buckets that share nothing; unknown is None, never 0."""

    #: Read afresh: without what came from the provider's cache.
    input: int | None = None
    #: Read from the provider's cache.
    cached: int | None = None
    #: Written, without what was only thought.
    output: int | None = None
    reasoning: int | None = None
    #: `provider` as reported, or `estimated`.
    source: str | None = None

    @property
    def total_input(self) -> int | None:
        return _sum(self.input, self.cached)

    @property
    def total_output(self) -> int | None:
        return _sum(self.output, self.reasoning)

    @property
    def total(self) -> int | None:
        return _sum(self.total_input, self.total_output)

    def plus(self, other: Usage) -> Usage:
        """Both together; a sum with an estimate in it is one."""
        return Usage(
            input=_sum(self.input, other.input),
            cached=_sum(self.cached, other.cached),
            output=_sum(self.output, other.output),
            reasoning=_sum(self.reasoning, other.reasoning),
            source=min(filter(None, (self.source, other.source)), default=None),
        )


def _sum(*counts: int | None) -> int | None:
    """What is known of a sum; None if nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    id: int
    public_id: str
    key: SessionKey
    status: Status
    person: int | None
    predecessor: int | None
    title: str | None
    last_model: str | None
    last_seq: int
    message_count: int
    turn_count: int
    total_input_tokens: int
    total_output_tokens: int
    compaction_count: int
    last_compaction_at: Micros | None
    #: Why it is idle or ended, such as `idle_timeout`.
    reason: str | None
    #: Any JSON value that callers keep with the session.
    custom: Json
    created_at: Micros
    updated_at: Micros
    #: The public id of the repository in which its agent works.
    repo_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to append. The store numbers and stamps it."""

    role: Role
    content: Content
    #: Given when it was promised before (an accepted message keeps the id it was given then).
    public_id: str | None = None
    tool_calls: list[Json] | None = None
    tool_call_id: str | None = None
    token_count: int | None = None
    metadata: dict[str, Json] | None = None


class Message(NamedTuple):
    """A tuple that decodes its JSON on use: a history is made of many, and most are only counted."""

    id: int
    public_id: str
    turn: int | None
    role: Role
    raw_content: str
    raw_tool_calls: str | None
    tool_call_id: str | None
    token_count: int | None
    raw_metadata: str
    timestamp: Micros
    changed_at: Micros

    @property
    def seq(self) -> int:
        return seq_of(self.id)

    @property
    def content(self) -> Content:
        return decode(self.raw_content)

    @property
    def tool_calls(self) -> list[Json] | None:
        return None if self.raw_tool_calls is None else json.loads(self.raw_tool_calls)

    @property
    def metadata(self) -> dict[str, Json]:
        metadata: dict[str, Json] = json.loads(self.raw_metadata)
        return metadata

    @property
    def superseded(self) -> bool:
        """Of an attempt that was lost; the next one said it again."""
        return self.role is not Role.USER and self.raw_metadata != "{}" and bool(self.metadata.get("superseded"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    id: int
    public_id: str
    session: int
    seq: int
    status: TurnStatus
    mode: str
    conversation_id: str
    created_by: int | None
    attempts: int
    first_message: int
    last_message: int
    instruction_summary: str
    answer_summary: str | None
    model: str | None
    usage: Usage
    warnings: tuple[str, ...]
    errors: tuple[str, ...]
    created_at: Micros
    response_received_at: Micros | None
    status_at: Micros
    #: Who answers; None on turns from before this was kept.
    agent: str | None = None
    #: The group or channel in which it was asked, as `platform:id`; None in a direct chat.
    chat: str | None = None
    #: Millionths of a US dollar; None where there is no price.
    cost: int | None = None
    #: What the provider calls the answer, the one that it followed, and until when it can be followed.
    response_id: str | None = None
    previous_response_id: str | None = None
    chain_expires_at: Micros | None = None
    #: What a budget held back for it while it ran.
    reserved_tokens: int | None = None
    reserved_cost: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    id: int
    key: SessionKey
    #: Set when the message is meant for one session, whatever becomes of its key.
    session: int | None
    address: Address
    person: int | None
    sender_name: str
    message_id: str
    text: str
    state: InboxState
    turn: int | None
    received_at: Micros
    about: About
    #: The first message of the thought that this one goes on with.
    thought: int | None
    open_until: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    id: int
    address: Address
    turn: int | None
    kind: OutboxKind
    text: str
    state: OutboxState
    #: The platform's id; on a row still to be delivered: of the preview that becomes the final message.
    sent_id: str | None
    #: How often it stayed unknown whether the platform has the next message of this row.
    doubts: int
    attempts: int
    next_at: Micros
    error: str | None
    created_at: Micros
    #: Set: a file of this name, with the text as its content.
    filename: str | None = None
    #: Messages of this row that were sent.
    part: int = 0
    #: The question that it asks.
    question: int | None = None

    @property
    def uncertain(self) -> bool:
        """The platform may have this message already."""
        return self.doubts > 0

    @property
    def editing(self) -> bool:
        """The next message of this row exists already, as a preview."""
        return self.sent_id is not None and self.part == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    id: int
    session: int
    strategy: str
    #: The summary stands for all messages up to this one.
    through_seq: int
    summary: str
    tokens_before: int
    tokens_after: int
    created_at: Micros
    undone_at: Micros | None
