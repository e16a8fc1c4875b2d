"""Agents that do what a test tells them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from gateway.agents.protocol import (
    Done,
    Event,
    Notice,
    Option,
    OptionKind,
    Permission,
    PlanUpdate,
    TextDelta,
    Thought,
    ToolUpdate,
    TurnContext,
)
from gateway.agents.protocol import Summary as Written
from store.records import Usage

#: An event is yielded, an `asyncio.Event` awaited, an exception raised, a function called and awaited.
Step = Event | asyncio.Event | BaseException | Callable[[], Awaitable[object]]
Script = Sequence[Step] | Callable[[TurnContext], Sequence[Step]]


def says(*pieces: str, usage: Usage = Usage(), model: str | None = None) -> list[Step]:  # noqa: B008 (frozen)
    """A whole answer."""
    return [*map(TextDelta, pieces), Done(usage, model)]


def echo(turn: TurnContext) -> Sequence[Step]:
    return says(f"re: {turn.text}")


class ScriptedAgent:
    """Its first run follows the first script, and so on; the last one serves all further runs.

    A stubborn one does not listen when it is cancelled.
    """

    def __init__(self, *scripts: Script, side_effects: bool = False, stubborn: bool = False) -> None:
        self._scripts = scripts or (echo,)
        self.side_effects = side_effects
        self.stubborn = stubborn
        #: What it was given, one per run.
        self.seen: list[TurnContext] = []
        self.cancelled = 0
        self.closed = False

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        script = self._scripts[min(len(self.seen), len(self._scripts) - 1)]
        self.seen.append(turn)
        for step in script(turn) if callable(script) else script:
            match step:
                case TextDelta() | Thought() | PlanUpdate() | ToolUpdate() | Notice() | Permission() | Done():
                    yield step
                case asyncio.Event():
                    await self._wait(step)
                case BaseException():
                    raise step
                case _:
                    await step()

    async def close(self) -> None:
        self.closed = True

    async def _wait(self, event: asyncio.Event) -> None:
        while not event.is_set():
            try:
                await event.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if not self.stubborn:
                    raise


#: What a summariser does when it is asked: a text is returned, an event awaited for ever or until it is set.
Summary = str | asyncio.Event | BaseException | Callable[[str], str]


@dataclass(frozen=True)
class Asked:
    """One call of a summariser."""

    text: str
    focus: str | None
    limit: int
    model: str | None


class SummarisingAgent(ScriptedAgent):
    """Its first summary is the first of `summaries`, and so on; the last one serves all further calls."""

    def __init__(self, *scripts: Script, summaries: Sequence[Summary] = ("In short.",), **how: bool) -> None:
        super().__init__(*scripts, **how)
        self.summaries = summaries
        self.asked: list[Asked] = []

    async def summarise(self, text: str, focus: str | None, limit: int, model: str | None) -> Written:
        step = self.summaries[min(len(self.asked), len(self.summaries) - 1)]
        self.asked.append(Asked(text, focus, limit, model))
        match step:
            case str():
                return Written(step)
            case asyncio.Event():
                await self._wait(step)
                return Written("In short, at last.")
            case BaseException():
                raise step
            case _:
                return Written(step(text))


OPTIONS = (
    Option("yes", "Allow once", OptionKind.ALLOW_ONCE),
    Option("ever", "Always allow", OptionKind.ALLOW_ALWAYS),
    Option("no", "Reject", OptionKind.REJECT_ONCE),
)


class AskingAgent:
    """It wants permission for each of its calls, one after the other, and says what it was told."""

    side_effects = True

    def __init__(self, *calls: ToolUpdate, options: Sequence[Option] = OPTIONS) -> None:
        self.calls = calls or (ToolUpdate("call1", "rm -rf build", {"command": "rm -rf build"}),)
        self.options = tuple(options)
        #: What it asked, and what it was told; a cancelled request is told nothing.
        self.asked: list[Permission] = []
        self.told: list[str | None] = []

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        for call in self.calls:
            request = Permission(call, self.options, asyncio.get_running_loop().create_future())
            self.asked.append(request)
            yield request
            self.told.append(await request.answer)
            yield TextDelta(f"told: {self.told[-1]}")
        yield Done()

    async def close(self) -> None:
        pass
