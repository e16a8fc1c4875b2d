"""What runs beside the turns: channels that are started again when they fall, the sweeper, the watch."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from channels.base import Accept, Channel
from gateway.clock import Clock
from gateway.health import DiskGuard, Health
from gateway.logs import Event, log
from gateway.persist import Persist
from routing.errors import StoreUnavailable
from store import inbox, outbox, sessions
from store.database import Store
from store.ids import Micros

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_SWEEP_EVERY = 60.0
_WATCH_EVERY = 5.0
_WRITER_MUST_ANSWER = 10.0
_DAY = 86_400 * 1_000_000

#: How long the external ids of answered messages are remembered.
_REMEMBER = 30 * _DAY
#: How long delivered rows stay, for `/resend` and for operators.
_DELIVERED = 7 * _DAY


async def keep_running(channel: Channel, accept: Accept, clock: Clock, health: Health) -> None:
    """Run a channel for ever. When it falls, the others and the daemon go on."""
    name = f"channel {channel.name}.{channel.account}"
    pause = _FIRST_PAUSE
    while True:
        began = clock.monotonic()
        health.report(name, True)
        log(Event.CHANNEL_CONNECTED, channel=channel.name, account=channel.account)
        try:
            await channel.run(accept)
            why = "it ended by itself"
        except Exception as exc:  # whatever a library raises
            why = repr(exc)
            log(Event.CHANNEL_FAILED, logging.ERROR, exc=exc, channel=channel.name, account=channel.account)
        health.report(name, False, why)
        if clock.monotonic() - began > _LONGEST_PAUSE:
            pause = _FIRST_PAUSE
        await clock.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def sweep(persist: Persist, clock: Clock, idle_seconds: float) -> None:
    """Every minute, for ever; while the store is in trouble there is nothing to tidy."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            await tidy(persist, clock.now(), idle_seconds)
        await clock.sleep(_SWEEP_EVERY)


async def tidy(persist: Persist, now: Micros, idle_seconds: float) -> None:
    """Let sessions rest that nobody uses, and forget what no longer matters."""
    for session in await persist.once(lambda db: sessions.rest(db, now - int(idle_seconds * 1_000_000))):
        log(Event.SESSION_IDLE, session=session)
    await persist.once(lambda db: inbox.prune(db, now - _REMEMBER))
    await persist.once(lambda db: outbox.prune(db, now - _DELIVERED))


async def watch(store: Store, disk: DiskGuard, clock: Clock, health: Health) -> None:
    """See that the writer answers and the disk has room, also when nobody writes."""
    while True:
        disk.low()
        try:
            async with asyncio.timeout(_WRITER_MUST_ANSWER):
                await store.ping()
            health.report("writer", True)
        except TimeoutError:
            health.report("writer", False, f"no answer for {_WRITER_MUST_ANSWER:g} s")
        await clock.sleep(_WATCH_EVERY)
