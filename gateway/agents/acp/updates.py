"""From the protocol's updates to events of a turn. What an agent sends is data: bounded, cleaned, never trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    FileEditToolCallContent,
    PromptResponse,
    SessionNotification,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)

from gateway.agents.protocol import Diff, Event, PlanUpdate, TextDelta, Thought, ToolStatus, ToolUpdate
from store.content import Json, clean, to_json
from store.records import Usage

#: Characters that are kept of a tool's arguments and of its result, and steps of a plan.
_KEPT = 20_000
_TITLE = 300
_STEPS = 100
#: Tool calls of one turn that are told apart; what comes beyond is not shown.
_CALLS = 1000

AnyTool = ToolCallStart | ToolCallProgress | ToolCallUpdate


class Updates:
    """The updates of one turn; tool calls are put together from the messages that mention them."""

    def __init__(self, stale: AbstractSet[str] = frozenset()) -> None:
        #: Messages that belong to earlier turns: an agent that was cancelled may go on with one.
        self._before = frozenset(stale)
        self._calls: dict[str, ToolUpdate] = {}
        self._half = ""
        #: Messages of this one, where the agent names them.
        self.messages: set[str] = set()
        #: Whether anything was said that is not blank.
        self.said = False
        #: Whether somebody or something refused a tool call.
        self.rejected = False

    def read(self, params: dict[str, Any]) -> Iterator[Event]:
        """Raises ValidationError for an update that the SDK does not know."""
        update = SessionNotification.model_validate(params).update
        match update:
            case AgentMessageChunk() | AgentThoughtChunk() if update.message_id in self._before:
                return
            case AgentMessageChunk(content=TextContentBlock(text=text), message_id=message) if text:
                if message is not None:
                    self.messages.add(message)
                if text := self._whole(text):
                    self.said = self.said or not text.isspace()
                    yield TextDelta(text)
            case AgentThoughtChunk(content=TextContentBlock(text=text)) if text:
                yield Thought(clean(text))
            case AgentPlanUpdate(entries=entries):
                yield PlanUpdate(
                    tuple(
                        {"content": clean(one.content)[:_TITLE], "priority": one.priority, "status": one.status}
                        for one in entries[:_STEPS]
                    )
                )
            case ToolCallStart() | ToolCallProgress():
                yield from self.tool(update)

    def _whole(self, text: str) -> str:
        """Agents cut characters in two: the first half of one waits for the other."""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return clean(text)

    def tool(self, update: AnyTool) -> Iterator[ToolUpdate]:
        """The call as it is known now. Agents may name one first when they ask for permission, or begin it twice."""
        name = clean(update.tool_call_id)[:_TITLE]
        before = self._calls.get(name)
        if before is None and len(self._calls) >= _CALLS:
            return
        call = _merged(before or ToolUpdate(name, "", status=ToolStatus.PENDING), update)
        if call != before:
            self._calls[name] = call
            yield call

    def call(self, update: AnyTool) -> ToolUpdate:
        name = clean(update.tool_call_id)[:_TITLE]
        return self._calls.get(name) or _merged(ToolUpdate(name, "", status=ToolStatus.PENDING), update)

    def settle(self, call_id: str, status: ToolStatus) -> Iterator[ToolUpdate]:
        """What agents do not say: that a call was rejected or cancelled."""
        self.rejected = self.rejected or status is ToolStatus.REJECTED
        call = self._calls.get(call_id)
        if call is not None and call.status in {ToolStatus.PENDING, ToolStatus.IN_PROGRESS}:
            self._calls[call_id] = replace(call, status=status)
            yield self._calls[call_id]

    @property
    def worked(self) -> bool:
        return bool(self._calls)

    def open(self) -> list[ToolUpdate]:
        """Calls that have not ended."""
        return [one for one in self._calls.values() if one.status in {ToolStatus.PENDING, ToolStatus.IN_PROGRESS}]


def usage_of(response: PromptResponse) -> Usage:
    """Tokens of the turn, where the agent reports them: in the protocol's field, or in the one that Gemini has."""
    used = response.usage
    if used is not None:
        return Usage(
            input=used.input_tokens,
            cached=used.cached_read_tokens,
            output=used.output_tokens,
            reasoning=used.thought_tokens,
            source="provider",
        )
    count = _within(response.field_meta, "quota", "token_count")
    read, written = _number(count, "input_tokens"), _number(count, "output_tokens")
    if read is None or written is None:
        return Usage()
    return Usage(input=read, output=written, source="provider")


def _merged(call: ToolUpdate, update: AnyTool) -> ToolUpdate:
    content = update.content or []
    args = dict(call.args)
    if update.kind is not None:
        args["kind"] = update.kind
    if update.raw_input is not None:
        args["input"] = _bounded(update.raw_input)
    if update.locations:
        args["locations"] = [clean(one.path)[:_TITLE] for one in update.locations[:_STEPS]]
    result = dict(call.result)
    if text := clean("\n".join(_texts(content))):
        result["text"] = text[:_KEPT]
    if update.raw_output is not None:
        result["output"] = _bounded(update.raw_output)
    diffs = tuple(
        Diff(clean(one.path), None if one.old_text is None else clean(one.old_text), clean(one.new_text))
        for one in content
        if isinstance(one, FileEditToolCallContent)
    )
    title = clean(update.title or "").strip()[:_TITLE]
    return ToolUpdate(
        call_id=call.call_id,
        tool=title or call.tool or update.kind or "tool",
        args=args,
        result=result,
        status=call.status if update.status is None else ToolStatus(update.status),
        diffs=diffs or call.diffs,
    )


def _texts(content: Sequence[object]) -> Iterable[str]:
    for one in content:
        if isinstance(one, ContentToolCallContent) and isinstance(one.content, TextContentBlock):
            yield one.content.text


def _bounded(value: Json) -> Json:
    """A value that can be stored, or the beginning of its text."""
    text = to_json(value)
    return value if len(text) <= _KEPT else {"cut": text[:_KEPT]}


def _within(value: object, *names: str) -> object:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _number(value: object, name: str) -> int | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
