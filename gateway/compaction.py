"""Compaction: after the run and before the reply, within a deadline. It never harms the history."""

from __future__ import annotations

import logging

from gateway import phrases, tokens
from gateway.clock import Clock
from gateway.config import Compaction as Rules
from gateway.config import Strategy
from gateway.logs import Event, log
from gateway.persist import Persist
from store import compactions, messages, sessions, turns
from store.database import Database
from store.ids import Micros
from store.records import Compaction, Turn

#: Share of the context window at which old messages are set aside.
THRESHOLD = 0.8


async def after_run(persist: Persist, clock: Clock, turn: Turn, rules: Rules, window: int) -> None:
    """Bounded and harmless: whatever happens here, the reply goes out and the originals stay."""
    limit = int(window * THRESHOLD)
    try:
        async with clock.timeout(rules.deadline):
            done = await persist.once(lambda db: by_window(db, turn, rules.keep_turns, limit, clock.now()))
    except Exception as exc:  # the reply must not depend on it
        log(Event.COMPACTION_FAILED, logging.WARNING, exc=exc, turn=turn.id)
        return
    if done is not None:
        log(
            Event.COMPACTION_DONE,
            turn=turn.id,
            strategy=done.strategy,
            tokens_before=done.tokens_before,
            tokens_after=done.tokens_after,
        )


def by_window(db: Database, turn: Turn, keep_turns: int, limit: int, now: Micros) -> Compaction | None:
    """Keep the last turns verbatim and leave out what is older."""
    session = sessions.by_number(db, turn.session)
    first_kept = session.turn_count - keep_turns + 1
    if first_kept < 2:
        return None
    through = turns.find(db, session.id, str(first_kept)).first_message - 1
    in_force = compactions.in_force(db, session.id)
    start = 0 if in_force is None else in_force.through_seq
    if through <= start:
        return None
    old = sum(map(tokens.of_message, messages.between(db, session.id, start + 1, through)))
    kept = sum(map(tokens.of_message, messages.between(db, session.id, through + 1, session.last_seq)))
    if old + kept <= limit:
        return None
    note = tokens.estimate(phrases.NOTE_COMPACTED)
    if kept + note >= old + kept:
        return None
    return compactions.record(
        db,
        session.id,
        strategy=Strategy.WINDOW,
        through_seq=through,
        summary=phrases.NOTE_COMPACTED,
        tokens=(old + kept, kept + note),
        now=now,
    )
