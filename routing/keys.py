"""SessionKey: which conversation a message belongs to."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from routing.errors import InvalidKey

#: Channel and account of a key that collapses direct messages of all channels. No channel may be called so.
ANY = "*"

#: The owner's peer id in direct messages, and everybody's under `dm_scope = "main"`.
MAIN = "main"

_KEY_RESERVED = re.compile(r"[%:\x00-\x20\x7f]")
_PEER_RESERVED = re.compile(r"[%/@]")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_NUMBER = re.compile(r"([+-]?)([0-9]+)", re.ASCII)


class PeerKind(StrEnum):
    DM = "dm"
    GROUP = "group"
    CHANNEL = "channel"


def normalise_id(text: str) -> str:
    """One spelling per id: NFC, no outer space, numbers without sign tricks and leading zeros."""
    text = unicodedata.normalize("NFC", text).strip()
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    digits = number[2].lstrip("0") or "0"
    return f"-{digits}" if number[1] == "-" and digits != "0" else digits


def peer_id(chat: str, thread: str | None = None, member: str | None = None) -> str:
    """The peer of a place: `chat`, `chat/thread`, `chat@member` or `chat/thread@member`, unambiguous."""
    peer = _escape(_PEER_RESERVED, normalise_id(chat))
    if thread is not None:
        peer += "/" + _escape(_PEER_RESERVED, normalise_id(thread))
    if member is not None:
        peer += "@" + _escape(_PEER_RESERVED, normalise_id(member))
    return peer


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """A composite key; `str()` and `parse()` are inverse for every content."""

    agent_id: str
    channel: str
    account_id: str
    peer_kind: PeerKind
    peer_id: str

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "peer_kind", PeerKind(self.peer_kind))
        except ValueError:
            raise InvalidKey(text=self.peer_kind, why="peer_kind is dm, group or channel") from None
        content = ":".join((self.agent_id, self.channel, self.account_id, self.peer_kind, self.peer_id))
        try:
            content.encode()
        except UnicodeEncodeError:
            raise InvalidKey(text=content, why="it is not valid Unicode") from None

    def __str__(self) -> str:
        return _spell(self)

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        """The key that `str()` made; any other spelling is refused, so that no key has two."""
        return _parse(text)


def in_moved_chat(key: SessionKey, channel: str, account: str, old: str, new: str) -> SessionKey:
    """The key of the same conversation, thread or member after a group got another id; any other key as it is."""
    was = peer_id(old)
    rest = key.peer_id.removeprefix(was)
    here = (key.channel, key.account_id) == (channel, account) and key.peer_kind is not PeerKind.DM
    if not here or not key.peer_id.startswith(was) or rest[:1] not in {"", "/", "@"}:
        return key
    return SessionKey(key.agent_id, channel, account, key.peer_kind, peer_id(new) + rest)


# The same few keys are spelt and read with every message.
@lru_cache(4096)
def _spell(key: SessionKey) -> str:
    parts = (key.agent_id, key.channel, key.account_id, key.peer_kind, key.peer_id)
    return ":".join(_escape(_KEY_RESERVED, part) for part in parts)


@lru_cache(4096)
def _parse(text: str) -> SessionKey:
    parts = text.split(":")
    if len(parts) != 5:
        raise InvalidKey(text=text, why="it needs five parts separated by ':'")
    agent, channel, account, kind, peer = (_unescape(part) for part in parts)
    if kind not in PeerKind.__members__.values():
        raise InvalidKey(text=text, why="peer_kind is dm, group or channel")
    key = SessionKey(agent, channel, account, PeerKind(kind), peer)
    if str(key) != text:
        raise InvalidKey(text=text, why="it is not in its canonical spelling")
    return key


def _escape(reserved: re.Pattern[str], text: str) -> str:
    return reserved.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
