"""Bindings decide which agent answers. Routing is a pure question with a value for an answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from routing.keys import PeerKind, normalise_id
from routing.messages import Inbound

#: Most significant first: a binding that names a field beats every binding that does not,
#: whatever the later fields say. Place before person before surroundings.
FIELDS = ("thread", "peer", "sender", "role", "guild", "account", "channel", "peer_kind")

_IDS = frozenset({"thread", "peer", "sender", "role", "guild"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Every field that is given must match; a field that is not given matches everything."""

    agent: str
    channel: str | None = None
    account: str | None = None
    guild: str | None = None
    role: str | None = None
    peer_kind: PeerKind | None = None
    peer: str | None = None
    thread: str | None = None
    sender: str | None = None

    def __post_init__(self) -> None:
        for name in _IDS:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, normalise_id(value))

    @property
    def given(self) -> dict[str, str]:
        """The fields this binding names, most significant first."""
        return {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}

    @property
    def specificity(self) -> tuple[bool, ...]:
        return tuple(getattr(self, name) is not None for name in FIELDS)

    def matches(self, message: Inbound) -> bool:
        return all(_matches(message, name, value) for name, value in self.given.items())


@dataclass(frozen=True, slots=True)
class Route:
    agent: str
    #: The fields of the binding that decided, such as `peer+account`, or `default`.
    matched_by: str
    binding: Binding | None


@dataclass(frozen=True, slots=True)
class Router:
    bindings: tuple[Binding, ...]
    default_agent: str | None = None

    def route(self, message: Inbound) -> Route | None:
        """The most specific binding that matches; ties go to the first; else the default agent, else None."""
        best: Binding | None = None
        for binding in self.bindings:
            if (best is None or binding.specificity > best.specificity) and binding.matches(message):
                best = binding
        if best is not None:
            return Route(best.agent, "+".join(best.given) or "any", best)
        if self.default_agent is not None:
            return Route(self.default_agent, "default", None)
        return None


def unreachable(bindings: Sequence[Binding]) -> Iterator[tuple[int, str]]:
    """The bindings that can never decide, by position, each with the reason."""
    given = [tuple(binding.given.items()) for binding in bindings]
    for position, binding in enumerate(bindings):
        in_guild = binding.guild is not None or binding.role is not None
        never_dm = in_guild or binding.thread is not None
        kinds = [kind for kind in PeerKind if not (never_dm and kind is PeerKind.DM)]
        earlier = given.index(given[position])
        if earlier != position:
            yield position, f"binding {earlier + 1} matches the same messages and comes first"
        elif binding.peer_kind is PeerKind.DM and never_dm:
            yield position, "a direct message has no guild, role or thread"
        elif binding.channel in {"telegram", "web"} and in_guild:
            yield position, f"{binding.channel} has no guilds and roles"
        elif binding.peer_kind is None and all((*given[position], ("peer_kind", kind)) in given for kind in kinds):
            yield position, "every kind of peer has a binding of its own that is more specific"


def _matches(message: Inbound, name: str, value: str) -> bool:
    address = message.address
    match name:
        case "channel":
            return address.channel == value
        case "account":
            return address.account == value
        case "peer_kind":
            return message.peer_kind == value
        case "peer":
            return normalise_id(address.chat) == value or value in message.former_chats
        case "thread":
            return address.thread is not None and normalise_id(address.thread) == value
        case "sender":
            return message.sender.id == value
        case "guild":
            return message.guild is not None and normalise_id(message.guild) == value
        case _:
            return value in {normalise_id(role) for role in message.roles}
