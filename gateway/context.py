"""What an agent is given of a conversation: what stands for its old part, and the newest part verbatim."""

from __future__ import annotations

from dataclasses import dataclass

from gateway import tokens
from store import compactions, messages
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


def load(db: Database, turn: Turn, budget: int) -> Context:
    """For a pending turn: page backwards from it until the budget is full or the summary takes over."""
    instruction = tuple(messages.between(db, turn.session, turn.first_message, turn.last_message))
    cut = cut_of(db, turn.session)
    used = sum(map(tokens.of_message, instruction)) + _summary_tokens(cut)
    history, spent = _tail(db, turn.session, turn.first_message, cut, budget - used)
    return Context(summary=cut.summary, history=history, instruction=instruction, tokens=used + spent)


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
    used = _summary_tokens(cut)
    _, spent = _tail(db, session, last_seq + 1, cut, budget - used)
    return used + spent


def _tail(db: Database, session: int, before: int, cut: Cut, budget: int) -> tuple[tuple[Message, ...], int]:
    kept: list[Message] = []
    spent = 0
    while before > cut.floor + 1:
        page = messages.page(db, session, HistoryOptions(limit=_PAGE, before=before))
        for stored in reversed(page):
            if stored.superseded:
                continue
            message = _trim(stored) if stored.seq <= cut.trimmed else stored
            cost = tokens.of_message(message)
            if message.seq <= cut.floor or spent + cost > budget:
                return tuple(reversed(kept)), spent
            spent += cost
            kept.append(message)
        if len(page) < _PAGE:
            break
        before = page[0].seq
    return tuple(reversed(kept)), spent


def _trim(message: Message) -> Message:
    content = message.content
    if not isinstance(content, Tool):
        return message
    return message._replace(raw_content=encode(Tool(content.tool, _TRIMMED, _TRIMMED)), token_count=None)


def _summary_tokens(cut: Cut) -> int:
    return 0 if cut.summary is None else tokens.estimate(cut.summary)
