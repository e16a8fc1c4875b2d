"""Envelopes: what a channel hands in, and the frozen address an answer goes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from routing.keys import PeerKind, normalise_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an answer goes. Frozen when the message is accepted, never computed again."""

    channel: str
    account: str
    chat: str
    thread: str | None = None
    #: The platform's id of the message that is answered.
    reply_to: str | None = None

    @property
    def place(self) -> str:
        """One string per chat: deliveries to the same place go out in order."""
        return f"{self.channel}\x1f{self.account}\x1f{self.chat}"


class Addressed(StrEnum):
    """How a group message turned to the bot."""

    NOT = "not"
    MENTION = "mention"
    REPLY = "reply"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    #: The platform's numeric user id; names are never used to decide anything.
    id: str
    name: str = ""
    is_bot: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", normalise_id(self.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One message from a channel, before anything was decided about it."""

    #: Unique per channel: bot user id + update or message id, or an id the client chose.
    external_id: str
    address: Address
    peer_kind: PeerKind
    sender: Sender
    text: str
    guild: str | None = None
    roles: frozenset[str] = field(default_factory=frozenset)
    addressed: Addressed = Addressed.NOT
