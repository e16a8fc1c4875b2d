"""Compaction: after the run and before the reply, or by command. It never harms the history."""

from __future__ import annotations

import logging
from dataclasses import replace

from gateway import context, phrases
from gateway.clock import Clock
from gateway.config import Compaction as Rules
from gateway.config import Strategy
from gateway.context import Cut
from gateway.logs import Event, log
from gateway.persist import Persist
from store import compactions, sessions, turns
from store.database import Database
from store.ids import Micros
from store.records import Compaction, Session, Turn

#: Share of the context window at which old messages are set aside.
THRESHOLD = 0.8


async def after_run(persist: Persist, clock: Clock, turn: Turn, rules: Rules, window: int) -> None:
    """Bounded and harmless: whatever happens here, the reply goes out and the originals stay."""
    try:
        async with clock.timeout(rules.deadline):
            done = await persist.once(lambda db: if_needed(db, turn.session, rules, window, clock.now()))
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


def if_needed(db: Database, session: int, rules: Rules, window: int, now: Micros) -> Compaction | None:
    """Compact a session whose context has grown over the threshold."""
    found = sessions.by_number(db, session)
    used = context.measure(db, session, found.last_seq, context.cut_of(db, session), window)
    return compact(db, found, rules, window, now) if used > window * THRESHOLD else None


def compact(db: Database, session: Session, rules: Rules, window: int, now: Micros) -> Compaction | None:
    """Compact now, if that makes the context smaller; else nothing is changed."""
    before = context.cut_of(db, session.id)
    after = _propose(db, session, rules, before)
    if after is None:
        return None
    old, new = (context.measure(db, session.id, session.last_seq, cut, window) for cut in (before, after))
    if new >= old:
        return None
    trims = rules.strategy is Strategy.TRIM_TOOLS
    return compactions.record(
        db,
        session.id,
        strategy=rules.strategy,
        through_seq=after.trimmed if trims else after.floor,
        summary="" if trims else after.summary or "",
        tokens=(old, new),
        now=now,
    )


def _propose(db: Database, session: Session, rules: Rules, before: Cut) -> Cut | None:
    """What the strategy would leave out or trim; None if there is nothing."""
    if rules.strategy is Strategy.CLEAR:
        return Cut(floor=session.last_seq)
    first_kept = session.turn_count - rules.keep_turns + 1
    if first_kept < 2:
        return None
    through = turns.find(db, session.id, str(first_kept)).first_message - 1
    match rules.strategy:
        case Strategy.TRIM_TOOLS:
            return replace(before, trimmed=through) if through > before.trimmed else None
        case Strategy.WINDOW:
            return Cut(floor=through, summary=phrases.NOTE_COMPACTED) if through > before.floor else None
        case _:
            return None
