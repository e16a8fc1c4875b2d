"""Previews: the answer grows in one message on the platform. A preview may fail; the answer never depends on it."""

from __future__ import annotations

import logging

from channels.base import Edits
from gateway.clock import Clock
from gateway.delivery import Delivery, outgoing
from gateway.logs import Event, log
from gateway.persist import Persist
from routing.errors import DeliveryFailed, StoreError
from store import outbox, turns
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import Delivery as Row
from store.records import OutboxKind, OutboxState

#: Least time between two changes of one message, in seconds.
SPACING = 1.5


class Preview:
    """The preview of one turn. Its row exists before its message does, so that a crash leaves no torso."""

    def __init__(self, delivery: Delivery, persist: Persist, clock: Clock, draft: Draft, row: Row | None) -> None:
        self._delivery = delivery
        self._persist = persist
        self._clock = clock
        self._draft = draft
        self._row = row
        self._shown = ""
        self._next = float("-inf")
        self._busy = False
        channel = delivery.channel(draft.address)
        self._channel: Edits | None = channel if isinstance(channel, Edits) else None

    def show(self, text: str) -> None:
        """Show this text if it is time to; previews yield to messages that wait to be sent."""
        if self._channel is None or text.strip() in {"", self._shown} or self._clock.monotonic() < self._next:
            return
        if self._busy or not self._delivery.idle(self._draft.address):
            return
        self._next = self._clock.monotonic() + SPACING
        self._busy = True
        self._delivery.preview(self._update(text))

    async def _update(self, text: str) -> None:
        async with self._delivery.lock(self._draft.address.place):
            try:
                if self._row is None:
                    await self._create(text)
                elif self._row.sent_id is not None and self._channel is not None:
                    await self._channel.edit(self._row.sent_id, outgoing(self._row, text))
                self._shown = text.strip()
            except DeliveryFailed as failure:
                await self._give_up(failure)
            except StoreError:  # in trouble, or the turn has ended meanwhile
                self._channel = None
            except Exception as exc:  # a channel must not raise anything else; what the platform has is unknown
                address = self._draft.address
                log(Event.CHANNEL_FAILED, logging.ERROR, exc=exc, channel=address.channel, account=address.account)
                await self._give_up(DeliveryFailed(repr(exc), retryable=True, ambiguous=True))
            finally:
                self._busy = False

    async def _create(self, text: str) -> None:
        channel = self._delivery.channel(self._draft.address)
        if channel is None:
            return
        draft = Draft(
            address=self._draft.address,
            text=text,
            kind=OutboxKind.PREVIEW,
            turn=self._draft.turn,
        )
        row = self._row = await self._persist.once(lambda db: begin(db, draft, self._clock.now()))
        sent_id = await channel.send(outgoing(row))
        self._row = await self._persist.must(lambda db: outbox.shown(db, row.id, sent_id, self._clock.now()))

    async def _give_up(self, failure: DeliveryFailed) -> None:
        """No more previews in this turn. A row whose message surely does not exist is taken back."""
        self._channel = None
        row = self._row
        if row is None:
            return
        if failure.retry_after is not None:
            now = self._clock.now()
            next_at = now + int(failure.retry_after * 1_000_000)
            await self._persist.must(lambda db: outbox.limit(db, row.id, next_at, now))
            self._delivery.kick(self._draft.address.place)
        elif row.sent_id is not None:
            return
        elif failure.ambiguous:
            await self._persist.must(lambda db: outbox.doubt(db, row.id, self._clock.now()))
        else:
            await self._persist.must(lambda db: outbox.unpreview(db, row.id, self._clock.now()))


def begin(db: Database, draft: Draft, now: Micros) -> Row:
    """The row of a preview, if its turn still runs: after a stop nothing more is shown."""
    if draft.turn is not None:
        turns.require_pending(db, draft.turn)
    return outbox.get(db, outbox.put(db, draft, OutboxState.SENDING, now))
