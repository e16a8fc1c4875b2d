"""What the accounts of channels keep: facts over a restart, how far a room was read, which agent was chosen where."""

from __future__ import annotations

import sqlite3

from routing.messages import Address


def recall(db: sqlite3.Connection, channel: str, account: str, name: str) -> str | None:
    row = db.execute(
        "SELECT value FROM account_facts WHERE channel = ? AND account = ? AND name = ?", (channel, account, name)
    ).fetchone()
    return None if row is None else str(row[0])


def remember(db: sqlite3.Connection, channel: str, account: str, name: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO account_facts VALUES (?, ?, ?, ?)", (channel, account, name, value))


def saw(db: sqlite3.Connection, channel: str, account: str, room: str, message: str) -> None:
    """A room was read up to this message; never back again, whatever order messages come in."""
    db.execute(
        "INSERT INTO seen VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET last = max(last, excluded.last)",
        (channel, account, room, int(message)),
    )


def seen(db: sqlite3.Connection, channel: str, account: str) -> dict[str, str]:
    rows = db.execute("SELECT room, last FROM seen WHERE channel = ? AND account = ?", (channel, account)).fetchall()
    return {room: str(last) for room, last in rows}


def choose(db: sqlite3.Connection, address: Address, agent: str | None) -> None:
    """From now on this agent answers in a chat (and thread); None leaves it to the bindings again."""
    place = (address.channel, address.account, address.chat, address.thread or "")
    if agent is None:
        db.execute(
            "DELETE FROM chosen_agents WHERE channel = ? AND account = ? AND chat = ? AND thread = ?",
            place,
        )
    else:
        db.execute("INSERT OR REPLACE INTO chosen_agents VALUES (?, ?, ?, ?, ?)", (*place, agent))


def chosen(db: sqlite3.Connection, address: Address) -> str | None:
    row = db.execute(
        "SELECT agent FROM chosen_agents WHERE channel = ? AND account = ? AND chat = ? AND thread = ?",
        (address.channel, address.account, address.chat, address.thread or ""),
    ).fetchone()
    return None if row is None else str(row[0])


def move_chat(db: sqlite3.Connection, channel: str, account: str, old: str, new: str) -> None:
    """What was chosen for a chat goes with it."""
    db.execute(
        "UPDATE OR REPLACE chosen_agents SET chat = ? WHERE channel = ? AND account = ? AND chat = ?",
        (new, channel, account, old),
    )
