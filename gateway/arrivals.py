"""Arrivals: what each thing that a channel hands over does to the store. One function, one transaction."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from gateway import commands, phrases, stopping
from gateway.admission import Judgement, Rules, judge, key_for, known_to
from gateway.commands import Asked, Command, Outcome
from gateway.questions.deciding import Settled
from gateway.quoting import quote
from gateway.remembering import Planned
from gateway.stopping import Stopped
from routing.access import Reason, Refused
from routing.errors import SessionEnded, UnknownAgent, UnknownCommand, UnknownPairing
from routing.keys import PeerKind, SessionKey
from routing.messages import Address, Deleted, Edited, Inbound, Moved, Sender
from store import about, accounts, inbox, outbox, overheard, pairings, people, places, refusals, sessions
from store.database import Database
from store.ids import Micros, new_id
from store.inbox import Accepted, Arrival
from store.outbox import Draft
from store.overheard import Line
from store.records import InboxItem, InboxState, OutboxKind, OutboxState

#: The channel of messages that come through the HTTP API to one session.
API = ("api", "http")

#: How long a message that promises more waits for it, in microseconds.
OPEN = 1_000_000

#: Letters and digits that nobody takes for each other.
_CODE = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_CODE_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of a message."""

    #: Waits for its turn; None if it was refused, or a command.
    item: InboxItem | None = None
    duplicate: bool = False
    refused: Reason | None = None
    #: A turn that a command stopped, or the message itself where it interrupts.
    stopped: Stopped | None = None
    #: A summary that a command asked for.
    planned: Planned | None = None
    #: A question that a command answered.
    settled: Settled | None = None
    #: Places to which something was put into the outbox.
    places: tuple[str, ...] = ()


def new_code() -> str:
    return "".join(secrets.choice(_CODE) for _ in range(_CODE_LENGTH))


def admit(db: Database, message: Inbound, rules: Rules, now: Micros, *, code: str) -> Taken:
    """Deduplicate, decide, and store the message with its key and its frozen address."""
    known = inbox.find(db, message.address.channel, message.external_id)
    if known is not None:
        return Taken(item=known, duplicate=True)
    judged = judge(db, message, rules)
    message = judged.message
    _saw(db, message)
    opened = (message.address.place,) if outbox.unblock(db, message.address.place, now) else ()
    if isinstance(judged.decision, Refused):
        refused = _refuse(db, judged, judged.decision.reason, rules, now, code)
        return replace(refused, places=(*refused.places, *opened))
    arrival, limit, person = _arrival(db, judged, rules, now)
    typed = commands.parse(message.text)
    if typed is None:
        item = inbox.accept(db, arrival, now, max_waiting=limit).item
        return Taken(item=item, stopped=_interrupt(db, item.key, rules, now), places=opened)
    inbox.insert(db, arrival, InboxState.DONE, now)
    asked = Asked(
        typed=typed,
        message=message,
        key=arrival.key,
        person=people.get(db, person),
        known=known_to(rules.policy(message.address), judged),
        matched_by=judged.route.matched_by if judged.route is not None else "",
    )
    if typed.command is Command.APPROVE:
        return _approve_in_chat(db, asked, rules, now)
    return _said(db, message.address, commands.execute(db, asked, rules, now), now)


def admit_prompt(
    db: Database, session_id: str, text: str, external_id: str, rules: Rules, now: Micros
) -> tuple[Accepted, Stopped | None]:
    """A message to one session, from its API: the session's key, and an answer that is read there."""
    session = sessions.get(db, session_id)
    channel, account = API
    arrival = Arrival(
        external_id=f"{session.public_id}/{external_id}",
        key=session.key,
        address=Address(channel=channel, account=account, chat=session.public_id),
        text=text,
        person=session.person,
        session=session.id,
    )
    agent = rules.agents.get(session.key.agent_id)
    accepted = inbox.accept(db, arrival, now, max_waiting=None if agent is None else agent.max_waiting)
    return accepted, None if accepted.duplicate else _interrupt(db, session.key, rules, now)


def _interrupt(db: Database, key: SessionKey, rules: Rules, now: Micros) -> Stopped | None:
    """In the transaction that accepts the message, so that never both of them are over, or run."""
    agent = rules.agents.get(key.agent_id)
    return stopping.interrupt(db, key, now) if agent is not None and agent.interrupts else None


def command(db: Database, session_id: str, text: str, rules: Rules, now: Micros) -> Outcome:
    """A command in one session, from its API: whoever has the token is the owner."""
    session = sessions.get(db, session_id)
    if not session.status.live:
        raise SessionEnded(session=session_id, status=session.status)
    if session.key.agent_id not in rules.agents:
        raise UnknownAgent(agent=session.key.agent_id, known=", ".join(rules.agents))
    typed = commands.parse(text)
    owner = people.owner(db)
    if typed is None or owner is None:
        raise UnknownCommand(text=text[:40])
    channel, account = API
    message = Inbound(
        external_id=new_id(),
        address=Address(channel=channel, account=account, chat=session.public_id),
        peer_kind=PeerKind.DM,
        sender=Sender(id="owner", name=owner.name),
        text=text,
    )
    asked = Asked(typed=typed, message=message, key=session.key, person=owner, known=True, matched_by="session")
    return commands.execute(db, asked, rules, now)


def approve(db: Database, code: str, rules: Rules, now: Micros) -> tuple[pairings.Pairing, Taken]:
    """Whoever got this code is known from now on, and what they wrote first is answered."""
    pairing = pairings.take(db, code, now)
    person = people.meet(db, pairing.channel, pairing.sender, pairing.name, now)
    people.make_known(db, person.id, known=True)
    return pairing, admit(db, pairing.message, rules, now, code=code)


def edit(db: Database, edited: Edited, rules: Rules, now: Micros) -> bool:
    """A quick correction counts; once its turn has begun a message stays as it was. Commands never run by an edit."""
    judged = judge(db, edited.message, rules)
    if not judged.allowed or not edited.message.text.strip() or commands.parse(edited.message.text) is not None:
        return False
    person = people.meet(db, judged.message.address.channel, judged.message.sender.id, judged.message.sender.name, now)
    key = key_for(judged, person.person, rules)
    return inbox.change(db, key, judged.message.address, judged.message.text)


def cancel(db: Database, deleted: Deleted) -> bool:
    return inbox.cancel(db, deleted.channel, deleted.external_id) is not None


def move(db: Database, moved: Moved, now: Micros) -> None:
    """A chat has a new id: its conversations and what waits in them follow; rules for the old id go on to hold."""
    old = places.current(db, moved.channel, moved.account, moved.old)
    places.set_alias(db, moved.channel, moved.account, moved.old, moved.new, now)
    new = places.current(db, moved.channel, moved.account, moved.new)
    sessions.move_chat(db, moved.channel, moved.account, old, new, now)
    inbox.move_chat(db, moved.channel, moved.account, old, new)
    overheard.move_chat(db, moved.channel, moved.account, old, new)
    accounts.move_chat(db, moved.channel, moved.account, old, new)


def turn_away(db: Database, message: Inbound, reason: Reason, now: Micros, *, say: str | None = None) -> Taken:
    """Not answered: the reason is kept, and said where silence would mislead."""
    refusals.record(db, message, reason, now)
    _saw(db, message)
    if say is None:
        return Taken(refused=reason)
    put_notice(db, message.address, say, now)
    return Taken(refused=reason, places=(message.address.place,))


def put_notice(db: Database, address: Address, text: str, now: Micros, filename: str | None = None) -> None:
    draft = Draft(address=address, text=text, kind=OutboxKind.NOTICE, filename=filename)
    outbox.put(db, draft, OutboxState.READY, now)


def _saw(db: Database, message: Inbound) -> None:
    """Also of what is not answered: or else it is read again after every gap."""
    if message.seen is not None:
        accounts.saw(db, message.address.channel, message.address.account, *message.seen)


def _refuse(db: Database, judged: Judgement, reason: Reason, rules: Rules, now: Micros, code: str) -> Taken:
    message = judged.message
    if reason is Reason.PAIRING_REQUIRED:
        asked = pairings.ask(db, message, code, now)
        user = f"{message.address.channel}:{message.sender.id}"
        say = None if asked is None else phrases.PAIRING.format(code=asked.code, user=user)
        return turn_away(db, message, reason, now, say=say)
    keep = rules.policy(message.address).overhear
    if reason is Reason.NOT_ADDRESSED and keep and message.text.strip() and judged.route is not None:
        _overhear(db, judged, rules, keep, now)
    return turn_away(db, message, reason, now)


def _overhear(db: Database, judged: Judgement, rules: Rules, keep: int, now: Micros) -> None:
    message = judged.message
    person = people.meet(db, message.address.channel, message.sender.id, message.sender.name, now)
    sender = f"{message.address.channel}:{message.sender.id}"
    key = key_for(judged, person.person, rules)
    overheard.note(db, key, Line(sender, message.sender.name, message.text), keep, now)


def _arrival(db: Database, judged: Judgement, rules: Rules, now: Micros) -> tuple[Arrival, int, int]:
    message = judged.message
    sender = message.sender
    person = people.meet(db, message.address.channel, sender.id, sender.name, now)
    key: SessionKey = key_for(judged, person.person, rules)
    arrival = Arrival(
        external_id=message.external_id,
        key=key,
        address=message.address,
        text=message.text,
        person=person.id,
        sender_name=sender.name,
        about=about.of(message, group=message.peer_kind is not PeerKind.DM),
        open_until=now + OPEN if message.open else 0,
    )
    return arrival, rules.agents[key.agent_id].max_waiting, person.id


def _said(db: Database, address: Address, outcome: Outcome, now: Micros) -> Taken:
    """What a command answers, and what it set in motion."""
    put_notice(db, address, outcome.text, now)
    if outcome.file is not None:
        put_notice(db, address, outcome.file.content, now, outcome.file.name)
    return Taken(
        item=outcome.again,
        stopped=outcome.stopped,
        planned=outcome.planned,
        settled=outcome.settled,
        places=(address.place,),
    )


def _approve_in_chat(db: Database, asked: Asked, rules: Rules, now: Micros) -> Taken:
    address = asked.message.address
    if not asked.person.owner:
        return _said(db, address, Outcome(text=phrases.OWNER_ONLY), now)
    try:
        pairing, taken = approve(db, asked.typed.argument, rules, now)
    except UnknownPairing as problem:
        return _said(db, address, Outcome(text=str(problem)), now)
    name, user = quote(pairing.name), f"{pairing.channel}:{pairing.sender}"
    put_notice(db, address, phrases.APPROVED.format(name=name, user=user), now)
    return replace(taken, places=(*taken.places, address.place))
