"""A hint that a session changed. The rows are the truth; whoever is woken reads them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Feed:
    def __init__(self) -> None:
        self._watchers: defaultdict[int, set[asyncio.Event]] = defaultdict(set)

    def changed(self, session: int) -> None:
        for event in self._watchers.get(session, ()):
            event.set()

    @contextmanager
    def watch(self, session: int) -> Iterator[asyncio.Event]:
        """An event that is set whenever the session changes; the watcher clears it before it reads."""
        event = asyncio.Event()
        self._watchers[session].add(event)
        try:
            yield event
        finally:
            self._watchers[session].discard(event)
            if not self._watchers[session]:
                del self._watchers[session]
