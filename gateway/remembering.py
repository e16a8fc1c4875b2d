"""Commands about what an agent is given of a conversation: compact, take it back, pin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gateway import compaction, phrases, tokens
from gateway.admission import AgentRules
from gateway.compaction import Plan, Wanted
from gateway.config import Strategy
from routing.errors import NothingToUndo
from routing.keys import SessionKey
from store import compactions, messages, pins, sessions
from store.content import Text
from store.database import Database
from store.ids import Micros
from store.messages import HistoryOptions
from store.records import Compaction, Message, Role, Session

#: What is pinned may have this share of the context window.
_PINS = 1 / 4
#: How far back a message is looked for by its words.
_PAGE, _LOOKED_AT = 100, 2000
#: Characters of a message by which people recognise it.
_LINE = 80
#: A message with fewer letters is not recognised inside a longer quote.
_LETTERS = 20


@dataclass(frozen=True, slots=True)
class Planned:
    """A summary that somebody asked for, to be made after the command."""

    plan: Plan
    agent: str
    focus: str | None


def compact(
    db: Database, key: SessionKey, agent: AgentRules, focus: str | None, now: Micros
) -> tuple[str, Planned | None]:
    """Compact at once, or plan a summary. The receipt has the numbers that the next turn will see."""
    session = sessions.live(db, key)
    if session is None:
        return phrases.NOTHING_TO_COMPACT, None
    sessions.wake(db, key)
    strategy = agent.compaction.strategy
    if strategy is Strategy.AUTO or (focus and agent.summarises):
        strategy = Strategy.SUMMARY
    elif strategy is Strategy.NONE:
        strategy = Strategy.WINDOW
    wanted = Wanted(
        rules=agent.compaction.model_copy(update={"strategy": strategy}),
        window=agent.context_window,
        summarises=agent.summarises,
        at_once=True,
    )
    done = compaction.decide(db, session.id, wanted, now)
    if isinstance(done, Plan):
        return phrases.COMPACTING, Planned(done, key.agent_id, focus)
    if done is None:
        return phrases.NOTHING_TO_COMPACT, None
    return (f"{receipt(done)} {phrases.FOCUS_UNUSED}" if focus else receipt(done)), None


def receipt(done: Compaction | None) -> str:
    """How a compaction ended."""
    if done is None:
        return phrases.NOT_COMPACTED
    return phrases.COMPACTED.format(before=done.tokens_before, after=done.tokens_after)


def uncompact(db: Database, key: SessionKey, now: Micros) -> str:
    session = sessions.live(db, key)
    try:
        if session is None:
            raise NothingToUndo
        sessions.wake(db, key)
        undone = compactions.undo(db, session.id, now)
    except NothingToUndo as nothing:
        return str(nothing)
    return phrases.UNCOMPACTED.format(strategy=undone.strategy)


def pin(db: Database, key: SessionKey, words: str, window: int, now: Micros) -> str:
    """Keep a message verbatim in every context to come: the newest with these words, or the last one."""
    session = sessions.live(db, key)
    message = None if session is None else next(_with_words(_newest(db, session), words), None)
    if session is None or message is None:
        return phrases.NOTHING_TO_PIN
    if message.metadata.get("pinned"):
        return phrases.ALREADY_PINNED
    pinned = pins.of_session(db, session.id, session.last_seq + 1)
    if sum(map(tokens.of_message, [*pinned, message])) > window * _PINS:
        return phrases.PINS_FULL
    pins.put(db, message, now)
    return phrases.PINNED.format(line=_line(message))


def unpin(db: Database, key: SessionKey, words: str, now: Micros) -> str:
    """Let go of the newest pinned message with these words, or of the newest one."""
    session = sessions.live(db, key)
    pinned = [] if session is None else pins.of_session(db, session.id, session.last_seq + 1)
    message = next(_with_words(reversed(pinned), words), None)
    if message is None:
        return phrases.NOTHING_PINNED
    pins.take(db, message, now)
    return phrases.UNPINNED.format(line=_line(message))


def _newest(db: Database, session: Session) -> Iterator[Message]:
    """What was said, the newest first."""
    before = session.last_seq + 1
    for _ in range(0, _LOOKED_AT, _PAGE):
        page = messages.page(db, session.id, HistoryOptions(limit=_PAGE, before=before))
        yield from (row for row in reversed(page) if row.role is not Role.SYSTEM and _text(row) and not row.superseded)
        if len(page) < _PAGE:
            return
        before = page[0].seq


def _with_words(rows: Iterator[Message], words: str) -> Iterator[Message]:
    """Platforms show text without its markup, and quote parts of it: letters and digits are compared."""
    wanted = _letters(words)
    for row in rows:
        there = _letters(_text(row))
        if not words.strip() or (wanted and wanted in there) or (len(there) >= _LETTERS and there in wanted):
            yield row


def _letters(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _text(row: Message) -> str:
    content = row.content
    return content.text.strip() if isinstance(content, Text) and not content.partial else ""


def _line(row: Message) -> str:
    line = " ".join(_text(row).split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"
