"""The outbox: every message to a platform is a row first. Delivery state lives here and nowhere else."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace

from routing.errors import UnknownDelivery
from routing.messages import Address
from store import places
from store.content import Json, clean
from store.ids import Micros
from store.inbox import decode_address, encode_address
from store.records import Delivery, OutboxKind, OutboxState

_COLUMNS = (
    "id, address, turn, kind, text, state, sent_id, uncertain, attempts, next_at, error, created_at, filename, part,"
    " question"
)

#: Written out beside one of its states, or SQLite does not see that the partial index will do.
_UNSETTLED = "state IN ('held', 'sending', 'parked')"

#: A preview that its turn's answer can take over.
_PREVIEW = "kind = 'preview' AND state IN ('sending', 'sent')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to send."""

    address: Address
    text: str
    kind: OutboxKind = OutboxKind.FINAL
    turn: int | None = None
    #: Set: a file of this name goes out, with the text as its content.
    filename: str | None = None


def put(db: sqlite3.Connection, draft: Draft, state: OutboxState, now: Micros) -> int:
    row = db.execute(
        "INSERT INTO outbox (place, address, turn, kind, text, state, created_at, changed_at, filename)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (
            draft.address.place,
            encode_address(draft.address),
            draft.turn,
            draft.kind,
            clean(draft.text),
            state,
            now,
            now,
            draft.filename,
        ),
    ).fetchone()
    return int(row[0])


def put_answer(
    db: sqlite3.Connection, draft: Draft, state: OutboxState, now: Micros, *, closing: str | None = None
) -> None:
    """The answer of a turn. Where a preview exists it takes its row: it becomes an edit.

    With `closing` the preview shrinks to these words, and the answer comes as a new message, which notifies. A preview
    that is being made at this moment may or may not come to exist; whoever makes it will say.
    """
    if closing is not None:
        db.execute(
            "UPDATE outbox SET kind = 'notice', text = ?, state = ?, attempts = 0, changed_at = ?"
            f" WHERE turn = ? AND {_PREVIEW} AND sent_id IS NOT NULL",
            (closing, state, now, draft.turn),
        )
    took = db.execute(
        "UPDATE outbox SET kind = 'final', text = ?, state = ?, attempts = 0, changed_at = ?,"
        " uncertain = CASE WHEN state = 'sending' AND sent_id IS NULL THEN 1 ELSE uncertain END"
        f" WHERE turn = ? AND {_PREVIEW}",
        (clean(draft.text), state, now, draft.turn),
    ).rowcount
    if not took:
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


def unpreview(db: sqlite3.Connection, delivery: int, now: Micros) -> None:
    """A preview's message surely does not exist, so there is nothing to finish."""
    db.execute(
        "UPDATE outbox SET state = CASE kind WHEN 'preview' THEN 'dropped' ELSE state END, uncertain = 0,"
        " changed_at = ? WHERE id = ?",
        (now, delivery),
    )


def hold(db: sqlite3.Connection, place: str, until: Micros) -> None:
    """The platform wants nothing for this place before then; other places go on."""
    db.execute(
        "INSERT INTO holds VALUES (?, ?) ON CONFLICT DO UPDATE SET until = max(until, excluded.until)", (place, until)
    )


def held_until(db: sqlite3.Connection, place: str) -> Micros:
    row = db.execute("SELECT until FROM holds WHERE place = ?", (place,)).fetchone()
    return 0 if row is None else int(row[0])


def holds(db: sqlite3.Connection, now: Micros) -> dict[str, Micros]:
    """At start: the places that are still held, and until when."""
    return dict(db.execute("SELECT place, until FROM holds WHERE until > ?", (now,)).fetchall())


def unblock(db: sqlite3.Connection, place: str, now: Micros) -> int:
    """Somebody wrote in a place that was closed to us: what was parked for it goes out after all."""
    return db.execute(
        "UPDATE outbox SET state = 'ready', blocked = 0, attempts = 0, next_at = 0, changed_at = ?"
        " WHERE place = ? AND blocked = 1 AND state = 'parked'",
        (now, place),
    ).rowcount


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
        "UPDATE outbox SET uncertain = uncertain + 1, changed_at = ?"
        f" WHERE state = 'sending' AND {_UNSETTLED} AND (sent_id IS NULL OR part > 0)",
        (now,),
    )
    return db.execute(
        "UPDATE outbox SET state = 'ready', changed_at = ?"
        f" WHERE state = 'sending' AND {_UNSETTLED} AND kind <> 'preview'",
        (now,),
    ).rowcount


def open_places(db: sqlite3.Connection) -> list[str]:
    """Every place that has something to deliver."""
    rows = db.execute("SELECT DISTINCT place FROM outbox WHERE state IN ('ready', 'sending')").fetchall()
    return [place for (place,) in rows]


def claim(db: sqlite3.Connection, place: str, now: Micros) -> Delivery | None:
    """The oldest open row of a place, marked as being sent if it is due (else as it is, for its `next_at`).

    It goes to the id that its chat has today.
    """
    row = db.execute(
        f"SELECT {_COLUMNS} FROM outbox WHERE place = ? AND state IN ('ready', 'sending') AND kind <> 'preview'"
        " ORDER BY id LIMIT 1",
        (place,),
    ).fetchone()
    if row is None:
        return None
    delivery = _delivery(row)
    next_at = max(delivery.next_at, held_until(db, place))
    if next_at > now:
        return replace(delivery, next_at=next_at)
    marked = db.execute(
        "UPDATE outbox SET state = 'sending', attempts = attempts + 1, changed_at = ? WHERE id = ?"
        f" RETURNING {_COLUMNS}",
        (now, delivery.id),
    ).fetchone()
    claimed = _delivery(marked)
    address = claimed.address
    chat = places.current(db, address.channel, address.account, address.chat)
    if chat == address.chat:
        return claimed
    # Message ids of the old chat mean nothing in the new one, or something else.
    return replace(claimed, address=replace(address, chat=chat, reply_to=None), sent_id=None)


def sent(db: sqlite3.Connection, delivery: int, sent_id: str, now: Micros, *, last: bool = True) -> None:
    """A part of a row arrived; with the last one the row is done. It keeps the id of its first message."""
    db.execute(
        "UPDATE outbox SET state = ?, part = part + 1, sent_id = CASE part WHEN 0 THEN ? ELSE sent_id END,"
        " uncertain = 0, attempts = CASE WHEN ? THEN attempts ELSE 0 END, error = NULL, changed_at = ? WHERE id = ?",
        ("sent" if last else "ready", sent_id, last, now, delivery),
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
        "UPDATE outbox SET state = 'ready', next_at = ?, error = ?, uncertain = uncertain + ?, changed_at = ?"
        " WHERE id = ?",
        (next_at, clean(error), int(uncertain), now, delivery),
    )


def forget_preview(db: sqlite3.Connection, delivery: int, now: Micros) -> None:
    """The message to edit is gone: the text goes out as a new one."""
    db.execute("UPDATE outbox SET state = 'ready', sent_id = NULL, changed_at = ? WHERE id = ?", (now, delivery))


def park(db: sqlite3.Connection, delivery: int, error: str, now: Micros, *, blocked: bool = False) -> None:
    db.execute(
        "UPDATE outbox SET state = 'parked', error = ?, blocked = ?, changed_at = ? WHERE id = ?",
        (clean(error), int(blocked), now, delivery),
    )


def park_all(db: sqlite3.Connection, error: str, now: Micros) -> int:
    """Nothing goes out unasked; sent again, a row says that it may be a repeat. A preview goes with its turn."""
    return db.execute(
        "UPDATE outbox SET state = 'parked', error = ?, changed_at = ?,"
        " uncertain = CASE WHEN sent_id IS NULL OR part > 0 THEN 1 ELSE uncertain END"
        " WHERE state IN ('held', 'ready', 'sending') AND kind <> 'preview'",
        (clean(error), now),
    ).rowcount


def drop(db: sqlite3.Connection, delivery: int, now: Micros) -> None:
    db.execute("UPDATE outbox SET state = 'dropped', changed_at = ? WHERE id = ?", (now, delivery))


def resend(db: sqlite3.Connection, delivery: int, now: Micros) -> Delivery:
    """A parked row is sent once more."""
    row = db.execute(
        "UPDATE outbox SET state = 'ready', attempts = 0, next_at = 0, blocked = 0, changed_at = ?"
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
    """Forget what was delivered long ago; the history has it. Looks at the oldest rows only; what is parked stays."""
    db.execute("DELETE FROM holds WHERE until < ?", (before,))
    return db.execute(
        "DELETE FROM outbox WHERE id IN (SELECT id FROM"
        " (SELECT id, state, changed_at FROM outbox WHERE state <> 'parked' ORDER BY id LIMIT ?)"
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
        doubts=row[7],
        attempts=row[8],
        next_at=row[9],
        error=row[10],
        created_at=row[11],
        filename=row[12],
        part=row[13],
        question=row[14],
    )
