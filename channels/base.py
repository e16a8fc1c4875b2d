"""The contract of a channel, and the abilities that only some have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from routing.messages import Address, Inbound

#: Takes a message into the store. It returns when the message is safe, and never raises into a library.
Accept = Callable[[Inbound], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message to a platform."""

    #: The same for every attempt: what a platform that knows nonces recognises a repeat by.
    nonce: str
    address: Address
    text: str


class Channel(Protocol):
    """One account on one platform."""

    name: str
    account: str
    #: True if people read the history itself, so that a stored answer is a delivered one.
    reads_history: bool

    async def run(self, accept: Accept) -> None:
        """Receive until cancelled; close what was opened."""
        ...

    async def send(self, item: Outgoing) -> str:
        """Send and return the platform's id, or raise DeliveryFailed."""
        ...


@runtime_checkable
class Edits(Protocol):
    """Messages can be changed after they were sent: answers may grow before the reader's eyes."""

    async def edit(self, sent_id: str, item: Outgoing) -> None: ...


@runtime_checkable
class Finds(Protocol):
    """Whether a message arrived can be looked up, so that an unknown outcome is never a repeat."""

    async def find(self, item: Outgoing) -> str | None: ...
