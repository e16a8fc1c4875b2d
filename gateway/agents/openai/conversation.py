"""The rows of a conversation as what both APIs have in common: who said what, and tool calls with their results."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.agents.openai.pairing import Call, Item, Result, Said, paired
from gateway.agents.protocol import TurnContext
from gateway.attribution import prompt_text
from store.content import Json, Plan, Text, Tool, to_json
from store.records import Message, Role

_log = logging.getLogger("trunkline.openai")

#: Stands between two requests of which the first was never answered, so that nothing revives it.
UNANSWERED = "The request above was not answered. Do not carry it out unless it is asked for again."
#: Stands after a message that is older than what follows it.
PINNED = "The message above is pinned: it was kept from earlier in this conversation, and was dealt with then."
_SUMMARY = "Summary of the earlier part of this conversation, which is left out:\n\n{summary}"
_NO_TEXT = "(no text)"

#: What the providers take as the name of a function; names from elsewhere may have any form.
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """All that a model is told, in the order in which it reads it."""

    instructions: str
    #: Marked as such.
    summary: str | None
    history: tuple[Item, ...]
    #: The new part: all that a server needs that remembers the rest.
    asked: tuple[Item, ...]


def prompt(turn: TurnContext, instructions: str, images: Mapping[str, tuple[str, ...]]) -> Prompt:
    """`images`: data URLs by the id of the message that they came with, of this turn only."""
    history, repairs = paired(_items(turn.history))
    if repairs:
        _log.warning("repaired %d tool calls of session %s that had lost their other half", repairs, turn.session_id)
    if turn.history and turn.history[-1].role is Role.USER:
        history.append(Said("note", UNANSWERED))
    asked = (
        Said("user", prompt_text(message) or _NO_TEXT, images.get(message.public_id, ()))
        for message in turn.instruction
    )
    return Prompt(
        instructions=instructions,
        summary=None if turn.summary is None else _SUMMARY.format(summary=turn.summary),
        history=tuple(history),
        asked=tuple(asked),
    )


def _items(rows: Sequence[Message]) -> list[Item]:
    items: list[Item] = []
    #: Calls that a row announced and whose results are rows of their own.
    announced: set[str] = set()
    before: Message | None = None
    for row in rows:
        if before is not None and before.metadata.get("pinned") and row.seq > before.seq + 1:
            items.append(Said("note", PINNED))
        elif before is not None and before.role is row.role is Role.USER and not _together(before, row):
            items.append(Said("note", UNANSWERED))
        items += _of_row(row, announced)
        before = row
    return items


def _together(one: Message, other: Message) -> bool:
    """Messages that were collected into one turn are one request."""
    return one.turn is not None and one.turn == other.turn


def _of_row(row: Message, announced: set[str]) -> Iterator[Item]:
    match row.role:
        case Role.USER:
            yield Said("user", prompt_text(row) or _NO_TEXT)
        case Role.AGENT:
            if isinstance(row.content, Text) and row.content.text.strip():
                yield Said("assistant", row.content.text)
            calls = list(_announced(row.tool_calls or ()))
            announced.update(call.id for call in calls)
            yield from calls
        case Role.SYSTEM:
            yield from _of_note(row, announced)


def _of_note(row: Message, announced: set[str]) -> Iterator[Item]:
    """Plans, tool calls and notes; a row with the id of a call is its result."""
    call_id = None if row.tool_call_id is None else _call_id(row.tool_call_id)
    match row.content:
        case Tool(_, _, result) if call_id in announced and call_id is not None:
            announced.discard(call_id)  # some models use the same ids again
            if result:
                yield Result(call_id, to_json(result))
        case Tool(tool, args, result):
            call = Call(call_id or f"call_{row.seq}", _name(tool), to_json(args))
            yield call
            if result:
                yield Result(call.id, to_json(result))
        case Plan(steps):
            yield Said("note", f"Plan: {to_json(list(steps))}")
        case Text(text) if call_id is not None:
            yield Result(call_id, text)
        case Text(text) if text.strip():
            yield Said("note", text)
        case Text():
            pass


def _announced(calls: Iterable[Json]) -> Iterator[Call]:
    """Calls as a row keeps them: flat, or as Chat Completions nests them. What is no call is left out."""
    for call in calls:
        if not isinstance(call, dict):
            continue
        function = call["function"] if isinstance(call.get("function"), dict) else call
        call_id, name = call.get("id"), function.get("name")
        if isinstance(call_id, str) and call_id and isinstance(name, str):
            yield Call(_call_id(call_id), _name(name), _arguments(function))


def _arguments(function: dict[str, Json]) -> str:
    """As the text of a JSON object, which is what providers insist on."""
    given = function.get("arguments", function.get("args", {}))
    return to_json(arguments(given) if isinstance(given, str) else given if isinstance(given, dict) else {})


def arguments(text: str) -> dict[str, Json]:
    """What a model passes to a tool; what is no object is kept as it came."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {"unreadable": text}
    return value if isinstance(value, dict) else {"unreadable": text}


def _name(name: str) -> str:
    return _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME] or "_"


def _call_id(text: str) -> str:
    return text[-_LONGEST_NAME:]


def merged(items: Iterable[Item]) -> Iterator[Item]:
    """Messages of one speaker that follow each other, as one."""
    last: Said | None = None
    for item in items:
        if isinstance(item, Said) and last is not None and last.speaker == item.speaker:
            last = replace(last, text=f"{last.text}\n\n{item.text}", images=last.images + item.images)
            continue
        if last is not None:
            yield last
        last = item if isinstance(item, Said) else None
        if last is None:
            yield item
    if last is not None:
        yield last
