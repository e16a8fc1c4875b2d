"""Writes that must happen: while the store is in trouble they wait and try again, and health is red."""

from __future__ import annotations

import logging
from typing import TypeVar

from gateway.clock import Clock
from gateway.health import Health
from gateway.logs import Event, log
from routing.errors import StoreUnavailable
from store.database import Store
from store.writer import Operation

T = TypeVar("T")

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


class Persist:
    """`once` raises StoreUnavailable; `must` goes on until it is stored."""

    def __init__(self, store: Store, clock: Clock, health: Health) -> None:
        self._store = store
        self._clock = clock
        self._health = health

    async def read(self, query: Operation[T]) -> T:
        return await self._store.read(query)

    async def once(self, operation: Operation[T]) -> T:
        try:
            result = await self._store.write(operation)
        except StoreUnavailable as exc:
            if self._health.report("store", False, str(exc)):
                log(Event.STORE_UNAVAILABLE, logging.ERROR, why=str(exc))
            raise
        if self._health.report("store", True):
            log(Event.STORE_RECOVERED)
        return result

    async def must(self, operation: Operation[T]) -> T:
        pause = _FIRST_PAUSE
        while True:
            try:
                return await self.once(operation)
            except StoreUnavailable:
                await self._clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
