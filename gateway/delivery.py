"""Delivery: outbox rows go out in order per place, each recorded before and after the call."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Coroutine, Mapping
from dataclasses import replace

from channels.base import Channel, Edits, Finds, Outgoing
from gateway import phrases
from gateway.clock import Clock
from gateway.logs import Event, log
from gateway.pacing import Pacing
from gateway.parts import asked, beginning, parts, with_words
from gateway.persist import Persist
from gateway.questions import wording
from routing.errors import DeliveryFailed
from routing.messages import Address
from store import outbox, questions
from store.database import Database
from store.ids import Micros
from store.records import Delivery as Row
from store.records import OutboxKind, OutboxState

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
#: So often a message goes out again that may have arrived, each time marked.
_DOUBTS = 5

#: Places of which it is remembered when somebody wrote.
_REMEMBERED = 10_000

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
        self.pacing = Pacing(clock)
        #: Until when, in monotonic time, a place is held: what nobody has to wait for is not even tried.
        self._held: dict[str, float] = {}
        #: When somebody last wrote, as far as it is remembered.
        self._spoken: dict[tuple[str, str | None], float] = {}
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

    def first_part(self, address: Address, text: str) -> str:
        """What a preview can show of an answer that grows."""
        return beginning(self.channel(address), text)

    def held(self, address: Address) -> bool:
        """The platform wants to hear nothing for this place now."""
        return self._held.get(address.place, 0.0) > self._clock.monotonic()

    async def hold(self, address: Address, seconds: float) -> None:
        """Remember that nothing may go to a place for a while, also over a restart."""
        until = self._clock.now() + int(seconds * 1_000_000)
        self.restore({address.place: until})
        await self._persist.must(lambda db: outbox.hold(db, address.place, until))

    def spoke(self, address: Address) -> None:
        """Somebody wrote there, to us or not."""
        self._spoken.pop(address.room, None)
        self._spoken[address.room] = self._clock.monotonic()
        if len(self._spoken) > _REMEMBERED:
            del self._spoken[next(iter(self._spoken))]

    def spoken_since(self, address: Address, moment: float) -> bool:
        return self._spoken.get(address.room, float("-inf")) > moment

    def restore(self, holds: Mapping[str, Micros]) -> None:
        """Holds that the store remembers."""
        now, wall = self._clock.monotonic(), self._clock.now()
        self._held = {place: until for place, until in self._held.items() if until > now}
        for place, until in holds.items():
            self._held[place] = max(self._held.get(place, 0.0), now + (until - wall) / 1_000_000)

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
            pause = self._pace(place)
            if pause > 0:
                return pause
            row = await self._persist.must(lambda db: outbox.claim(db, place, self._clock.now()))
            if row is None:
                return None
            pause = (row.next_at - self._clock.now()) / 1_000_000
            if pause > 0:
                return pause
            await self._deliver(row)
        return 0

    def _pace(self, place: str) -> float:
        address = _address(place)
        channel = self.channel(address)
        return 0.0 if channel is None else self.pacing.wait(channel, address)

    async def _deliver(self, row: Row) -> None:
        channel = self.channel(row.address)
        if channel is None:
            name = f"{row.address.channel}.{row.address.account}"
            await self._park(row, f"there is no channel account [{name}] in the configuration any more")
            return
        items = await self._messages(channel, row)
        number = row.part
        if number >= len(items) and row.sent_id is not None:
            # It was cut differently before a restart: there is nothing left to send.
            sent_id = row.sent_id
            await self._persist.must(lambda db: outbox.sent(db, row.id, sent_id, self._clock.now()))
            return
        self.pacing.took(channel, row.address)
        try:
            sent_id = await _call(channel, row, items[number])
        except DeliveryFailed as failure:
            await self._failed(row, failure)
        except Exception as exc:  # a channel must not raise anything else; what the platform has is unknown
            log(Event.CHANNEL_FAILED, logging.ERROR, exc=exc, channel=channel.name, account=channel.account)
            await self._failed(row, DeliveryFailed(repr(exc), retryable=True, ambiguous=True))
        else:
            last = number == len(items) - 1
            await self._persist.must(lambda db: _arrived(db, row, sent_id, self._clock.now(), last=last))
            log(Event.DELIVERY_SENT, logging.DEBUG, delivery=row.id, turn=row.turn, part=number, attempts=row.attempts)

    async def _messages(self, channel: Channel, row: Row) -> list[Outgoing]:
        question = row.question
        if question is None:
            return parts(channel, row)
        return asked(channel, row, await self._persist.read(lambda db: wording.buttons(questions.get(db, question))))

    async def _failed(self, row: Row, failure: DeliveryFailed) -> None:
        editing = row.editing
        if not failure.retryable:
            if editing and row.kind is OutboxKind.NOTICE:
                # Only a line in the place of a preview; where that is gone there is nothing to close.
                await self._persist.must(lambda db: outbox.drop(db, row.id, self._clock.now()))
            elif editing and not failure.blocked:
                await self._persist.must(lambda db: outbox.forget_preview(db, row.id, self._clock.now()))
            else:
                await self._park(row, failure.why, blocked=failure.blocked)
        elif failure.ambiguous and not editing:
            await self._uncertain(row, failure)
        else:
            await self._retry(row, failure)

    async def _uncertain(self, row: Row, failure: DeliveryFailed) -> None:
        """Once more, marked: better twice than never. Not for ever, though."""
        log(Event.DELIVERY_UNCERTAIN, logging.WARNING, delivery=row.id, turn=row.turn, why=failure.why)
        if row.doubts >= _DOUBTS and not isinstance(self.channel(row.address), Finds):
            await self._park(row, f"it is not certain that it arrived: {failure.why}")
        else:
            await self._retry(row, failure, uncertain=True)

    async def _retry(self, row: Row, failure: DeliveryFailed, *, uncertain: bool = False) -> None:
        pause = failure.retry_after
        if pause is not None:
            await self.hold(row.address, pause)
        else:
            pause = min(_FIRST_PAUSE * 2 ** min(row.attempts - 1, 20), _LONGEST_PAUSE)
        now = self._clock.now()
        next_at = now + int(pause * 1_000_000)
        await self._persist.must(lambda db: outbox.retry(db, row.id, next_at, failure.why, now, uncertain=uncertain))
        log(Event.DELIVERY_RETRY, logging.WARNING, delivery=row.id, turn=row.turn, why=failure.why, seconds=pause)

    async def _park(self, row: Row, why: str, *, blocked: bool = False) -> None:
        await self._persist.must(lambda db: outbox.park(db, row.id, why, self._clock.now(), blocked=blocked))
        log(Event.DELIVERY_PARKED, logging.ERROR, delivery=row.id, turn=row.turn, why=why)


def _arrived(db: Database, row: Row, sent_id: str, now: Micros, *, last: bool) -> None:
    if row.question is None:
        outbox.sent(db, row.id, sent_id, now, last=last)
    else:
        questions.shown(db, row.id, sent_id, row.text, now)


def _address(place: str) -> Address:
    channel, account, chat = place.split("\x1f", 2)
    return Address(channel=channel, account=account, chat=chat)


async def _call(channel: Channel, row: Row, item: Outgoing) -> str:
    """Edit where a preview exists, which is safe to repeat; else send, marked if it may be a repeat."""
    if row.editing and row.sent_id is not None and isinstance(channel, Edits):
        await channel.edit(row.sent_id, item)
        return row.sent_id
    if not row.uncertain:
        return await channel.send(item)
    if isinstance(channel, Finds):
        sent_id = await channel.find(item) or await channel.send(item)
        if item.filename is None and isinstance(channel, Edits):
            # What arrived may have been a preview of it; and a nonce that the platform knows gives that one back.
            await channel.edit(sent_id, item)
        return sent_id
    if item.filename is not None:
        return await channel.send(item)
    return await channel.send(replace(item, text=with_words(channel, item.text, phrases.MAYBE_REPEAT)))
