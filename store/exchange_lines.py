"""One session as lines of JSON: what each line holds, and what is true of all of them together.

Times are microseconds since 1970. People are named, but bring neither identities nor rights with them. A session's link
to its predecessor is not part of it.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from routing.errors import InvalidKey
from routing.keys import SessionKey
from store.content import Json, decode, to_json
from store.ids import seq_of
from store.records import Compaction, Message, Role, Session, Status, Turn, TurnStatus

FORMAT: Literal["trunkline-session"] = "trunkline-session"
#: The first version had neither buckets nor cost nor chains.
VERSIONS = (1, 2)
VERSION: Literal[2] = 2

#: The public id and the name of each person by number.
People = dict[int, tuple[str, str]]

#: Of sessions, turns, messages and people alike.
Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
Count = Annotated[int, Field(ge=0, lt=2**32)]
Number = Annotated[int, Field(ge=1, lt=2**32)]
Large = Annotated[int, Field(ge=0, lt=2**63)]
Micros = Annotated[int, Field(gt=-(2**62), lt=2**62)]


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Header(Line):
    type: Literal["header"] = "header"
    format: Literal["trunkline-session"] = FORMAT
    version: Literal[1, 2] = VERSION
    #: How many lines of each kind follow, so that a file that was cut off is recognised.
    people: Count
    turns: Count
    messages: Count
    compactions: Count


class Person(Line):
    type: Literal["person"] = "person"
    id: Id
    name: str


class SessionLine(Line):
    type: Literal["session"] = "session"
    id: Id
    key: str
    status: Annotated[Status, Field(strict=False)]
    reason: str | None
    person: Id | None
    title: str | None
    lastModel: str | None
    totalInputTokens: Large
    totalOutputTokens: Large
    lastCompactionAt: Micros | None
    #: Whatever callers keep with the session.
    metadata: Any
    #: Who wrote, and from which channel and account.
    participants: list[Annotated[tuple[Id | None, str, str], Field(strict=False)]]
    createdAt: Micros
    updatedAt: Micros

    @field_validator("key")
    @classmethod
    def _is_a_key(cls, text: str) -> str:
        try:
            SessionKey.parse(text)
        except InvalidKey as exc:
            raise ValueError(str(exc)) from None
        return text


class TurnLine(Line):
    type: Literal["turn"] = "turn"
    id: Id
    seq: Number
    status: Annotated[TurnStatus, Field(strict=False)]
    mode: str
    conversationId: str
    createdBy: Id | None
    attempts: Count
    firstMessage: Number
    lastMessage: Count
    instructionSummary: str
    answerSummary: str | None
    model: str | None
    inputTokens: Large | None
    outputTokens: Large | None
    usageSource: Literal["provider", "estimated"] | None
    warnings: list[Any]
    errors: list[Any]
    createdAt: Micros
    responseReceivedAt: Micros | None
    statusAt: Micros
    agent: str | None = None
    chat: str | None = None
    cachedTokens: Large | None = None
    reasoningTokens: Large | None = None
    cost: Large | None = None
    responseId: str | None = None
    previousResponseId: str | None = None
    chainExpiresAt: Micros | None = None
    reservedTokens: Large | None = None
    reservedCost: Large | None = None

    @model_validator(mode="after")
    def _is_a_life(self) -> TurnLine:
        """It begins, and ends once; the answer of one that did not complete is not kept."""
        pending = self.status is TurnStatus.PENDING
        if self.createdAt > self.statusAt or (pending and self.createdAt != self.statusAt):
            raise ValueError("`statusAt` does not fit `createdAt`")
        if self.responseReceivedAt != (None if pending else self.statusAt):
            raise ValueError("`responseReceivedAt` does not fit `statusAt`")
        if self.status is not TurnStatus.COMPLETED and self.answerSummary is not None:
            raise ValueError("a turn that was not completed has no answer")
        return self


class MessageLine(Line):
    type: Literal["message"] = "message"
    id: Id
    seq: Number
    turn: Number | None
    role: Annotated[Role, Field(strict=False)]
    content: dict[str, Any]
    toolCalls: list[Any] | None
    toolCallId: str | None
    tokenCount: Large | None
    metadata: dict[str, Any]
    timestamp: Micros
    changedAt: Micros

    @model_validator(mode="after")
    def _can_be_read(self) -> MessageLine:
        try:
            decode(to_json(self.content))
        except (KeyError, TypeError):
            raise ValueError("`content` is none of a message") from None
        if self.changedAt < self.timestamp:
            raise ValueError("`changedAt` is before `timestamp`")
        return self


class CompactionLine(Line):
    type: Literal["compaction"] = "compaction"
    strategy: str
    throughSeq: Count
    summary: str
    tokensBefore: Large
    tokensAfter: Large
    createdAt: Micros
    undoneAt: Micros | None

    @model_validator(mode="after")
    def _shrinks(self) -> CompactionLine:
        if self.tokensAfter >= self.tokensBefore:
            raise ValueError("`tokensAfter` is not less than `tokensBefore`")
        return self


def of_session(session: Session, names: People, took_part: list[tuple[int, str, str]]) -> dict[str, Json]:
    return {
        "type": "session",
        "id": session.public_id,
        "key": str(session.key),
        "status": session.status,
        "reason": session.reason,
        "person": _id(names, session.person),
        "title": session.title,
        "lastModel": session.last_model,
        "totalInputTokens": session.total_input_tokens,
        "totalOutputTokens": session.total_output_tokens,
        "lastCompactionAt": session.last_compaction_at,
        "metadata": session.custom,
        "participants": sorted(
            ([_id(names, person), channel, account] for person, channel, account in took_part),
            key=lambda one: (one[1], one[2], one[0] or ""),
        ),
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
    }


def of_turn(turn: Turn, names: People) -> dict[str, Json]:
    return {
        "type": "turn",
        "id": turn.public_id,
        "seq": turn.seq,
        "status": turn.status,
        "mode": turn.mode,
        "conversationId": turn.conversation_id,
        "createdBy": _id(names, turn.created_by),
        "attempts": turn.attempts,
        "firstMessage": turn.first_message,
        "lastMessage": turn.last_message,
        "instructionSummary": turn.instruction_summary,
        "answerSummary": turn.answer_summary,
        "model": turn.model,
        "inputTokens": turn.usage.input,
        "outputTokens": turn.usage.output,
        "usageSource": turn.usage.source,
        "warnings": list(turn.warnings),
        "errors": list(turn.errors),
        "createdAt": turn.created_at,
        "responseReceivedAt": turn.response_received_at,
        "statusAt": turn.status_at,
        "agent": turn.agent,
        "chat": turn.chat,
        "cachedTokens": turn.usage.cached,
        "reasoningTokens": turn.usage.reasoning,
        "cost": turn.cost,
        "responseId": turn.response_id,
        "previousResponseId": turn.previous_response_id,
        "chainExpiresAt": turn.chain_expires_at,
        "reservedTokens": turn.reserved_tokens,
        "reservedCost": turn.reserved_cost,
    }


def of_message(message: Message) -> dict[str, Json]:
    return {
        "type": "message",
        "id": message.public_id,
        "seq": message.seq,
        "turn": None if message.turn is None else seq_of(message.turn),
        "role": message.role,
        "content": json.loads(message.raw_content),
        "toolCalls": message.tool_calls,
        "toolCallId": message.tool_call_id,
        "tokenCount": message.token_count,
        "metadata": message.metadata,
        "timestamp": message.timestamp,
        "changedAt": message.changed_at,
    }


def of_compaction(compaction: Compaction) -> dict[str, Json]:
    return {
        "type": "compaction",
        "strategy": compaction.strategy,
        "throughSeq": compaction.through_seq,
        "summary": compaction.summary,
        "tokensBefore": compaction.tokens_before,
        "tokensAfter": compaction.tokens_after,
        "createdAt": compaction.created_at,
        "undoneAt": compaction.undone_at,
    }


def _id(names: People, person: int | None) -> str | None:
    return names[person][0] if person else None
