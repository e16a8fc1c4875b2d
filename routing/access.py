"""Who may speak to an agent: a pure decision over numeric ids. What no rule allows is refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from routing.keys import PeerKind, normalise_id
from routing.messages import Addressed


class DmPolicy(StrEnum):
    PAIRING = "pairing"
    ALLOWLIST = "allowlist"
    OPEN = "open"
    OFF = "off"


class Reason(StrEnum):
    """Why a message was not answered; the codes are shown to operators and by `explain`."""

    BOT = "bot"
    BOT_LIMIT = "bot_limit"
    FLOOD = "flood"
    DM_OFF = "dm_off"
    NOT_ON_ALLOWLIST = "not_on_allowlist"
    PAIRING_REQUIRED = "pairing_required"
    GROUP_NOT_LISTED = "group_not_listed"
    NOT_ADDRESSED = "not_addressed"
    STRANGER = "stranger"
    NO_AGENT = "no_agent"
    EMPTY = "empty"
    LANE_FULL = "lane_full"
    BUDGET = "budget"

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Reason.BOT: "the sender is a bot",
    Reason.BOT_LIMIT: "two bots were about to talk to each other without end",
    Reason.FLOOD: "too many messages came in a short time",
    Reason.DM_OFF: "direct messages are switched off for this account",
    Reason.NOT_ON_ALLOWLIST: "the sender's id is not in `allow`",
    Reason.PAIRING_REQUIRED: "the sender is unknown and has to be approved first",
    Reason.GROUP_NOT_LISTED: "the group is not in `groups`",
    Reason.NOT_ADDRESSED: "the message neither mentions the bot, nor replies to it, nor is a command",
    Reason.STRANGER: "this agent can change things, so it answers known people only",
    Reason.NO_AGENT: "no binding matches and there is no default agent",
    Reason.EMPTY: "the message has no text",
    Reason.LANE_FULL: "too many messages are already waiting in this conversation",
    Reason.BUDGET: "the budget for it is spent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one account. Ids may be written in any spelling."""

    dm: DmPolicy = DmPolicy.PAIRING
    allow: frozenset[str] = frozenset()
    #: Chats (or Discord guilds) in which the bot answers at all.
    groups: frozenset[str] = frozenset()
    #: In a group, answer only when addressed.
    mention: bool = True
    #: Groups in which everything is answered, whatever `mention` says.
    always: frozenset[str] = frozenset()
    #: Bots that are answered at all.
    bots: frozenset[str] = frozenset()
    #: Messages of a group, not addressed to the bot, that its next answer there is told about.
    overhear: int = 0
    #: Messages per minute that one sender may send; 0 for any number.
    flood: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "allow", frozenset(map(normalise_id, self.allow)))
        object.__setattr__(self, "groups", frozenset(map(normalise_id, self.groups)))
        object.__setattr__(self, "always", frozenset(map(normalise_id, self.always)))
        object.__setattr__(self, "bots", frozenset(map(normalise_id, self.bots)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about a message when access is decided. Ids are normalised."""

    peer_kind: PeerKind
    chat: str
    sender: str
    #: Ids that the chat had before it moved: what was allowed there still is.
    former_chats: frozenset[str] = frozenset()
    guild: str | None = None
    is_bot: bool = False
    addressed: Addressed = Addressed.NOT
    #: The sender is a configured or an approved person.
    known: bool = False
    owner: bool = False
    #: The agent can change the world (files, commands), so strangers are kept out.
    side_effects: bool = False


@dataclass(frozen=True, slots=True)
class Allowed:
    #: The rule that let the message in, for `explain`.
    rule: str


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Reason


Decision = Allowed | Refused


def decide(policy: Policy, facts: Facts) -> Decision:
    if facts.is_bot and facts.sender not in policy.bots:
        return Refused(Reason.BOT)
    decision = _direct(policy, facts) if facts.peer_kind is PeerKind.DM else _group(policy, facts)
    if isinstance(decision, Allowed) and facts.side_effects and not _is_known(policy, facts):
        return Refused(Reason.STRANGER)
    return decision


def _direct(policy: Policy, facts: Facts) -> Decision:
    if policy.dm is DmPolicy.OFF:
        return Refused(Reason.DM_OFF)
    if policy.dm is DmPolicy.OPEN:
        return Allowed("dm=open")
    if facts.owner:
        return Allowed("owner")
    if facts.sender in policy.allow:
        return Allowed("allow")
    if policy.dm is DmPolicy.ALLOWLIST:
        return Refused(Reason.NOT_ON_ALLOWLIST)
    return Allowed("known person") if facts.known else Refused(Reason.PAIRING_REQUIRED)


def _group(policy: Policy, facts: Facts) -> Decision:
    places = {facts.chat, *facts.former_chats} | ({facts.guild} if facts.guild is not None else set())
    if not places & (policy.groups | policy.always):
        # So that the owner can ask an unlisted group for its id.
        command = facts.owner and facts.addressed is Addressed.COMMAND
        return Allowed("owner's command") if command else Refused(Reason.GROUP_NOT_LISTED)
    if not policy.mention:
        return Allowed("groups")
    if places & policy.always:
        return Allowed("always")
    if facts.addressed is Addressed.NOT:
        return Refused(Reason.NOT_ADDRESSED)
    return Allowed(f"groups, {facts.addressed}")


def _is_known(policy: Policy, facts: Facts) -> bool:
    return facts.owner or facts.known or facts.sender in policy.allow
