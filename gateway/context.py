"""What an agent is given of a conversation: what stands for its old part, and the newest part verbatim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway import tokens
from store import compactions, messages, pins
from store.content import Tool, encode
from store.database import Database
from store.messages import HistoryOptions
from store.records import Message, Turn

_PAGE = 50

#: What an old tool call keeps of its arguments and its result.
_TRIMMED = {"trimmed": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What the compactions in force say about the old part of a session."""

    #: Messages up to this one are left out; `summary` stands for them.
    floor: int = 0
    summary: str | None = None
    #: Tool calls up to this message are shown without arguments and results.
    trimmed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    summary: str | None
    history: tuple[Message, ...]
    instruction: tuple[Message, ...]
    #: Estimated tokens of all three.
    tokens: int
    #: The provider's id of the answer that can be followed instead of reading the history.
    previous: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What of a history fits into a budget."""

    history: tuple[Message, ...]
    #: Estimated, with the summary.
    tokens: int
    #: Something that no compaction left out did not fit.
    overflows: bool
    #: From this message on everything is there; pinned ones stand before it.
    since: int


def load(db: Database, turn: Turn, budget: int) -> Context:
    """For a pending turn: page backwards from it until the budget is full or the summary takes over."""
    instruction = tuple(messages.between(db, turn.session, turn.first_message, turn.last_message))
    cut = cut_of(db, turn.session)
    used = _cost(instruction)
    filled = fill(db, turn.session, turn.first_message, cut, budget - used)
    return Context(summary=cut.summary, history=filled.history, instruction=instruction, tokens=used + filled.tokens)


def cut_of(db: Database, session: int) -> Cut:
    left_out = compactions.in_force(db, session, leaves_out=True)
    trimmed = compactions.in_force(db, session, leaves_out=False)
    return Cut(
        floor=0 if left_out is None else left_out.through_seq,
        summary=None if left_out is None else left_out.summary or None,
        trimmed=0 if trimmed is None else trimmed.through_seq,
    )


def measure(db: Database, session: int, last_seq: int, cut: Cut, budget: int) -> int:
    """Estimated tokens of the context that the next turn would start from, at most the budget."""
    return fill(db, session, last_seq + 1, cut, budget).tokens


def fill(db: Database, session: int, before: int, cut: Cut, budget: int) -> Filled:
    """The summary first, then what is pinned, then the newest messages as far as they fit."""
    used = 0 if cut.summary is None else tokens.estimate(cut.summary)
    pinned = _pinned(db, session, before, (budget - used) // 2)
    older = [one for one in pinned if one.seq <= cut.floor]
    tail, spent, overflows = _tail(db, session, before, cut, budget - used - _cost(older))
    if overflows and len(older) < len(pinned):
        # Some of them may stand before what fits: room is kept for all.
        tail, spent, _ = _tail(db, session, before, cut, budget - used - _cost(pinned))
    first = tail[0].seq if tail else before
    older = [one for one in pinned if one.seq < first]
    spent += used + _cost(older)
    return Filled(history=(*older, *tail), tokens=spent, overflows=overflows, since=first)


def _cost(rows: Sequence[Message]) -> int:
    return sum(map(tokens.of_message, rows))


def _pinned(db: Database, session: int, before: int, budget: int) -> list[Message]:
    """The newest of them, as far as they leave room for the conversation; their text alone, so no half of a pair."""
    kept: list[Message] = []
    for message in reversed(pins.of_session(db, session, before)):
        budget -= tokens.of_message(message)
        if budget < 0:
            break
        kept.append(message._replace(raw_tool_calls=None, tool_call_id=None))
    return kept[::-1]


def _tail(db: Database, session: int, before: int, cut: Cut, budget: int) -> tuple[tuple[Message, ...], int, bool]:
    """The newest messages, their tokens, and whether one was left out that belongs to them."""
    kept: list[Message] = []
    spent = 0
    while before > cut.floor + 1:
        page = messages.page(db, session, HistoryOptions(limit=_PAGE, before=before))
        for stored in reversed(page):
            if stored.superseded:
                continue
            message = _trim(stored) if stored.seq <= cut.trimmed else stored
            if message.seq <= cut.floor:
                return tuple(reversed(kept)), spent, False
            cost = tokens.of_message(message)
            if spent + cost > budget:
                whole = _without_halves(kept[::-1])
                return whole, _cost(whole), True
            spent += cost
            kept.append(message)
        if len(page) < _PAGE:
            break
        before = page[0].seq
    return tuple(reversed(kept)), spent, False


def _without_halves(history: Sequence[Message]) -> tuple[Message, ...]:
    """Where the budget cut, results may have lost their call: providers refuse those."""
    start = 0
    while start < len(history) and history[start].tool_call_id is not None and history[start].raw_tool_calls is None:
        start += 1
    return tuple(history[start:])


def _trim(message: Message) -> Message:
    content = message.content
    if not isinstance(content, Tool):
        return message
    return message._replace(raw_content=encode(Tool(content.tool, _TRIMMED, _TRIMMED)), token_count=None)
