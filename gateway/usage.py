"""Tokens of turns for which no provider gave a count: estimated by what can be seen, and marked as such."""

from __future__ import annotations

from gateway import tokens
from store import messages, turns
from store.content import Text
from store.database import Database
from store.messages import HistoryOptions
from store.records import Role, Turn, Usage

ESTIMATED = "estimated"

#: Answers of a model that are compared with what its provider counted, and tokens that they must have together.
_ANSWERS = 10
_ENOUGH = 100

#: Turns that are looked at for one whose size is known.
_BACK = 3


def estimate(db: Database, turn: Turn, model: str | None, given: int, text: str) -> Usage:
    """Of a turn whose agent reported nothing: what it was given, and what it wrote."""
    ratio = scale(db, turn.agent, model)
    return Usage(
        input=tokens.scaled(given, ratio), output=tokens.scaled(tokens.estimate(text), ratio), source=ESTIMATED
    )


def of_texts(read: str, written: str) -> Usage:
    """Of a call whose provider reported nothing."""
    return Usage(input=tokens.estimate(read), output=tokens.estimate(written), source=ESTIMATED)


def of_cut(db: Database, turn: Turn) -> tuple[Usage, int | None]:
    """Tokens and cost of a turn that ends early without a report: unknown, unless an answer had begun.

    Then the provider has counted too, and whoever stops each answer shortly before its end must not have it for free.
    What it cost is known as well as what was held back for it.
    """
    text = "\n".join(row.content.text for row in turns.said(db, turn.id) if isinstance(row.content, Text))
    if not text.strip():
        return Usage(), None
    given = likely_input(db, turn.session, turn.seq, turn.instruction_summary)
    used = estimate(db, turn, turn.model, given, text)
    if turn.reserved_cost is None or not turn.reserved_tokens:
        return used, None
    return used, round(turn.reserved_cost * (used.total or 0) / turn.reserved_tokens)


def likely_input(db: Database, session: int, seq: int, text: str) -> int:
    """About what the turn `seq` has to read: what the one before it read and wrote, and the new text."""
    new = tokens.estimate(text)
    for back in range(seq - 1, max(seq - 1 - _BACK, 0), -1):
        before = turns.by_seq(db, session, back)
        if before is None:
            break
        if before.usage.total is not None and before.usage.total > 0:
            return before.usage.total + new
    said = messages.page(db, session, HistoryOptions()) if seq > 1 else []
    return sum(map(tokens.of_message, said)) + new


def scale(db: Database, agent: str | None, model: str | None) -> float:
    """How many tokens a model's provider counts for one of ours, by its last answers; 1 while too little is known."""
    if agent is None or model is None:
        return 1.0
    counted = ours = 0
    for turn in turns.reported(db, agent, model, _ANSWERS):
        rows = messages.between(db, turn.session, turn.first_message, turn.last_message)
        texts = [row.content.text for row in rows if row.role is Role.AGENT and isinstance(row.content, Text)]
        counted += turn.usage.output or 0
        ours += tokens.estimate("\n".join(texts))
    low, high = tokens.SCALES
    return min(max(counted / ours, low), high) if ours >= _ENOUGH else 1.0
