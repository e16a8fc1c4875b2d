"""What works and what does not, as `/readyz` and the log tell it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from gateway.clock import Clock
from gateway.logs import Event, log

#: The disk is looked at not more often than this, in seconds.
_LOOK_EVERY = 1.0


@dataclass(slots=True)
class Component:
    ok: bool
    detail: str
    #: Monotonic time of the last change.
    since: float


@dataclass(slots=True)
class Health:
    clock: Clock
    components: dict[str, Component] = field(default_factory=dict)

    def report(self, name: str, ok: bool, detail: str = "") -> bool:
        """Note the state of a component; true if it went down or came back."""
        known = self.components.get(name)
        if known is None or known.ok != ok or known.detail != detail:
            self.components[name] = Component(ok, detail, self.clock.monotonic())
        return ok != (known is None or known.ok)

    @property
    def ok(self) -> bool:
        return all(component.ok for component in self.components.values())


class DiskGuard:
    """Below a reserve of free disk nothing new is accepted, so that what was accepted can be finished."""

    def __init__(self, path: Path, reserve_bytes: int, health: Health) -> None:
        self._path = path
        self._reserve = reserve_bytes
        self._health = health
        self._looked = float("-inf")
        self._low = False

    def low(self) -> bool:
        now = self._health.clock.monotonic()
        if now - self._looked >= _LOOK_EVERY:
            self._looked = now
            free = shutil.disk_usage(self._path).free
            self._low = free < self._reserve
            detail = f"{free // 2**20} MiB free, {self._reserve // 2**20} MiB are kept in reserve" if self._low else ""
            if self._health.report("disk", not self._low, detail):
                log(Event.DISK_LOW if self._low else Event.DISK_OK, free_mb=free // 2**20)
        return self._low
