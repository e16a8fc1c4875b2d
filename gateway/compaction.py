"""Compaction, as far as the database goes: what is to be done, and that it is done only if it helps.

Originals stay as they are. A row says what stands for which part of a history, and the newest rows in force decide what
an agent is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway import context, phrases
from gateway.config import Compaction as Rules
from gateway.config import Strategy
from gateway.context import Cut, Filled
from routing.errors import SummaryUseless, UnknownSession
from store import compactions, messages, sessions, turns
from store.database import Database
from store.ids import Micros
from store.records import Compaction, Session

#: Share of the context window at which old messages are set aside.
THRESHOLD = 0.8
#: Where the last turns alone are over the threshold, as many of them stay as fit into this share.
_KEPT = 0.5
#: A summary that leaves more than this share of the context is not worth it: the next one would be due at once.
_WORTH = 0.9
#: A context that overflows is as large as the window, whatever is done about it. So what a summary would save is
#: measured in one that is so many times as large.
_WIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How the sessions of an agent are compacted, here and now."""

    rules: Rules
    #: Of the agent, in tokens; its summaries are made within the same.
    window: int
    #: Whether there is anybody to write a summary.
    summarises: bool = False
    #: Summaries of this session failed lately.
    backs_off: bool = False
    #: Somebody asked for it, or the model could not read the context: whatever its size.
    at_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A summary to be made. Its range is fixed, so that what is said meanwhile does not disturb it."""

    session: int
    session_id: str
    window: int
    #: The summary that it goes on from, and the row that has it.
    base: int | None
    summary: str | None
    #: Messages after this one and up to that one.
    after: int
    through: int
    #: As of when: if one of those messages is changed later (or forgotten), the summary is worthless.
    seen: Micros
    #: What the agent would be given did not fit any more.
    overflows: bool


def decide(db: Database, number: int, wanted: Wanted, now: Micros) -> Compaction | Plan | None:
    """Compact by the agent's strategy; or say which summary is to be made; None if nothing is to be done."""
    session = sessions.by_number(db, number)
    before = _filled(db, session, context.cut_of(db, number), wanted.window)
    if not wanted.at_once and not _over(before, wanted.window):
        return None
    strategy = wanted.rules.strategy
    if strategy is Strategy.AUTO:
        trimmed = _cut_for(db, session, Strategy.TRIM_TOOLS, wanted)
        if trimmed is not None and not _over(_filled(db, session, trimmed, wanted.window), wanted.window):
            done = compact(db, session, Strategy.TRIM_TOOLS, wanted, now)
            if done is not None:
                return done
        strategy = Strategy.SUMMARY
    if strategy is not Strategy.SUMMARY:
        return compact(db, session, strategy, wanted, now)
    if not wanted.summarises:
        return compact(db, session, Strategy.WINDOW, wanted, now)
    if not wanted.backs_off:
        return _plan(db, session, wanted, before)
    urgent = wanted.at_once or before.overflows
    return compact(db, session, Strategy.WINDOW, wanted, now) if urgent else None


def compact(db: Database, session: Session, strategy: Strategy, wanted: Wanted, now: Micros) -> Compaction | None:
    """Compact now, if that makes the context smaller; else nothing is changed."""
    after = _cut_for(db, session, strategy, wanted)
    if after is None:
        return None
    before = context.cut_of(db, session.id)
    old, new = (_filled(db, session, cut, wanted.window).tokens for cut in (before, after))
    return None if new >= old else _record(db, session, strategy, after, (old, new), now)


def finish(db: Database, plan: Plan, summary: str, now: Micros) -> Compaction:
    """Let a summary stand for its range, if the history is still the one that it was made from, and it shrinks."""
    session = sessions.by_number(db, plan.session)
    base = compactions.base(db, session.id)
    before = context.cut_of(db, session.id)
    same = (None if base is None else base.id) == plan.base and before.floor <= plan.through
    if not session.status.live or not same or not messages.untouched(db, session.id, plan.through, plan.seen):
        raise SummaryUseless(why="the conversation was changed meanwhile")
    after = replace(before, floor=plan.through, summary=summary)
    old, new = _sizes(db, session, before, after, plan.window)
    if new > old * _WORTH:
        raise SummaryUseless(why=f"{old} tokens of context would become {new}")
    new = min(new, _filled(db, session, after, plan.window).tokens)
    return _record(db, session, Strategy.SUMMARY, after, (old, new), now)


def step_in(db: Database, number: int, wanted: Wanted, now: Micros) -> Compaction | None:
    """There is no summary: where the context overflows, the window is what is left."""
    try:
        session = sessions.by_number(db, number)
    except UnknownSession:
        return None
    if not session.status.live:
        return None
    if not wanted.at_once and not _filled(db, session, context.cut_of(db, number), wanted.window).overflows:
        return None
    return compact(db, session, Strategy.WINDOW, wanted, now)


def _sizes(db: Database, session: Session, before: Cut, after: Cut, window: int) -> tuple[int, int]:
    """Tokens of the context before and after, also where it overflows."""
    if _filled(db, session, before, window).overflows:
        window *= _WIDE
    return _filled(db, session, before, window).tokens, _filled(db, session, after, window).tokens


def _record(
    db: Database, session: Session, strategy: Strategy, after: Cut, sizes: tuple[int, int], now: Micros
) -> Compaction:
    trims = strategy is Strategy.TRIM_TOOLS
    return compactions.record(
        db,
        session.id,
        strategy=strategy,
        through_seq=after.trimmed if trims else after.floor,
        summary="" if trims else after.summary or "",
        tokens=sizes,
        now=now,
    )


def _cut_for(db: Database, session: Session, strategy: Strategy, wanted: Wanted) -> Cut | None:
    """What a strategy would leave out or trim; None if there is nothing."""
    before = context.cut_of(db, session.id)
    if strategy is Strategy.CLEAR:
        return Cut(floor=session.last_seq)
    through = _before_the_last(db, session, wanted)
    match strategy:
        case Strategy.TRIM_TOOLS:
            return replace(before, trimmed=through) if through > before.trimmed else None
        case Strategy.WINDOW if through > before.floor:
            return replace(before, floor=through, summary=_windowed(db, session))
        case _:
            return None


def _windowed(db: Database, session: Session) -> str:
    """A summary that is there goes on to stand for its part."""
    base = compactions.base(db, session.id)
    if base is None or not base.summary:
        return phrases.NOTE_COMPACTED
    return f"{base.summary}\n\n{phrases.NOTE_COMPACTED}"


def _plan(db: Database, session: Session, wanted: Wanted, before: Filled) -> Plan | None:
    """The range of the next summary; None if not even an empty one would be worth it."""
    through = _before_the_last(db, session, wanted)
    cut = context.cut_of(db, session.id)
    base = compactions.base(db, session.id)
    after = 0 if base is None else base.through_seq
    if through <= max(after, cut.floor):
        return None
    old, least = _sizes(db, session, cut, replace(cut, floor=through, summary=None), wanted.window)
    if least > old * _WORTH:
        return None
    return Plan(
        session=session.id,
        session_id=session.public_id,
        window=wanted.window,
        base=None if base is None else base.id,
        summary=None if base is None else base.summary or None,
        after=after,
        through=through,
        seen=session.updated_at,
        overflows=before.overflows,
    )


def _before_the_last(db: Database, session: Session, wanted: Wanted) -> int:
    """The last message before the turns that stay verbatim; 0 if there is none. Turns stay or go whole."""
    first = session.turn_count - wanted.rules.keep_turns + 1
    if first > 1:
        through = turns.find(db, session.id, str(first)).first_message - 1
        kept = _filled(db, session, Cut(floor=through), wanted.window)
        if not _over(kept, wanted.window):
            return through
    elif not _over(_filled(db, session, Cut(), wanted.window), wanted.window):
        return 0
    # So many do not fit: fewer then, but always the last one.
    fits = context.fill(db, session.id, session.last_seq + 1, Cut(), int(wanted.window * _KEPT)).since
    return _first_turn_from(db, session, fits) - 1


def _first_turn_from(db: Database, session: Session, seq: int) -> int:
    """Where the first turn begins that lies wholly after a message; the last one if none does."""
    found = messages.between(db, session.id, seq, seq)
    last = turns.find(db, session.id, "last")
    if not found or found[0].turn is None:
        return last.first_message
    turn = turns.get(db, found[0].turn)
    if turn.first_message < seq and turn.seq < last.seq:
        turn = turns.find(db, session.id, str(turn.seq + 1))
    return turn.first_message


def _filled(db: Database, session: Session, cut: Cut, window: int) -> Filled:
    return context.fill(db, session.id, session.last_seq + 1, cut, window)


def _over(filled: Filled, window: int) -> bool:
    return filled.overflows or filled.tokens > window * THRESHOLD
