"""Presence: while a turn runs people see that it does, and not a moment longer."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType

from channels.base import Channel, Types
from gateway import phrases
from gateway.clock import Clock
from gateway.delivery import Delivery
from gateway.logs import Event, log
from gateway.previews import Preview
from routing.errors import DeliveryFailed
from routing.messages import Address
from store import outbox
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.records import OutboxKind

#: From then on a turn that has said nothing tells how long it has been working, in seconds.
_SIGN_OF_LIFE = 60.0

#: An answer that comes sooner needs no word that it is being written, in seconds.
_AT_ONCE = 0.3

#: Characters of thoughts that are shown while they come.
_THOUGHT = 300


class Presence:
    """Around a run: typing where the platform has it, and a line with the time where nothing else is shown."""

    def __init__(
        self, delivery: Delivery, clock: Clock, address: Address, channel: Channel | None, preview: Preview | None
    ) -> None:
        self._delivery = delivery
        self._clock = clock
        self._address = address
        self._typist: Types | None = _typist(channel)
        self._preview = preview
        self._tasks: list[asyncio.Task[None]] = []
        self._answering = False
        #: People are asked for something: it is not the agent that takes its time.
        self.waiting = False
        #: What the agent thinks; None where nobody wants to know.
        self.thoughts: list[str] | None = None
        self._last = ("", "")

    async def __aenter__(self) -> Presence:
        if self._typist is not None:
            self._tasks.append(asyncio.create_task(self._type(self._typist), name="typing"))
        if self._preview is not None:
            self._tasks.append(asyncio.create_task(self._tell(self._preview), name="sign of life"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._preview is not None:
            self._preview.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def visible(self) -> bool:
        """Whether there is a preview that people see."""
        return self._preview is not None and self._preview.exists

    def show(self, text: str, line: str = "") -> None:
        """The answer so far, and what is being done: that is for the preview alone."""
        self._last = (text, line)
        shown = "\n\n".join(part for part in (self._thinking(), text, line) if part.strip())
        self._answering = self._answering or bool(shown)
        if self._preview is not None:
            self._preview.show(shown)

    def think(self, text: str) -> None:
        if self.thoughts is not None:
            self.thoughts.append(text)
            self.show(*self._last)

    def _thinking(self) -> str:
        """The end of what is being thought, as a quotation."""
        thought = "".join(self.thoughts or ())[-_THOUGHT:].strip()
        return "\n".join(f"> {one}" for one in thought.splitlines())

    def put_notice(self, db: Database, text: str, now: Micros) -> None:
        """A message of its own, beside the answer."""
        draft = Draft(address=self._address, text=text, kind=OutboxKind.NOTICE)
        outbox.put(db, draft, self._delivery.released(self._address), now)

    def spoke(self) -> None:
        """Something new stands below the preview: the answer comes below that, and what waits goes out."""
        self._delivery.spoke(self._address)
        self._delivery.kick(self._address.place)

    async def _type(self, channel: Types) -> None:
        await self._clock.sleep(_AT_ONCE)
        while True:
            if not self.waiting and not self._delivery.held(self._address):
                try:
                    await channel.typing(self._address)
                except DeliveryFailed as failure:
                    if failure.retry_after is not None:
                        await self._delivery.hold(self._address, failure.retry_after)
                except Exception as exc:  # a courtesy, whatever a library raises
                    log(Event.CHANNEL_FAILED, logging.ERROR, exc=exc, channel=self._address.channel)
                    return
            await self._clock.sleep(channel.typing_every)

    async def _tell(self, preview: Preview) -> None:
        minutes = 0
        while not self._answering:
            await self._clock.sleep(_SIGN_OF_LIFE)
            minutes += 1
            if not self._answering and not self.waiting:
                preview.show(phrases.STILL_WORKING.format(minutes=minutes))


def _typist(channel: object) -> Types | None:
    return channel if isinstance(channel, Types) else None
