"""What went wrong with an agent's process, in words for people and in detail for the log."""

from __future__ import annotations

import asyncio

from acp.exceptions import RequestError
from pydantic import ValidationError

from gateway import phrases
from gateway.agents.acp.process import Process
from gateway.agents.acp.reports import note_of
from gateway.agents.acp.terms import Terms
from routing.errors import AgentBroke, AgentFailed

_AUTH_REQUIRED = -32000
#: Characters of an agent's own words that the log keeps.
_KEPT = 1000


async def failed(error: Exception, process: Process, name: str, seconds: float) -> AgentFailed:
    """A call that did not work; the process may live on."""
    match error:
        case TimeoutError():
            why, detail = phrases.ACP_SLOW.format(name=name, seconds=seconds), "no answer in time"
        case RequestError(code=code) if code == _AUTH_REQUIRED:
            why, detail = phrases.ACP_LOGIN.format(name=name), _words(error)
        case RequestError():
            why, detail = phrases.ACP_ERROR.format(name=name), _words(error)
        case ValidationError():
            why, detail = phrases.ACP_ERROR.format(name=name), f"an answer that is not known: {error.title}"
        case _:
            await _ended(process)
            why, detail = phrases.ACP_NOT_STARTED.format(name=name), f"{error}; {process.ending}"
    complaints = process.complaints
    return AgentFailed(why, detail=f"{detail}; it said: {complaints}" if complaints else detail)


async def broken(process: Process, reason: str, terms: Terms) -> AgentBroke:
    """The process was lost in the middle of a turn: the session ends with it."""
    await _ended(process)
    return AgentBroke(
        phrases.ACP_BROKE.format(name=terms.name),
        note=note_of(process, reason, terms),
        detail=f"{reason}; {process.ending}",
    )


async def _ended(process: Process) -> None:
    """A moment for the exit code, which comes after the pipes have closed."""
    await asyncio.wait({process.exit}, timeout=0.5)


def _words(error: RequestError) -> str:
    more = "" if error.data is None else f" ({error.data})"
    return f"error {error.code}: {error}{more}"[:_KEPT]
