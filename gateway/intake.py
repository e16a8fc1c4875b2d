"""Intake: the one way in. A message is in the store before anybody is told that we have it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from gateway import commands, phrases
from gateway.admission import Judgement, Rules, judge, key_for
from gateway.clock import Clock
from gateway.commands import Stopped
from gateway.delivery import Delivery
from gateway.feed import Feed
from gateway.health import DiskGuard
from gateway.lanes import Lanes
from gateway.logs import Event, log
from gateway.persist import Persist
from gateway.turn import Turns
from routing.access import Reason, Refused
from routing.errors import DiskLow, LaneFull, Stopping, StoreClosed, StoreUnavailable
from routing.messages import Address, Inbound
from store import inbox, outbox, people, refusals, sessions
from store.database import Database
from store.ids import Micros
from store.inbox import Accepted, Arrival
from store.outbox import Draft
from store.records import InboxItem, InboxState, OutboxKind, OutboxState

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0

#: The channel of messages that come through the HTTP API to one session.
API = ("api", "http")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of a message."""

    #: Waits for its turn; None if it was refused, or a command.
    item: InboxItem | None = None
    duplicate: bool = False
    refused: Reason | None = None
    #: Set by a command that stopped a turn.
    stopped: Stopped | None = None
    #: A place to which something was put into the outbox.
    place: str | None = None


@dataclass(slots=True, kw_only=True)
class Intake:
    persist: Persist
    rules: Rules
    lanes: Lanes
    turns: Turns
    delivery: Delivery
    feed: Feed
    disk: DiskGuard
    clock: Clock
    closed: bool = False

    async def accept(self, message: Inbound) -> None:
        """For channels: returns when the message is safe. Trouble means waiting, which is back-pressure."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self.take(message)
            except (StoreUnavailable, StoreClosed, DiskLow, Stopping):
                await self.clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception as exc:  # a message that can never be taken must not stop those behind it
                log(Event.MESSAGE_FAILED, logging.ERROR, exc=exc, channel=message.address.channel)
                return
            else:
                return

    async def take(self, message: Inbound) -> Taken:
        """Decide about a message and store it, in one transaction."""
        self.check()
        try:
            taken = await self.persist.once(lambda db: admit(db, message, self.rules, self.clock.now()))
        except LaneFull as full:
            taken = await self._overflow(message, full)
        self._follow_up(message.address, taken)
        return taken

    async def prompt(self, session_id: str, text: str, external_id: str) -> Accepted:
        """For the API: a message to one session. Raises when it cannot be taken."""
        self.check()
        accepted = await self.persist.once(
            lambda db: admit_prompt(db, session_id, text, external_id, self.rules, self.clock.now())
        )
        if not accepted.duplicate:
            self.lanes.submit(accepted.item)
            log(Event.MESSAGE_ACCEPTED, logging.DEBUG, key=accepted.item.key, message=accepted.item.message_id)
        return accepted

    def end_run(self, stopped: Stopped) -> None:
        """After the database has ended a turn: end its run, and close what was shown of it."""
        self.turns.stop(stopped.turn.id)
        self.feed.changed(stopped.turn.session)
        self.delivery.kick(stopped.place)

    def check(self) -> None:
        """Raise if nothing new is taken now."""
        if self.closed:
            raise Stopping
        if self.disk.low():
            raise DiskLow

    async def _overflow(self, message: Inbound, full: LaneFull) -> Taken:
        """Too many wait: say so, where it was written."""
        text = phrases.LANE_FULL.format(limit=full.facts["limit"])
        log(Event.LANE_OVERFLOW, logging.WARNING, channel=message.address.channel, sender=message.sender.id)

        def refuse(db: Database) -> Taken:
            there = judge(db, message, self.rules).message
            return turn_away(db, there, Reason.LANE_FULL, self.clock.now(), say=text)

        return await self.persist.once(refuse)

    def _follow_up(self, address: Address, taken: Taken) -> None:
        """What has to happen in memory, after the commit."""
        if taken.refused is not None:
            log(
                Event.ACCESS_REFUSED,
                channel=address.channel,
                account=address.account,
                chat=address.chat,
                reason=taken.refused,
            )
        elif taken.duplicate:
            log(Event.MESSAGE_DUPLICATE, logging.DEBUG, channel=address.channel)
        elif taken.item is not None:
            self.lanes.submit(taken.item)
            log(Event.MESSAGE_ACCEPTED, logging.DEBUG, key=taken.item.key, message=taken.item.message_id)
        if taken.stopped is not None:
            self.end_run(taken.stopped)
        if taken.place is not None:
            self.delivery.kick(taken.place)


def admit(db: Database, message: Inbound, rules: Rules, now: Micros) -> Taken:
    """One transaction: deduplicate, decide, and store the message with its key and its frozen address."""
    known = inbox.find(db, message.address.channel, message.external_id)
    if known is not None:
        return Taken(item=known, duplicate=True)
    judged = judge(db, message, rules)
    message = judged.message
    if isinstance(judged.decision, Refused):
        return turn_away(db, message, judged.decision.reason, now)
    arrival, limit = _arrival(db, judged, rules, now)
    command = commands.parse(message.text)
    if command is None:
        return Taken(item=inbox.accept(db, arrival, now, max_waiting=limit).item)
    inbox.insert(db, arrival, InboxState.DONE, now)
    outcome = commands.execute(db, command, arrival.key, rules.agents[arrival.key.agent_id], now)
    _say(db, message.address, outcome.text, now)
    return Taken(stopped=outcome.stopped, place=message.address.place)


def admit_prompt(db: Database, session_id: str, text: str, external_id: str, rules: Rules, now: Micros) -> Accepted:
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
    return inbox.accept(db, arrival, now, max_waiting=None if agent is None else agent.max_waiting)


def turn_away(db: Database, message: Inbound, reason: Reason, now: Micros, *, say: str | None = None) -> Taken:
    """Not answered: the reason is kept, and said where silence would mislead."""
    refusals.record(db, message, reason, now)
    if say is None:
        return Taken(refused=reason)
    _say(db, message.address, say, now)
    return Taken(refused=reason, place=message.address.place)


def _arrival(db: Database, judged: Judgement, rules: Rules, now: Micros) -> tuple[Arrival, int]:
    message = judged.message
    sender = message.sender
    person = people.meet(db, message.address.channel, sender.id, sender.name, now)
    key = key_for(judged, person.person, rules)
    arrival = Arrival(
        external_id=message.external_id,
        key=key,
        address=message.address,
        text=message.text,
        person=person.id,
        sender_name=sender.name,
    )
    return arrival, rules.agents[key.agent_id].max_waiting


def _say(db: Database, address: Address, text: str, now: Micros) -> None:
    outbox.put(db, Draft(address=address, text=text, kind=OutboxKind.NOTICE), OutboxState.READY, now)
