"""Previews: the answer grows in one message on the platform. A preview may fail; the answer never depends on it."""

from __future__ import annotations

import asyncio

from channels.base import Edits
from gateway.clock import Clock
from gateway.delivery import Delivery, outgoing
from gateway.persist import Persist
from routing.errors import DeliveryFailed, StoreUnavailable
from store import outbox
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
        self._call: asyncio.Task[None] | None = None
        channel = delivery.channel(draft.address)
        self._channel: Edits | None = channel if isinstance(channel, Edits) else None

    async def show(self, text: str) -> None:
        """Show this text if it is time to; previews yield to messages that wait to be sent."""
        if self._channel is None or text.strip() in {"", self._shown} or self._clock.monotonic() < self._next:
            return
        if not self._delivery.idle(self._draft.address):
            return
        self._next = self._clock.monotonic() + SPACING
        self._call = asyncio.create_task(self._update(text), name="preview")
        # A call under way is never cut, because then nobody would know whether the message exists.
        await asyncio.shield(self._call)

    async def settle(self) -> None:
        """Return when no call is under way."""
        if self._call is not None:
            await asyncio.wait({self._call})

    async def _update(self, text: str) -> None:
        async with self._delivery.lock(self._draft.address):
            try:
                if self._row is None:
                    await self._create(text)
                elif self._row.sent_id is not None and self._channel is not None:
                    await self._channel.edit(self._row.sent_id, outgoing(self._row, text))
                self._shown = text.strip()
            except DeliveryFailed as failure:
                await self._give_up(failure)
            except StoreUnavailable:
                self._channel = None

    async def _create(self, text: str) -> None:
        channel = self._delivery.channel(self._draft.address)
        if channel is None:
            return
        draft = Draft(
            address=self._draft.address,
            text=text,
            kind=OutboxKind.PREVIEW,
            session=self._draft.session,
            turn=self._draft.turn,
        )
        self._row = await self._persist.once(
            lambda db: outbox.get(db, outbox.put(db, draft, OutboxState.SENDING, self._clock.now()))
        )
        row = self._row
        sent_id = await channel.send(outgoing(row))
        self._row = await self._persist.must(lambda db: outbox.shown(db, row.id, sent_id, self._clock.now()))

    async def _give_up(self, failure: DeliveryFailed) -> None:
        """No more previews in this turn. A row whose message surely does not exist is taken back."""
        self._channel = None
        row = self._row
        if row is None or row.sent_id is not None:
            return
        if failure.ambiguous:
            await self._persist.must(lambda db: outbox.doubt(db, row.id, self._clock.now()))
        else:
            await self._persist.must(lambda db: outbox.unpreview(db, row.id, self._clock.now()))
