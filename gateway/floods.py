"""Floods: how much one sender, one chat and two bots may say in a while. Kept in memory; a restart forgives."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gateway import phrases
from gateway.clock import Clock
from routing.access import Policy, Reason
from routing.keys import PeerKind, normalise_id
from routing.messages import Addressed, Inbound

_WINDOW = 60.0
#: A chat may say so many times what one sender may.
_CHAT = 5
#: Messages of a bot that are answered in one chat, and the seconds in which they count.
_BOT_TURNS = 10
_BOT_WINDOW = 3600.0
#: Senders and chats that are remembered.
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Flood:
    reason: Reason
    #: Said once, when it begins; None while it goes on.
    say: str | None


@dataclass(slots=True)
class _Window:
    times: deque[float] = field(default_factory=deque)
    told: bool = False


class Floods:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[tuple[str, ...], _Window] = {}

    def check(self, message: Inbound, policy: Policy) -> Flood | None:
        """Counts the message; a flood if it is one too many. What is not for us costs nothing and does not count."""
        if not _for_us(message, policy):
            return None
        if message.sender.is_bot and not self._fits(_windows(message)[0], _BOT_TURNS, _BOT_WINDOW):
            return Flood(Reason.BOT_LIMIT, None)
        if not policy.flood:
            return None
        _, own, chat = _windows(message)
        if not self._fits(own, policy.flood, _WINDOW):
            return Flood(Reason.FLOOD, self._word(own))
        if message.peer_kind is not PeerKind.DM and not self._fits(chat, policy.flood * _CHAT, _WINDOW):
            return Flood(Reason.FLOOD, self._word(chat))
        return None

    def forgive(self, message: Inbound) -> None:
        """The platform sent it again: it was counted the first time."""
        for name in _windows(message):
            window = self._windows.get(name)
            if window is not None and window.times:
                window.times.pop()

    def _fits(self, name: tuple[str, ...], most: int, window: float) -> bool:
        now = self._clock.monotonic()
        found = self._windows.pop(name, None) or _Window()
        self._windows[name] = found
        if len(self._windows) > _MOST:
            del self._windows[next(iter(self._windows))]
        while found.times and found.times[0] <= now - window:
            found.times.popleft()
        if len(found.times) >= most:
            return False
        found.times.append(now)
        found.told = False
        return True

    def _word(self, name: tuple[str, ...]) -> str | None:
        window = self._windows[name]
        first, window.told = not window.told, True
        return phrases.FLOOD if first else None


def _windows(message: Inbound) -> tuple[tuple[str, ...], ...]:
    """Where it counts: between two bots, for its sender, for its chat."""
    address, sender = message.address, message.sender
    own = ("sender", address.channel, address.account, sender.id)
    return ("bot", address.place, sender.id), own, ("chat", address.place)


def _for_us(message: Inbound, policy: Policy) -> bool:
    if message.sender.is_bot and message.sender.id not in policy.bots:
        return False
    if message.peer_kind is PeerKind.DM or message.addressed is not Addressed.NOT or not policy.mention:
        return True
    return not policy.always.isdisjoint(map(normalise_id, (message.address.chat, message.guild or "")))
