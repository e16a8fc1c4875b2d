"""The built-in agent: no key, no network, not a language model. It shows that the whole path works."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

from gateway.agents.protocol import (
    Done,
    Event,
    Option,
    OptionKind,
    Permission,
    TextDelta,
    ToolStatus,
    ToolUpdate,
    TurnContext,
)
from routing.errors import AgentFailed
from store.records import Usage

_HELP = """I am Trunkline's built-in agent: a few fixed rules, not a language model.

- `count 10`: count slowly, to see an answer stream
- `wait 30`: say nothing for a while, to try stopping
- `fail`: end in an error, to see how that looks
- `ask`: ask for permission, to see who may give it and how
- `history`: how much of this conversation I was given
- anything else: I say it back

To talk to a real model, configure an agent of another kind."""

_COUNT = re.compile(r"count (\d{1,4})", re.ASCII | re.IGNORECASE)
_WAIT = re.compile(r"wait (\d{1,5}(?:\.\d{1,3})?)", re.ASCII | re.IGNORECASE)

#: What `ask` asks for; nothing is done in either case.
_CALL = ToolUpdate("ask", "do nothing at all", {"really": "nothing"}, status=ToolStatus.PENDING)
_OPTIONS = (Option("yes", "Allow", OptionKind.ALLOW_ONCE), Option("no", "Reject", OptionKind.REJECT_ONCE))
_CHOSEN = "I was allowed to do nothing, and did it."
_NOT_CHOSEN = "I was not allowed to do nothing."

#: Pause between two numbers, long enough to watch.
_BEAT = 0.1


class BuiltinAgent:
    side_effects = False

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        words = 0
        if turn.text.strip().lower() == "ask":
            request = Permission(_CALL, _OPTIONS, asyncio.get_running_loop().create_future())
            yield request
            allowed = await request.answer == "yes"
            if allowed:
                yield replace(_CALL, status=ToolStatus.COMPLETED)
            yield TextDelta(_CHOSEN if allowed else _NOT_CHOSEN)
            yield Done(Usage(input=1, output=4, source="estimated"), model="builtin")
            return
        async for piece in _pieces(turn):
            words += len(piece.split())
            yield TextDelta(piece)
        # Words stand in for tokens here, so they are marked as an estimate.
        yield Done(Usage(input=len(turn.text.split()), output=words, source="estimated"), model="builtin")

    async def close(self) -> None:
        """Nothing is kept between turns."""


async def _pieces(turn: TurnContext) -> AsyncIterator[str]:
    text = turn.text.strip()
    if found := _COUNT.fullmatch(text):
        for number in range(1, int(found[1]) + 1):
            yield f"{number} "
            await asyncio.sleep(_BEAT)
        yield "done."
    elif found := _WAIT.fullmatch(text):
        await asyncio.sleep(float(found[1]))
        yield f"I waited {found[1]} seconds."
    else:
        yield _reply(text, turn)


def _reply(text: str, turn: TurnContext) -> str:
    match text.lower():
        case "help" | "?":
            return _HELP
        case "fail":
            raise AgentFailed("you asked me to fail, so I did.")
        case "history":
            return f"This is turn {turn.turn}; I was given {len(turn.history)} earlier messages."
        case _:
            return f"You said: {turn.text}"
