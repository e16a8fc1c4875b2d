"""Aliases of chats: a group that became a supergroup keeps its conversation under the new id."""

from __future__ import annotations

import sqlite3

from routing.keys import normalise_id
from store.ids import Micros


def set_alias(db: sqlite3.Connection, channel: str, account: str, old: str, new: str, now: Micros) -> None:
    """`old` is from now on `new`; older aliases that led to `old` lead to `new` as well."""
    old, new = normalise_id(old), current(db, channel, account, new)
    if old == new:
        return
    db.execute(
        "UPDATE aliases SET new_chat = ? WHERE channel = ? AND account = ? AND new_chat = ?",
        (new, channel, account, old),
    )
    db.execute(
        "INSERT INTO aliases (channel, account, old_chat, new_chat, made_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET new_chat = excluded.new_chat, made_at = excluded.made_at",
        (channel, account, old, new, now),
    )


def former(db: sqlite3.Connection, channel: str, account: str, chat: str) -> frozenset[str]:
    """The ids that a chat had before."""
    rows = db.execute(
        "SELECT old_chat FROM aliases WHERE channel = ? AND account = ? AND new_chat = ?", (channel, account, chat)
    ).fetchall()
    return frozenset(old for (old,) in rows)


def current(db: sqlite3.Connection, channel: str, account: str, chat: str) -> str:
    """The id a chat has today."""
    chat = normalise_id(chat)
    row = db.execute(
        "SELECT new_chat FROM aliases WHERE channel = ? AND account = ? AND old_chat = ?",
        (channel, account, chat),
    ).fetchone()
    return chat if row is None else str(row[0])
