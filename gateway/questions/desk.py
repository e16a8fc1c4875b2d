"""The desk: an agent's request for permission goes to people, and the answer of the first who may comes back."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from channels.base import Asks, Verdict
from gateway import phrases
from gateway.agents.protocol import OptionKind, Permission
from gateway.clock import Clock
from gateway.config import AgentConfig
from gateway.deadline import Deadline
from gateway.delivery import Delivery
from gateway.feed import Feed
from gateway.logs import Event, log
from gateway.persist import Persist
from gateway.questions import deciding, reaching, wording
from gateway.questions.deciding import Settled, Shown
from gateway.steps import Started
from routing.errors import StoreError
from routing.messages import Address, Press
from store.database import Database
from store.questions import NewQuestion, Question

#: 72 bits: nobody guesses one.
_TOKEN_BYTES = 9


class Desk:
    """One for all turns."""

    def __init__(self, persist: Persist, delivery: Delivery, feed: Feed, clock: Clock) -> None:
        self._persist = persist
        self._delivery = delivery
        self._feed = feed
        self._clock = clock
        #: By token: who waits for the answer.
        self._waiting: dict[str, asyncio.Future[str | None]] = {}
        #: Where a turn asked.
        self._asked: dict[int, set[str]] = {}

    async def press(self, press: Press) -> Verdict:
        """For channels: never raises."""
        try:
            settled = await self._persist.once(lambda db: deciding.press(db, press, self._clock.now()))
        except StoreError:
            return Verdict(phrases.PRESS_FAILED, alert=True)
        except Exception as exc:
            log(Event.MESSAGE_FAILED, logging.ERROR, exc=exc, kind="Press")
            return Verdict(phrases.PRESS_FAILED, alert=True)
        if settled.question is None:
            log(Event.PRESS_REFUSED, channel=press.channel, sender=press.sender.id, why=settled.verdict.text)
        self.settle(settled)
        return settled.verdict

    def settle(self, settled: Settled) -> None:
        """After the commit: whoever waits is told, and the messages change."""
        question = settled.question
        if question is None:
            return
        waiting = self._waiting.get(question.token)
        if waiting is not None and not waiting.done():
            waiting.set_result(question.chosen)
        log(Event.QUESTION_DECIDED, question=question.id, turn=question.turn, state=question.state)
        self.show(settled.places, question.session)

    def show(self, places: Sequence[str], session: int) -> None:
        for place in dict.fromkeys(places):
            self._delivery.kick(place)
        self._feed.changed(session)

    def over(self, turn: int) -> None:
        """A turn has ended, and its open questions with it: that is to be seen wherever they were asked."""
        for place in self._asked.pop(turn, ()):
            self._delivery.kick(place)

    async def decide(self, started: Started, config: AgentConfig, permission: Permission) -> str | None:
        """Ask, and wait: the option that was chosen, or what stands for nobody's answer."""
        options = wording.choices(permission.options)
        if not options:
            return None
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        try:
            now = self._clock.now()
            new = NewQuestion(
                token=token,
                turn=started.turn.id,
                asker=started.turn.created_by,
                answerers=config.approvers,
                text=wording.question(config.name, permission, config.permission_timeout / 60),
                options=options,
                expires_at=now + int(config.permission_timeout * 1_000_000),
            )
            question, places = await self._persist.must(lambda db: self._ask(db, new, started.address))
            log(Event.QUESTION_ASKED, session=started.session.public_id, turn=started.turn.seq, question=question.id)
            self._asked.setdefault(started.turn.id, set()).update(places)
            self.show(places, question.session)
            return await self._wait(question, answer, config.permission_timeout)
        finally:
            del self._waiting[token]

    def _ask(self, db: Database, new: NewQuestion, address: Address) -> tuple[Question, list[str]]:
        where = [address, *reaching.elsewhere(db, new, address)]
        shown = [self._shown(one) for one in where if self._delivery.channel(one) is not None]
        return deciding.ask(db, new, shown, self._clock.now()), [one.address.place for one in shown]

    def _shown(self, address: Address) -> Shown:
        buttons = isinstance(self._delivery.channel(address), Asks)
        return Shown(address, buttons, self._delivery.released(address))

    async def _wait(self, question: Question, answer: asyncio.Future[str | None], seconds: float) -> str | None:
        try:
            async with self._clock.timeout(seconds):
                return await answer
        except TimeoutError:
            minutes = seconds / 60
            settled = await self._persist.must(lambda db: deciding.expire(db, question.id, minutes, self._clock.now()))
            self.settle(settled)
            return None if settled.question is None else settled.question.chosen


class Asking:
    """The requests of one run. When it is left nobody waits for an answer any more."""

    def __init__(self, desk: Desk, started: Started, config: AgentConfig, deadline: Deadline) -> None:
        self._desk = desk
        self._started = started
        self._config = config
        self._deadline = deadline
        self._tasks: set[asyncio.Task[None]] = set()
        #: Called when people begin to be waited for, and when not any more.
        self.on_wait: Callable[[bool], None] = lambda _: None
        #: Called before the agent hears that it may not.
        self.on_rejected: Callable[[Permission], Awaitable[None]] = _nothing

    def ask(self, permission: Permission) -> None:
        """Returns at once; the answer is the permission's own."""
        task = asyncio.create_task(self._ask(permission), name="question")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, permission: Permission) -> None:
        answer = permission.answer
        try:
            async with self._deadline.paused_for_a_person():
                self.on_wait(True)
                chosen = await self._decided(permission)
                if not _allows(permission, chosen):
                    await self.on_rejected(permission)
            self.on_wait(self._deadline.paused)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        if not answer.done():
            answer.set_result(chosen)

    async def _decided(self, permission: Permission) -> str | None:
        """Nothing is allowed by an error."""
        try:
            return await self._desk.decide(self._started, self._config, permission)
        except StoreError:  # the turn has ended meanwhile, or the store is gone
            return None
        except Exception as exc:
            log(Event.MESSAGE_FAILED, logging.ERROR, exc=exc, kind="Permission")
            return None

    async def __aenter__(self) -> Asking:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _nothing(permission: Permission) -> None:
    pass


def _allows(permission: Permission, chosen: str | None) -> bool:
    allowing = (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS)
    return any(option.id == chosen and option.kind in allowing for option in permission.options)
