"""Delivery: outbox rows go out in order per place, each recorded before and after the call."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Coroutine, Mapping

from channels.base import Channel, Edits, Finds, Outgoing
from gateway import phrases
from gateway.clock import Clock
from gateway.logs import Event, log
from gateway.persist import Persist
from routing.errors import DeliveryFailed
from routing.messages import Address
from store import outbox
from store.records import Delivery as Row
from store.records import OutboxState

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 300.0

Channels = Mapping[tuple[str, str], Channel]


class Delivery:
    """One task per place that has something to send; places never wait for each other."""

    def __init__(self, persist: Persist, channels: Channels, clock: Clock, tasks: asyncio.TaskGroup) -> None:
        self._persist = persist
        self._channels = channels
        self._clock = clock
        self._tasks = tasks
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._resting: set[str] = set()
        self._previews: set[asyncio.Task[None]] = set()
        self._draining = False
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def kick(self, place: str) -> None:
        """There may be something to deliver at this place."""
        if place in self._lanes:
            self._again.add(place)
        elif not self._draining:
            self._lanes[place] = self._tasks.create_task(self._serve(place), name="delivery")

    def channel(self, address: Address) -> Channel | None:
        return self._channels.get((address.channel, address.account))

    def released(self, address: Address) -> OutboxState:
        """The state of a message that may go out: where people read the history it has arrived already."""
        channel = self.channel(address)
        return OutboxState.SENT if channel is not None and channel.reads_history else OutboxState.READY

    def preview(self, work: Coroutine[None, None, None]) -> None:
        """Run a preview's call beside its turn, which neither waits for it nor cuts it."""
        task = self._tasks.create_task(work, name="preview")
        self._previews.add(task)
        task.add_done_callback(self._previews.discard)

    def lock(self, place: str) -> asyncio.Lock:
        """Held around every call that puts a message into a place, so that their order is the order shown."""
        return self._locks.setdefault(place, asyncio.Lock())

    def idle(self, address: Address) -> bool:
        return address.place not in self._lanes

    async def drain(self) -> None:
        """Send what can be sent now; rows that wait for their next try stay for the next start."""
        self._draining = True
        for place in self._resting:
            self._lanes[place].cancel()
        while under_way := {*self._lanes.values(), *self._previews}:
            await asyncio.wait(under_way)

    def cut(self) -> None:
        """End what is still under way; its outcome is unknown and settled at the next start."""
        for task in (*self._lanes.values(), *self._previews):
            task.cancel()

    async def _serve(self, place: str) -> None:
        try:
            while True:
                self._again.discard(place)
                pause = await self._next(place)
                if pause is None:
                    if place not in self._again:
                        return
                elif pause > 0:
                    if self._draining:
                        return
                    await self._rest(place, pause)
        finally:
            self._again.discard(place)
            del self._lanes[place]

    async def _rest(self, place: str, seconds: float) -> None:
        self._resting.add(place)
        try:
            await self._clock.sleep(seconds)
        finally:
            self._resting.discard(place)

    async def _next(self, place: str) -> float | None:
        """Deliver the oldest row of a place. Returns how long to wait, or None if there is no row."""
        # The row is read under the lock: a preview under way decides whether it is an edit, and whether it is certain.
        async with self.lock(place):
            row = await self._persist.must(lambda db: outbox.claim(db, place, self._clock.now()))
            if row is None:
                return None
            pause = (row.next_at - self._clock.now()) / 1_000_000
            if pause > 0:
                return pause
            await self._deliver(row)
        return 0

    async def _deliver(self, row: Row) -> None:
        channel = self.channel(row.address)
        if channel is None:
            name = f"{row.address.channel}.{row.address.account}"
            await self._park(row, f"there is no channel account [{name}] in the configuration any more")
            return
        try:
            sent_id = await _call(channel, row)
        except DeliveryFailed as failure:
            await self._failed(row, failure)
        except Exception as exc:  # a channel must not raise anything else; what the platform has is unknown
            log(Event.CHANNEL_FAILED, logging.ERROR, exc=exc, channel=channel.name, account=channel.account)
            await self._failed(row, DeliveryFailed(repr(exc), retryable=True, ambiguous=True))
        else:
            await self._persist.must(lambda db: outbox.sent(db, row.id, sent_id, self._clock.now()))
            log(Event.DELIVERY_SENT, logging.DEBUG, delivery=row.id, turn=row.turn, attempts=row.attempts)

    async def _failed(self, row: Row, failure: DeliveryFailed) -> None:
        editing = row.sent_id is not None
        if not failure.retryable:
            if editing:
                await self._persist.must(lambda db: outbox.forget_preview(db, row.id, self._clock.now()))
            else:
                await self._park(row, failure.why)
        elif failure.ambiguous and not editing:
            await self._uncertain(row, failure)
        else:
            await self._retry(row, failure)

    async def _uncertain(self, row: Row, failure: DeliveryFailed) -> None:
        """Once more, marked; never a third time unasked."""
        log(Event.DELIVERY_UNCERTAIN, logging.WARNING, delivery=row.id, turn=row.turn, why=failure.why)
        if row.uncertain and not isinstance(self.channel(row.address), Finds):
            await self._park(row, f"it is not certain that it arrived: {failure.why}")
        else:
            await self._retry(row, failure, uncertain=True)

    async def _retry(self, row: Row, failure: DeliveryFailed, *, uncertain: bool = False) -> None:
        pause = failure.retry_after
        if pause is None:
            pause = min(_FIRST_PAUSE * 2 ** min(row.attempts - 1, 20), _LONGEST_PAUSE)
        now = self._clock.now()
        next_at = now + int(pause * 1_000_000)
        await self._persist.must(lambda db: outbox.retry(db, row.id, next_at, failure.why, now, uncertain=uncertain))
        log(Event.DELIVERY_RETRY, logging.WARNING, delivery=row.id, turn=row.turn, why=failure.why, seconds=pause)

    async def _park(self, row: Row, why: str) -> None:
        await self._persist.must(lambda db: outbox.park(db, row.id, why, self._clock.now()))
        log(Event.DELIVERY_PARKED, logging.ERROR, delivery=row.id, turn=row.turn, why=why)


def outgoing(row: Row, text: str | None = None) -> Outgoing:
    return Outgoing(nonce=str(row.id), address=row.address, text=row.text if text is None else text)


async def _call(channel: Channel, row: Row) -> str:
    """Edit where a preview exists, which is safe to repeat; else send, marked if it may be a repeat."""
    item = outgoing(row)
    if row.sent_id is not None and isinstance(channel, Edits):
        await channel.edit(row.sent_id, item)
        return row.sent_id
    if not row.uncertain:
        return await channel.send(item)
    if isinstance(channel, Finds):
        return await channel.find(item) or await channel.send(item)
    return await channel.send(outgoing(row, f"{row.text}\n\n{phrases.MAYBE_REPEAT}"))
