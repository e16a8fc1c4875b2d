"""Refusals: why a message was not answered, kept for a while so that people can ask."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from routing.messages import Address, Inbound
from store.content import clean
from store.ids import Micros

#: The newest ones are kept; a flood of strangers cannot fill the disk.
KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    channel: str
    account: str
    chat: str
    thread: str | None
    sender: str
    message_id: str | None
    reason: str
    at: Micros


def record(db: sqlite3.Connection, message: Inbound, reason: str, now: Micros) -> None:
    note(db, message.address, message.sender.id, reason, now)


def note(db: sqlite3.Connection, address: Address, sender: str, reason: str, now: Micros) -> None:
    values = (
        address.channel,
        address.account,
        address.chat,
        address.thread,
        sender,
        address.reply_to,
    )
    number = db.execute(
        "INSERT INTO refusals (channel, account, chat, thread, sender, message_id, reason, at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*(None if value is None else clean(value) for value in values), reason, now),
    ).lastrowid
    db.execute("DELETE FROM refusals WHERE id <= ?", ((number or 0) - KEPT,))


def newest_at(db: sqlite3.Connection, address: Address) -> Refusal | None:
    """The last refusal in one chat and thread."""
    found = [one for one in newest(db, KEPT) if (one.channel, one.account, one.chat, one.thread) == _where(address)]
    return found[0] if found else None


def _where(address: Address) -> tuple[str, str, str, str | None]:
    return address.channel, address.account, address.chat, address.thread


def newest(db: sqlite3.Connection, limit: int = 100) -> list[Refusal]:
    rows = db.execute(
        "SELECT channel, account, chat, thread, sender, message_id, reason, at FROM refusals ORDER BY id DESC LIMIT ?",
        (limit,),
    ).fetchall()
    return [
        Refusal(
            channel=row[0],
            account=row[1],
            chat=row[2],
            thread=row[3],
            sender=row[4],
            message_id=row[5],
            reason=row[6],
            at=row[7],
        )
        for row in rows
    ]
