"""The contract of a channel, and the abilities that only some have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from routing.messages import Address, Attachment, Incoming, Press


@dataclass(frozen=True, slots=True)
class Button:
    """Under a message. Its label is plain text; its data comes back with a press."""

    label: str
    #: At most 64 bytes.
    data: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What whoever pressed a button is told, and nobody else."""

    text: str
    #: Something they have to read, as opposed to a receipt.
    alert: bool = False
    #: The buttons of this message do nothing any more.
    over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message to a platform."""

    #: The same for every attempt: what a platform that knows nonces recognises a repeat by.
    nonce: str
    address: Address
    #: Markdown, short enough for one message if the channel splits.
    text: str
    #: Set: a file of this name goes out, and the text is its content.
    filename: str | None = None
    #: None: it never has any. Empty: it has none any more.
    buttons: tuple[Button, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuItem:
    """A command as a platform's menu shows it."""

    name: str
    description: str
    #: What may follow the command, in one word; None if nothing.
    argument: str | None = None


class Host(Protocol):
    """What a channel may ask of the daemon that runs it."""

    #: The commands that a platform's own menu offers.
    menu: Sequence[MenuItem]

    async def accept(self, what: Incoming) -> None:
        """Take something into the store. Returns when it is safe, and never raises into a library."""
        ...

    async def press(self, press: Press) -> Verdict:
        """A button was pressed. Returns when it is decided what comes of it, and never raises into a library."""
        ...

    async def seen(self) -> Mapping[str, str]:
        """Room → id of the last message taken from it, to catch up from (see `Inbound.seen`)."""
        ...

    async def recall(self, name: str) -> str | None:
        """A fact that this account remembered before a restart."""
        ...

    async def remember(self, name: str, value: str) -> None: ...

    def alive(self) -> None:
        """A poll was answered, a heartbeat acknowledged: the connection works now."""
        ...

    def trouble(self, why: str) -> None:
        """It does not work now, and why, in words for an operator; no secrets. `alive` ends it."""
        ...


class Channel(Protocol):
    """One account on one platform."""

    name: str
    account: str
    #: True if people read the history itself, so that a stored answer is a delivered one.
    reads_history: bool
    #: After so many seconds without a sign of life it is started again; None if it has no connection to lose.
    silent_after: float | None

    async def run(self, host: Host) -> None:
        """Receive until cancelled; close what was opened."""
        ...

    async def send(self, item: Outgoing) -> str:
        """Send and return the platform's id, or raise DeliveryFailed."""
        ...


@runtime_checkable
class Edits(Protocol):
    """Messages can be changed after they were sent: answers may grow before the reader's eyes."""

    async def edit(self, sent_id: str, item: Outgoing) -> None:
        """Safe to repeat. A message that has this text already is no failure."""
        ...

    def edit_spacing(self, address: Address) -> float:
        """Least seconds between two changes of one message."""
        ...


@runtime_checkable
class Asks(Protocol):
    """Messages can have buttons, and presses come back. Elsewhere options are numbered and answered in words."""

    #: In characters; a longer label is cut.
    longest_label: int


@runtime_checkable
class Splits(Protocol):
    """Messages have a limit."""

    def split(self, text: str) -> list[str]:
        """The same in parts that fit one message each; at least one, none of them blank unless all is."""
        ...


@runtime_checkable
class Types(Protocol):
    """People see that an answer is being written."""

    #: How often it must be said again while it is true, in seconds.
    typing_every: float

    async def typing(self, address: Address) -> None:
        """Raises DeliveryFailed."""
        ...


@runtime_checkable
class Paced(Protocol):
    """The platform wants so few messages per chat that it is better to keep to it than to be told."""

    def pace(self, address: Address) -> Pace: ...


@dataclass(frozen=True, slots=True)
class Pace:
    #: Messages that may go at once after a rest, and the seconds after which one more may.
    burst: int
    every: float


@runtime_checkable
class Fetches(Protocol):
    """Messages can carry files."""

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """At most `limit` bytes. Raises DeliveryFailed."""
        ...


@runtime_checkable
class Finds(Protocol):
    """Whether a message arrived can be looked up, so that an unknown outcome is never a repeat."""

    async def find(self, item: Outgoing) -> str | None: ...
