"""Admission: who wrote, which agent answers, may it, in which session. One question, asked for real or by `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC

from gateway.budgets import Budgets
from gateway.config import Compaction
from routing.access import Allowed, Decision, Facts, Policy, Reason, Refused, decide
from routing.bindings import Route, Router
from routing.keys import SessionKey, normalise_id
from routing.messages import Address, Inbound
from routing.scopes import Person, Scopes, session_key
from store import accounts, people, places
from store.database import Database
from store.people import PersonRow


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRules:
    scopes: Scopes
    side_effects: bool
    max_waiting: int
    context_window: int
    compaction: Compaction
    #: The agent can write summaries.
    summarises: bool = False
    #: A new message ends the running turn.
    interrupts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The part of the configuration that decides about a message."""

    router: Router
    policies: Mapping[tuple[str, str], Policy]
    agents: Mapping[str, AgentRules]
    budgets: Budgets = field(default_factory=lambda: Budgets((), {}, UTC))

    def policy(self, address: Address) -> Policy:
        return self.policies.get((address.channel, address.account), Policy())


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What would happen to a message, and why."""

    #: The message with the chat's current id.
    message: Inbound
    person: PersonRow | None
    route: Route | None
    decision: Decision

    @property
    def allowed(self) -> bool:
        return isinstance(self.decision, Allowed)


def judge(db: Database, message: Inbound, rules: Rules) -> Judgement:
    """Decide about a message; nothing is written."""
    message = _in_its_current_chat(db, message)
    person = people.find(db, message.address.channel, message.sender.id)
    route = _route(db, message, rules)
    if not message.text.strip() and not message.attachments:
        decision: Decision = Refused(Reason.EMPTY)
    elif route is None or route.agent not in rules.agents:
        decision = Refused(Reason.NO_AGENT)
    else:
        decision = decide(rules.policy(message.address), _facts(message, person, rules.agents[route.agent]))
    return Judgement(message=message, person=person, route=route, decision=decision)


def known_to(policy: Policy, judged: Judgement) -> bool:
    """Whether the sender is more than somebody who may speak here."""
    person = judged.person
    listed = judged.message.sender.id in policy.allow
    return listed or (person is not None and (person.owner or person.known))


def key_for(judged: Judgement, person: Person, rules: Rules) -> SessionKey:
    if judged.route is None:
        raise ValueError("a message without an agent has no session key")
    agent = judged.route.agent
    return session_key(agent, judged.message, person, rules.agents[agent].scopes)


def _route(db: Database, message: Inbound, rules: Rules) -> Route | None:
    """What the owner chose for this chat goes before the bindings."""
    chosen = accounts.chosen(db, message.address)
    if chosen is not None and chosen in rules.agents:
        return Route(chosen, "chosen with /agent", None)
    return rules.router.route(message)


def _in_its_current_chat(db: Database, message: Inbound) -> Inbound:
    address = message.address
    chat = places.current(db, address.channel, address.account, address.chat)
    former = places.former(db, address.channel, address.account, chat)
    if chat == address.chat and not former:
        return message
    return replace(message, address=replace(address, chat=chat), former_chats=former)


def _facts(message: Inbound, person: PersonRow | None, agent: AgentRules) -> Facts:
    return Facts(
        peer_kind=message.peer_kind,
        chat=normalise_id(message.address.chat),
        sender=message.sender.id,
        former_chats=message.former_chats,
        guild=None if message.guild is None else normalise_id(message.guild),
        is_bot=message.sender.is_bot,
        addressed=message.addressed,
        known=person is not None and person.known,
        owner=person is not None and person.owner,
        side_effects=agent.side_effects,
    )
