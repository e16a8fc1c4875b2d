"""Previews: the answer grows in one message on the platform. A preview may fail; the answer never depends on it."""

from __future__ import annotations

import asyncio
import logging

from channels.base import Channel, Edits
from gateway.clock import Clock
from gateway.delivery import Delivery
from gateway.logs import Event, log
from gateway.parts import preview
from gateway.persist import Persist
from routing.errors import DeliveryFailed, StoreError
from store import outbox, turns
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import Delivery as Row
from store.records import OutboxKind, OutboxState


class Preview:
    """The preview of one turn. Its row exists before its message does, so that a crash leaves no torso."""

    def __init__(
        self, delivery: Delivery, persist: Persist, clock: Clock, draft: Draft, channel: Channel, row: Row | None
    ) -> None:
        self._delivery = delivery
        self._persist = persist
        self._clock = clock
        self._draft = draft
        self._channel = channel
        self._row = row
        self._wanted = ""
        self._shown = ""
        self._next = float("-inf")
        self._working = False
        self._over = not isinstance(channel, Edits)
        self._pause: asyncio.Future[None] | None = None

    @property
    def exists(self) -> bool:
        """People have seen something of this turn."""
        return self._row is not None

    def show(self, text: str) -> None:
        """Show this text as soon as the platform likes; a newer one takes its place until then."""
        self._wanted = text
        if not self._working and not self._over and text.strip():
            self._working = True
            self._delivery.preview(self._work())

    def close(self) -> None:
        """The turn has ended: what is under way ends, nothing new begins."""
        self._over = True
        if self._pause is not None:
            self._pause.cancel()

    async def _work(self) -> None:
        try:
            while not self._over and (text := self._text()) != self._shown:
                wait = self._wait()
                if wait > 0:
                    await self._rest(wait)
                else:
                    await self._update(text)
        finally:
            self._working = False

    def _text(self) -> str:
        return self._delivery.first_part(self._draft.address, self._wanted).strip()

    def _wait(self) -> float:
        """Seconds until the next change; messages that wait to be sent go first."""
        address = self._draft.address
        spacing = self._channel.edit_spacing(address) if isinstance(self._channel, Edits) else 0.0
        if self._delivery.held(address) or not self._delivery.idle(address):
            return spacing
        pace = self._delivery.pacing.wait(self._channel, address, spare=1)
        return max(self._next - self._clock.monotonic(), pace)

    async def _rest(self, seconds: float) -> None:
        self._pause = asyncio.ensure_future(self._clock.sleep(seconds))
        await asyncio.wait({self._pause})

    async def _update(self, text: str) -> None:
        address = self._draft.address
        async with self._delivery.lock(address.place):
            if self._over:
                return
            self._delivery.pacing.took(self._channel, address)
            try:
                await self._call(text)
                self._shown = text
            except DeliveryFailed as failure:
                await self._give_up(failure)
            except StoreError:  # in trouble, or the turn has ended meanwhile
                self._over = True
            except Exception as exc:  # a channel must not raise anything else; what the platform has is unknown
                log(Event.CHANNEL_FAILED, logging.ERROR, exc=exc, channel=address.channel, account=address.account)
                await self._give_up(DeliveryFailed(repr(exc), retryable=True, ambiguous=True))
        if isinstance(self._channel, Edits):
            self._next = self._clock.monotonic() + self._channel.edit_spacing(address)

    async def _call(self, text: str) -> None:
        if self._row is None:
            await self._create(text)
        elif self._row.sent_id is not None and isinstance(self._channel, Edits):
            await self._channel.edit(self._row.sent_id, preview(self._row, text))

    async def _create(self, text: str) -> None:
        draft = Draft(address=self._draft.address, text=text, kind=OutboxKind.PREVIEW, turn=self._draft.turn)
        row = self._row = await self._persist.once(lambda db: begin(db, draft, self._clock.now()))
        sent_id = await self._channel.send(preview(row, text))
        self._row = await self._persist.must(lambda db: outbox.shown(db, row.id, sent_id, self._clock.now()))

    async def _give_up(self, failure: DeliveryFailed) -> None:
        """No more previews in this turn. A row whose message surely does not exist is taken back."""
        self._over = True
        if failure.retry_after is not None:
            await self._delivery.hold(self._draft.address, failure.retry_after)
        row = self._row
        if row is not None and row.sent_id is None and not failure.ambiguous:
            await self._persist.must(lambda db: outbox.unpreview(db, row.id, self._clock.now()))
        self._delivery.kick(self._draft.address.place)


def begin(db: Database, draft: Draft, now: Micros) -> Row:
    """The row of a preview, if its turn still runs: after a stop nothing more is shown."""
    if draft.turn is not None:
        turns.require_pending(db, draft.turn)
    return outbox.get(db, outbox.put(db, draft, OutboxState.SENDING, now))
