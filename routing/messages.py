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

    @property
    def room(self) -> tuple[str, str | None]:
        """Where people talk with each other: a chat, or one thread of it."""
        return self.place, self.thread


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


class AttachmentKind(StrEnum):
    IMAGE = "image"
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file that came with a message and is still with the platform."""

    kind: AttachmentKind
    #: The channel's own handle to fetch it by.
    ref: str
    #: What its sender called it. Shown, never used as a path.
    name: str = ""
    mime: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The message that this one replies to, or the part of it that was quoted."""

    text: str
    sender: Sender | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One message from a channel, before anything was decided about it."""

    #: Unique per channel: bot user id + update or message id, or an id the client chose.
    external_id: str
    #: Its `reply_to` is the platform's id of this message.
    address: Address
    peer_kind: PeerKind
    sender: Sender
    text: str
    guild: str | None = None
    roles: frozenset[str] = field(default_factory=frozenset)
    addressed: Addressed = Addressed.NOT
    attachments: tuple[Attachment, ...] = ()
    quote: Quote | None = None
    #: Set if it was forwarded: whose words these are, as the platform shows it.
    forwarded_from: str | None = None
    #: More of the same thought may follow at once: a part of an album, a text cut at the limit, a forward.
    open: bool = False
    #: (room, message id) in the platform's own history, to catch up from after a gap.
    seen: tuple[str, str] | None = None
    #: Ids that the chat had before; filled by the gateway, so that rules for the old id go on to hold.
    former_chats: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A message was changed; `message` is what it is now. It never starts anything by itself."""

    message: Inbound


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The author took a message back."""

    channel: str
    external_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A chat has another id from now on."""

    channel: str
    account: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """Somebody pressed a button."""

    channel: str
    account: str
    chat: str
    sender: Sender
    #: What the button carries, as it came back: it may be forged.
    data: str


#: Whatever a channel hands over.
Incoming = Inbound | Edited | Deleted | Moved
