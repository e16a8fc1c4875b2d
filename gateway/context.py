"""What an agent is given of a conversation: the summary of the old part, and the newest part verbatim."""

from __future__ import annotations

from dataclasses import dataclass

from gateway import tokens
from store import compactions, messages
from store.database import Database
from store.messages import HistoryOptions
from store.records import Message, Turn

_PAGE = 50


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
    compaction = compactions.in_force(db, turn.session)
    floor = 0 if compaction is None else compaction.through_seq
    summary = None if compaction is None or not compaction.summary else compaction.summary
    used = sum(map(tokens.of_message, instruction)) + (0 if summary is None else tokens.estimate(summary))
    tail, spent = _tail(db, turn, floor, budget - used)
    return Context(summary=summary, history=tail, instruction=instruction, tokens=used + spent)


def _tail(db: Database, turn: Turn, floor: int, budget: int) -> tuple[tuple[Message, ...], int]:
    kept: list[Message] = []
    spent = 0
    before = turn.first_message
    while before > floor + 1:
        page = messages.page(db, turn.session, HistoryOptions(limit=_PAGE, before=before))
        for message in reversed(page):
            cost = tokens.of_message(message)
            if message.seq <= floor or spent + cost > budget:
                return tuple(reversed(kept)), spent
            spent += cost
            kept.append(message)
        if len(page) < _PAGE:
            break
        before = page[0].seq
    return tuple(reversed(kept)), spent
