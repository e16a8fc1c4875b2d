"""Pairings: an unknown person wrote, got a code, and waits to be approved."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass

from routing.errors import UnknownPairing
from routing.keys import PeerKind
from routing.messages import Address, Addressed, Inbound, Sender
from store.about import read_attachments, read_quote
from store.content import Json, clean, to_json
from store.ids import Micros

#: How long a code is good for, in microseconds.
VALID = 3600 * 1_000_000
#: Codes of one account at a time; the oldest gives way.
MOST = 3

_COLUMNS = "id, code, channel, account, sender, name, message, created_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    id: int
    code: str
    channel: str
    account: str
    sender: str
    name: str
    #: What they wrote first; it is answered on approval.
    message: Inbound
    created_at: Micros

    @property
    def expires_at(self) -> Micros:
        return self.created_at + VALID


def ask(db: sqlite3.Connection, message: Inbound, code: str, now: Micros) -> Pairing | None:
    """Let a first message wait under a new code; None if this sender has one already."""
    expire(db, now)
    address = message.address
    row = db.execute(
        "INSERT INTO pairings (code, channel, account, sender, name, message, created_at)"
        f" VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (channel, account, sender) DO NOTHING RETURNING {_COLUMNS}",
        (
            code,
            address.channel,
            address.account,
            message.sender.id,
            clean(message.sender.name),
            _encode(message),
            now,
        ),
    ).fetchone()
    if row is None:
        return None
    db.execute(
        "DELETE FROM pairings WHERE channel = ?1 AND account = ?2 AND id NOT IN"
        " (SELECT id FROM pairings WHERE channel = ?1 AND account = ?2 ORDER BY id DESC LIMIT ?3)",
        (address.channel, address.account, MOST),
    )
    return _pairing(row)


def take(db: sqlite3.Connection, code: str, now: Micros) -> Pairing:
    """The pairing of a code, which is used up."""
    expire(db, now)
    row = db.execute(f"DELETE FROM pairings WHERE code = ? RETURNING {_COLUMNS}", (code.strip().upper(),)).fetchone()
    if row is None:
        raise UnknownPairing(pairing=code)
    return _pairing(row)


def waiting(db: sqlite3.Connection, now: Micros) -> list[Pairing]:
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM pairings WHERE created_at > ? ORDER BY id DESC", (now - VALID,)
    ).fetchall()
    return [_pairing(row) for row in rows]


def expire(db: sqlite3.Connection, now: Micros) -> int:
    return db.execute("DELETE FROM pairings WHERE created_at <= ?", (now - VALID,)).rowcount


def _pairing(row: tuple[Json, ...]) -> Pairing:
    return Pairing(
        id=row[0],
        code=row[1],
        channel=row[2],
        account=row[3],
        sender=row[4],
        name=row[5],
        message=_decode(row[6]),
        created_at=row[7],
    )


def _encode(message: Inbound) -> str:
    sets = {"roles": sorted(message.roles), "former_chats": sorted(message.former_chats)}
    return clean(to_json({**asdict(message), **sets}))


def _decode(stored: str) -> Inbound:
    value = json.loads(stored)
    seen = value["seen"]
    return Inbound(
        **{
            **value,
            "address": Address(**value["address"]),
            "peer_kind": PeerKind(value["peer_kind"]),
            "sender": Sender(**value["sender"]),
            "roles": frozenset(value["roles"]),
            "former_chats": frozenset(value["former_chats"]),
            "addressed": Addressed(value["addressed"]),
            "attachments": read_attachments(value["attachments"]),
            "quote": read_quote(value["quote"]),
            "seen": None if seen is None else (seen[0], seen[1]),
        }
    )
