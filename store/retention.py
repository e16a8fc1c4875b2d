"""What is removed after its time. Only ended sessions: a live one would lose the numbers its history is read by."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from store import sessions
from store.ids import Micros, pack, span

#: In the order of their end. Without being told so SQLite would look for the statuses and sort all that have them.
_ENDED = (
    "SELECT id FROM sessions INDEXED BY sessions_ended"
    " WHERE status IN ('completed', 'cancelled', 'error', 'archived') AND updated_at < ?"
)

#: Messages that one batch removes, more only where a single turn has more.
BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    sessions: int = 0
    messages: int = 0

    @property
    def anything(self) -> bool:
        return bool(self.sessions or self.messages)


def remove_sessions(db: sqlite3.Connection, before: Micros, most: int = BATCH) -> Removed:
    """Remove what there is of sessions that ended before a moment: the next batch of it."""
    row = db.execute(f"{_ENDED} ORDER BY updated_at LIMIT 1", (before,)).fetchone()
    if row is None:
        return Removed()
    taken = shorten(db, row[0], most)
    if sessions.by_number(db, row[0]).last_seq:
        return Removed(messages=taken)
    sessions.remove(db, row[0])
    return Removed(sessions=1, messages=taken)


def remove_messages(db: sqlite3.Connection, before: Micros, most: int = BATCH) -> Removed:
    """Remove what was said in sessions that ended before a moment; their rows stay, and count nothing."""
    row = db.execute(f"{_ENDED} AND last_seq > 0 ORDER BY updated_at LIMIT 1", (before,)).fetchone()
    return Removed() if row is None else Removed(messages=shorten(db, row[0], most))


def shorten(db: sqlite3.Connection, session: int, most: int) -> int:
    """Remove the newest turns and messages of a session, so that after each batch the rest is a whole, shorter one.

    Numbers stay dense and counters equal to the rows. The time of the last activity stays: it says when more may go.
    """
    row = sessions.by_number(db, session)
    keep, turns, spent_in, spent_out = _boundary(db, session, max(row.last_seq - most, 0))
    last = span(session)[1]
    db.execute("DELETE FROM turns WHERE id > ? AND id <= ?", (pack(session, row.turn_count - turns), last))
    db.execute("DELETE FROM messages WHERE id > ? AND id <= ?", (pack(session, keep), last))
    db.execute("DELETE FROM compactions WHERE session = ? AND through_seq > ?", (session, keep))
    db.execute(
        "UPDATE sessions SET last_seq = ?1, message_count = ?1, turn_count = turn_count - ?2,"
        " total_input_tokens = total_input_tokens - ?3, total_output_tokens = total_output_tokens - ?4,"
        " compaction_count = (SELECT count(*) FROM compactions WHERE session = ?5),"
        " last_compaction_at = (SELECT max(created_at) FROM compactions WHERE session = ?5),"
        " updated_at = updated_at + 1 WHERE id = ?5",
        (keep, turns, spent_in, spent_out, session),
    )
    return row.last_seq - keep


def _boundary(db: sqlite3.Connection, session: int, keep: int) -> tuple[int, int, int, int]:
    """The last message that stays, and how many turns go with how many tokens: a turn goes whole, or stays."""
    turns = spent_in = spent_out = 0
    newest_first = db.execute(
        "SELECT first_message, last_message, coalesce(input_tokens, 0) + coalesce(cached_tokens, 0),"
        " coalesce(output_tokens, 0) + coalesce(reasoning_tokens, 0) FROM turns WHERE id BETWEEN ? AND ?"
        " ORDER BY id DESC",
        span(session),
    )
    for first, last, tokens_in, tokens_out in newest_first:
        if max(first, last) <= keep:
            break
        keep = min(keep, first - 1)
        turns += 1
        spent_in += tokens_in
        spent_out += tokens_out
    newest_first.close()
    return keep, turns, spent_in, spent_out
