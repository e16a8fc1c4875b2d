"""The outbox: every message to a platform is a row first. Delivery state lives here and nowhere else."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from routing.errors import UnknownDelivery
from routing.messages import Address
from store.content import Json, clean
from store.ids import Micros
from store.inbox import decode_address, encode_address
from store.records import Delivery, OutboxKind, OutboxState

_COLUMNS = "id, address, turn, kind, text, state, sent_id, uncertain, attempts, next_at, error, created_at"

#: Written out beside one of its states, or SQLite does not see that the partial index will do.
_UNSETTLED = "state IN ('held', 'sending', 'parked')"

#: A preview that its turn's answer can take over; `ready` if it waits for a rate limit to end.
_PREVIEW = "kind = 'preview' AND state IN ('ready', 'sending', 'sent')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to send."""

    address: Address
    text: str
    kind: OutboxKind = OutboxKind.FINAL
    turn: int | None = None


def put(db: sqlite3.Connection, draft: Draft, state: OutboxState, now: Micros) -> int:
    row = db.execute(
        "INSERT INTO outbox (place, address, turn, kind, text, state, created_at, changed_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            draft.address.place,
            encode_address(draft.address),
            draft.turn,
            draft.kind,
            clean(draft.text),
            state,
            now,
            now,
        ),
    ).fetchone()
    return int(row[0])


def put_answer(db: sqlite3.Connection, drafts: Sequence[Draft], state: OutboxState, now: Micros) -> None:
    """The final messages of a turn. Where a preview exists the first one takes its row: it becomes an edit.

    A preview that is being made at this moment may or may not come to exist; whoever makes it will say.
    """
    rest = list(drafts)
    if rest and rest[0].turn is not None:
        took = db.execute(
            "UPDATE outbox SET kind = 'final', text = ?, state = ?, attempts = 0, changed_at = ?,"
            " uncertain = CASE WHEN state = 'sending' AND sent_id IS NULL THEN 1 ELSE uncertain END"
            f" WHERE turn = ? AND {_PREVIEW}",
            (clean(rest[0].text), state, now, rest[0].turn),
        ).rowcount
        if took:
            del rest[0]
    for draft in rest:
        put(db, draft, state, now)


def get(db: sqlite3.Connection, delivery: int) -> Delivery:
    row = db.execute(f"SELECT {_COLUMNS} FROM outbox WHERE id = ?", (delivery,)).fetchone()
    if row is None:
        raise UnknownDelivery(delivery=delivery)
    return _delivery(row)


def shown(db: sqlite3.Connection, delivery: int, sent_id: str, now: Micros) -> Delivery:
    """A preview's message exists. If the turn has ended meanwhile, its row already waits to be finished."""
    db.execute(
        "UPDATE outbox SET sent_id = ?, state = CASE kind WHEN 'preview' THEN 'sent' ELSE state END, uncertain = 0,"
        " changed_at = ? WHERE id = ?",
        (sent_id, now, delivery),
    )
    return get(db, delivery)


def doubt(db: sqlite3.Connection, delivery: int, now: Micros) -> None:
    """Whether a preview's message exists is unknown."""
    db.execute("UPDATE outbox SET uncertain = 1, changed_at = ? WHERE id = ?", (now, delivery))


def unpreview(db: sqlite3.Connection, delivery: int, now: Micros) -> None:
    """A preview's message surely does not exist, so there is nothing to finish."""
    db.execute(
        "UPDATE outbox SET state = CASE kind WHEN 'preview' THEN 'dropped' ELSE state END, uncertain = 0,"
        " changed_at = ? WHERE id = ?",
        (now, delivery),
    )


def limit(db: sqlite3.Connection, delivery: int, next_at: Micros, now: Micros) -> None:
    """A preview was refused for a while: until then nothing goes to its place, its own turn's answer included."""
    db.execute(
        "UPDATE outbox SET state = CASE kind WHEN 'preview' THEN 'ready' ELSE state END, next_at = ?,"
        " uncertain = CASE WHEN sent_id IS NULL THEN 0 ELSE uncertain END, changed_at = ? WHERE id = ?",
        (next_at, now, delivery),
    )


def preview_of(db: sqlite3.Connection, turn: int) -> Delivery | None:
    row = db.execute(
        f"SELECT {_COLUMNS} FROM outbox WHERE turn = ? AND {_PREVIEW}",
        (turn,),
    ).fetchone()
    return None if row is None else _delivery(row)


def release(db: sqlite3.Connection, turn: int, now: Micros) -> None:
    db.execute("UPDATE outbox SET state = 'ready', changed_at = ? WHERE turn = ? AND state = 'held'", (now, turn))


def release_all(db: sqlite3.Connection, now: Micros) -> int:
    """At start: nothing stays held."""
    return db.execute(
        f"UPDATE outbox SET state = 'ready', changed_at = ? WHERE state = 'held' AND {_UNSETTLED}", (now,)
    ).rowcount


def settle(db: sqlite3.Connection, now: Micros) -> int:
    """At start: the outcome of what was being sent is unknown. It is ready again, and marked."""
    db.execute(
        f"UPDATE outbox SET uncertain = 1, changed_at = ? WHERE state = 'sending' AND {_UNSETTLED} AND sent_id IS NULL",
        (now,),
    )
    return db.execute(
        "UPDATE outbox SET state = 'ready', changed_at = ?"
        f" WHERE state = 'sending' AND {_UNSETTLED} AND kind <> 'preview'",
        (now,),
    ).rowcount


def places(db: sqlite3.Connection) -> list[str]:
    """Every place that has something to deliver."""
    rows = db.execute("SELECT DISTINCT place FROM outbox WHERE state IN ('ready', 'sending')").fetchall()
    return [place for (place,) in rows]


def claim(db: sqlite3.Connection, place: str, now: Micros) -> Delivery | None:
    """The oldest open row of a place, marked as being sent if it is due (else as it is, for its `next_at`)."""
    row = db.execute(
        f"SELECT {_COLUMNS} FROM outbox WHERE place = ? AND state IN ('ready', 'sending')"
        " AND (kind <> 'preview' OR next_at > ?) ORDER BY id LIMIT 1",
        (place, now),
    ).fetchone()
    if row is None:
        return None
    delivery = _delivery(row)
    if delivery.next_at > now:
        return delivery
    marked = db.execute(
        "UPDATE outbox SET state = 'sending', attempts = attempts + 1, changed_at = ? WHERE id = ?"
        f" RETURNING {_COLUMNS}",
        (now, delivery.id),
    ).fetchone()
    return _delivery(marked)


def sent(db: sqlite3.Connection, delivery: int, sent_id: str, now: Micros) -> None:
    db.execute(
        "UPDATE outbox SET state = 'sent', sent_id = ?, uncertain = 0, error = NULL, changed_at = ? WHERE id = ?",
        (sent_id, now, delivery),
    )


def retry(
    db: sqlite3.Connection,
    delivery: int,
    next_at: Micros,
    error: str,
    now: Micros,
    *,
    uncertain: bool = False,
) -> None:
    db.execute(
        "UPDATE outbox SET state = 'ready', next_at = ?, error = ?, uncertain = max(uncertain, ?), changed_at = ?"
        " WHERE id = ?",
        (next_at, clean(error), int(uncertain), now, delivery),
    )


def forget_preview(db: sqlite3.Connection, delivery: int, now: Micros) -> None:
    """The message to edit is gone: the text goes out as a new one."""
    db.execute("UPDATE outbox SET state = 'ready', sent_id = NULL, changed_at = ? WHERE id = ?", (now, delivery))


def park(db: sqlite3.Connection, delivery: int, error: str, now: Micros) -> None:
    db.execute(
        "UPDATE outbox SET state = 'parked', error = ?, changed_at = ? WHERE id = ?",
        (clean(error), now, delivery),
    )


def park_all(db: sqlite3.Connection, error: str, now: Micros) -> int:
    """Nothing goes out unasked; sent again, a row says that it may be a repeat. A preview goes with its turn."""
    return db.execute(
        "UPDATE outbox SET state = 'parked', error = ?, changed_at = ?,"
        " uncertain = CASE WHEN sent_id IS NULL THEN 1 ELSE uncertain END"
        " WHERE state IN ('held', 'ready', 'sending') AND kind <> 'preview'",
        (clean(error), now),
    ).rowcount


def drop(db: sqlite3.Connection, delivery: int, now: Micros) -> None:
    db.execute("UPDATE outbox SET state = 'dropped', changed_at = ? WHERE id = ?", (now, delivery))


def resend(db: sqlite3.Connection, delivery: int, now: Micros) -> Delivery:
    """A parked row is sent once more."""
    row = db.execute(
        "UPDATE outbox SET state = 'ready', attempts = 0, next_at = 0, changed_at = ?"
        f" WHERE id = ? AND state = 'parked' RETURNING {_COLUMNS}",
        (now, delivery),
    ).fetchone()
    if row is None:
        raise UnknownDelivery(delivery=delivery)
    return _delivery(row)


def parked(db: sqlite3.Connection, limit: int = 100) -> list[Delivery]:
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM outbox WHERE state = 'parked' AND {_UNSETTLED} ORDER BY id DESC LIMIT ?", (limit,)
    ).fetchall()
    return [_delivery(row) for row in rows]


def prune(db: sqlite3.Connection, before: Micros, most: int = 1000) -> int:
    """Forget what was delivered long ago; the history has it. Looks at the oldest rows only."""
    return db.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM (SELECT id, state, changed_at FROM outbox ORDER BY id LIMIT ?)"
        " WHERE state IN ('sent', 'dropped') AND changed_at < ?)",
        (most, before),
    ).rowcount


def of_turn(db: sqlite3.Connection, turn: int) -> list[Delivery]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM outbox WHERE turn = ? ORDER BY id", (turn,)).fetchall()
    return [_delivery(row) for row in rows]


def _delivery(row: tuple[Json, ...]) -> Delivery:
    return Delivery(
        id=row[0],
        address=decode_address(row[1]),
        turn=row[2],
        kind=OutboxKind(row[3]),
        text=row[4],
        state=OutboxState(row[5]),
        sent_id=row[6],
        uncertain=bool(row[7]),
        attempts=row[8],
        next_at=row[9],
        error=row[10],
        created_at=row[11],
    )
