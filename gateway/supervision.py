"""What runs beside the turns: channels that are started again when they fall, the sweeper, the indexer, the watch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from channels.base import Channel
from gateway import files
from gateway.clock import Clock
from gateway.config import Retention
from gateway.health import DiskGuard, Health
from gateway.hosting import ChannelHost, component
from gateway.intake import Intake
from gateway.logs import Event, log
from gateway.persist import Persist
from routing.errors import ChannelSilent, StoreUnavailable
from store import inbox, messages, outbox, overheard, retention, search, sessions
from store.database import Database, Store
from store.ids import Micros
from store.retention import Removed

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_SWEEP_EVERY = 60.0
_WATCH_EVERY = 5.0
#: How long a channel may take to close what it opened, in seconds.
_CLOSING = 5.0
_WRITER_MUST_ANSWER = 10.0
_DAY = 86_400 * 1_000_000

#: Batches of old sessions and messages that one sweep removes; others write in between.
_BATCHES = 50
_KEEP = Retention()


async def keep_running(channel: Channel, intake: Intake, clock: Clock, health: Health) -> None:
    """Run a channel for ever. When it falls or goes silent, the others and the daemon go on."""
    name = component(channel)
    pause = _FIRST_PAUSE
    while True:
        began = clock.monotonic()
        try:
            await _run(channel, intake, clock, health)
            why = "it ended by itself"
        except ChannelSilent as exc:
            why = str(exc)
            log(Event.CHANNEL_FAILED, logging.ERROR, channel=channel.name, account=channel.account, why=why)
        except Exception as exc:  # whatever a library raises
            # For everybody who may ask how the daemon is; what a library says can hold a token.
            why = f"{type(exc).__name__}, see the log"
            log(Event.CHANNEL_FAILED, logging.ERROR, exc=exc, channel=channel.name, account=channel.account)
        health.report(name, False, why)
        if clock.monotonic() - began > _LONGEST_PAUSE:
            pause = _FIRST_PAUSE
        await clock.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def _run(channel: Channel, intake: Intake, clock: Clock, health: Health) -> None:
    """Until it ends, or until it has given no sign of life for too long: connected is not alive."""
    last = clock.monotonic()

    def alive() -> None:
        nonlocal last
        last = clock.monotonic()

    running = asyncio.create_task(channel.run(ChannelHost(channel, intake, health, alive)), name="channel")
    try:
        while not running.done():
            if channel.silent_after is None:
                await asyncio.wait({running})
                break
            rest = last + channel.silent_after - clock.monotonic()
            if rest <= 0:
                raise ChannelSilent(seconds=channel.silent_after)
            watch = asyncio.ensure_future(clock.sleep(rest))
            try:
                await asyncio.wait({running, watch}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                watch.cancel()
        await running
    finally:
        running.cancel()
        with contextlib.suppress(TimeoutError):
            async with clock.timeout(_CLOSING):
                await asyncio.wait({running})


async def sweep(persist: Persist, clock: Clock, idle_seconds: float, keep: Retention, data_dir: Path) -> None:
    """Every minute, for ever; while the store is in trouble there is nothing to tidy."""
    gone = True  # what a crash left behind
    while True:
        with contextlib.suppress(StoreUnavailable):
            gone = await tidy(persist, clock.now(), idle_seconds, keep) or gone
            if gone:
                await remove_files(persist, data_dir)
                gone = False
        await clock.sleep(_SWEEP_EVERY)


async def remove_files(persist: Persist, data_dir: Path) -> None:
    """Those that came with messages which are no longer there."""
    kept = await asyncio.to_thread(files.message_ids, data_dir)
    gone = kept - await persist.read(lambda db: messages.existing(db, kept))
    if gone:
        await asyncio.to_thread(files.remove_of, data_dir, gone)


async def tidy(persist: Persist, now: Micros, idle_seconds: float, keep: Retention = _KEEP) -> bool:
    """Let sessions rest that nobody uses, and remove what has had its time; whether messages were among it."""
    for session in await persist.once(lambda db: sessions.rest(db, now - int(idle_seconds * 1_000_000))):
        log(Event.SESSION_IDLE, session=session)
    if keep.inbox_days:
        await persist.once(lambda db: inbox.prune(db, now - keep.inbox_days * _DAY))
    if keep.outbox_days:
        await persist.once(lambda db: outbox.prune(db, now - keep.outbox_days * _DAY))
    await persist.once(lambda db: overheard.prune(db, now - _DAY))
    gone = False
    if keep.sessions_days:
        gone = await _remove(persist, partial(retention.remove_sessions, before=now - keep.sessions_days * _DAY))
    if keep.messages_days:
        gone |= await _remove(persist, partial(retention.remove_messages, before=now - keep.messages_days * _DAY))
    return gone


async def _remove(persist: Persist, batch: Callable[[Database], Removed]) -> bool:
    """So many batches at most; the next sweep goes on."""
    gone = [await persist.once(batch)]
    while gone[-1].anything and len(gone) < _BATCHES:
        gone.append(await persist.once(batch))
    if gone[0].anything:
        log(Event.RETENTION, sessions=sum(one.sessions for one in gone), messages=sum(one.messages for one in gone))
    return gone[0].anything


async def index(store: Store, persist: Persist) -> None:
    """Fill a full-text index that starts anew, a batch at a time, so that nobody has to wait for it."""
    enabled, complete = await store.read(lambda db: (search.enabled(db), search.complete(db)))
    if not enabled:
        log(Event.SEARCH_OFF)
    elif not complete:
        log(Event.SEARCH_INDEXING)
        while await persist.must(search.index_more):
            pass
        log(Event.SEARCH_INDEXED)


async def watch(store: Store, disk: DiskGuard, clock: Clock, health: Health) -> None:
    """See that the writer answers and the disk has room, also when nobody writes."""
    while True:
        disk.low()
        try:
            async with clock.timeout(_WRITER_MUST_ANSWER):
                await store.ping()
            health.report("writer", True)
        except TimeoutError:
            health.report("writer", False, f"no answer for {_WRITER_MUST_ANSWER:g} s")
        await clock.sleep(_WATCH_EVERY)
