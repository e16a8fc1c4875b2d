"""From a message and its agent to the session key: where direct messages collapse and groups stay apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from routing.keys import ANY, MAIN, PeerKind, SessionKey, peer_id
from routing.messages import Inbound


class DmScope(StrEnum):
    #: One session per person and agent, over all channels.
    PERSON = "person"
    #: One session per person, agent and account.
    ACCOUNT = "account"
    #: Everybody's direct messages in one session: the literal rule, only by name.
    MAIN = "main"


class GroupScope(StrEnum):
    GROUP = "group"
    MEMBER = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scopes:
    dm: DmScope = DmScope.PERSON
    group: GroupScope = GroupScope.GROUP


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever stands behind one or several platform identities."""

    id: str
    owner: bool = False

    @property
    def peer(self) -> str:
        """The peer of direct messages. Nobody but the owner is `main`: a person called so is `@main`."""
        if self.owner:
            return MAIN
        peer = peer_id(self.id)
        return f"@{peer}" if peer == MAIN else peer


def session_key(agent: str, message: Inbound, person: Person, scopes: Scopes) -> SessionKey:
    """The key of a message for the agent that the router chose."""
    address = message.address
    if message.peer_kind is PeerKind.DM:
        return dm_key(agent, address.channel, address.account, person, scopes.dm)
    member = person.id if scopes.group is GroupScope.MEMBER else None
    peer = peer_id(address.chat, address.thread, member)
    return SessionKey(agent, address.channel, address.account, message.peer_kind, peer)


def dm_key(agent: str, channel: str, account: str, person: Person, scope: DmScope) -> SessionKey:
    match scope:
        case DmScope.MAIN:
            return SessionKey(agent, ANY, ANY, PeerKind.DM, MAIN)
        case DmScope.ACCOUNT:
            return SessionKey(agent, channel, account, PeerKind.DM, person.peer)
        case DmScope.PERSON:
            return SessionKey(agent, ANY, ANY, PeerKind.DM, person.peer)
