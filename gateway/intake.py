"""Intake: the one way in. A message is in the store before anybody is told that we have it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from gateway import arrivals, phrases, remembering
from gateway.admission import Rules, judge
from gateway.arrivals import Taken
from gateway.clock import Clock
from gateway.compactor import Compactor, Tell
from gateway.delivery import Delivery
from gateway.feed import Feed
from gateway.floods import Floods
from gateway.health import DiskGuard
from gateway.lanes import Lanes
from gateway.logs import Event, log
from gateway.persist import Persist
from gateway.questions.desk import Desk
from gateway.remembering import Planned
from gateway.stopping import Stopped
from gateway.turn import Turns
from routing.access import Reason
from routing.errors import DiskLow, LaneFull, Stopping, StoreClosed, StoreUnavailable
from routing.messages import Address, Deleted, Edited, Inbound, Incoming, Moved
from store import inbox
from store.database import Database
from store.inbox import Accepted
from store.pairings import Pairing
from store.records import Compaction

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


@dataclass(slots=True, kw_only=True)
class Intake:
    persist: Persist
    rules: Rules
    lanes: Lanes
    turns: Turns
    compactor: Compactor
    delivery: Delivery
    feed: Feed
    disk: DiskGuard
    floods: Floods
    desk: Desk
    clock: Clock
    closed: bool = False

    async def accept(self, what: Incoming) -> None:
        """For channels: returns when it is safe. Trouble means waiting, which is back-pressure."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._take(what)
            except (StoreUnavailable, StoreClosed, DiskLow, Stopping):
                await self.clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception as exc:  # a message that can never be taken must not stop those behind it
                log(Event.MESSAGE_FAILED, logging.ERROR, exc=exc, kind=type(what).__name__)
                return
            else:
                return

    async def _take(self, what: Incoming) -> None:
        match what:
            case Inbound():
                await self.take(what)
            case Edited():
                self.check()
                if await self.persist.once(lambda db: arrivals.edit(db, what, self.rules, self.clock.now())):
                    log(Event.MESSAGE_EDITED, logging.DEBUG, channel=what.message.address.channel)
            case Deleted():
                if await self.persist.once(lambda db: arrivals.cancel(db, what)):
                    log(Event.MESSAGE_CANCELLED, channel=what.channel)
            case Moved():
                await self.persist.once(lambda db: arrivals.move(db, what, self.clock.now()))
                log(Event.CHAT_MOVED, channel=what.channel, account=what.account, old=what.old, new=what.new)

    async def take(self, message: Inbound) -> Taken:
        """Decide about a message and store it, in one transaction."""
        self.check()
        self.delivery.spoke(message.address)
        flood = self.floods.check(message, self.rules.policy(message.address))
        try:
            if flood is not None:
                taken = await self._turn_away(message, flood.reason, flood.say)
            else:
                code = arrivals.new_code()
                taken = await self.persist.once(
                    lambda db: arrivals.admit(db, message, self.rules, self.clock.now(), code=code)
                )
        except LaneFull as full:
            log(Event.LANE_OVERFLOW, logging.WARNING, channel=message.address.channel, sender=message.sender.id)
            text = phrases.LANE_FULL.format(limit=full.facts["limit"])
            taken = await self._turn_away(message, Reason.LANE_FULL, text)
        if taken.duplicate and flood is None:
            self.floods.forgive(message)
        self._follow_up(message, taken)
        return taken

    async def approve(self, code: str) -> Pairing:
        """Let the person in who got this code; what they wrote first is answered."""
        pairing, taken = await self.persist.once(lambda db: arrivals.approve(db, code, self.rules, self.clock.now()))
        log(Event.PERSON_APPROVED, channel=pairing.channel, account=pairing.account, sender=pairing.sender)
        self._follow_up(pairing.message, taken)
        return pairing

    async def prompt(self, session_id: str, text: str, external_id: str) -> Accepted:
        """For the API: a message to one session. Raises when it cannot be taken."""
        self.check()
        accepted, stopped = await self.persist.once(
            lambda db: arrivals.admit_prompt(db, session_id, text, external_id, self.rules, self.clock.now())
        )
        if not accepted.duplicate:
            self.lanes.submit(accepted.item)
            log(Event.MESSAGE_ACCEPTED, logging.DEBUG, key=accepted.item.key, message=accepted.item.message_id)
        if stopped is not None:
            self.end_run(stopped)
        return accepted

    async def summarise(self, planned: Planned) -> str:
        """For the API: make a summary; the receipt, or that it takes longer."""
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def tell(done: Compaction | None) -> None:
            if not told.done():
                told.set_result(remembering.receipt(done))

        self.compactor.begin(planned.plan, planned.agent, planned.focus, tell)
        try:
            async with self.clock.timeout(self.rules.agents[planned.agent].compaction.deadline):
                return await told
        except TimeoutError:
            return phrases.COMPACTING

    def end_run(self, stopped: Stopped) -> None:
        """After the database has ended a turn: end its run, and close what was shown of it."""
        self.turns.stop(stopped.turn.id)
        self.feed.changed(stopped.turn.session)
        for place in stopped.places:
            self.delivery.kick(place)

    def check(self) -> None:
        """Raise if nothing new is taken now."""
        if self.closed:
            raise Stopping
        if self.disk.low():
            raise DiskLow

    async def _turn_away(self, message: Inbound, reason: Reason, say: str | None) -> Taken:
        """Too many, too fast: said where it was written, if at all."""

        def refuse(db: Database) -> Taken:
            known = inbox.find(db, message.address.channel, message.external_id)
            if known is not None:
                return Taken(item=known, duplicate=True)
            there = judge(db, message, self.rules)
            return arrivals.turn_away(db, there.message, reason, self.clock.now(), say=say if there.allowed else None)

        return await self.persist.once(refuse)

    def _follow_up(self, message: Inbound, taken: Taken) -> None:
        """What has to happen in memory, after the commit."""
        address = message.address
        if taken.refused is not None:
            log(
                Event.ACCESS_REFUSED,
                channel=address.channel,
                account=address.account,
                chat=address.chat,
                sender=message.sender.id,
                reason=taken.refused,
            )
        elif taken.duplicate:
            log(Event.MESSAGE_DUPLICATE, logging.DEBUG, channel=address.channel)
        elif taken.item is not None:
            self.lanes.submit(taken.item)
            log(Event.MESSAGE_ACCEPTED, logging.DEBUG, key=taken.item.key, message=taken.item.message_id)
        if taken.stopped is not None:
            self.end_run(taken.stopped)
        if taken.settled is not None:
            self.desk.settle(taken.settled)
        if taken.planned is not None:
            planned = taken.planned
            self.compactor.begin(planned.plan, planned.agent, planned.focus, self._receipt_to(address))
        for place in taken.places:
            self.delivery.kick(place)

    def _receipt_to(self, address: Address) -> Tell:
        async def tell(done: Compaction | None) -> None:
            text = remembering.receipt(done)
            await self.persist.must(lambda db: arrivals.put_notice(db, address, text, self.clock.now()))
            self.delivery.kick(address.place)

        return tell
