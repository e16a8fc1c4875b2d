"""Taking up a session again: resume, load, or a new one that is told what was said. No capability is believed."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from acp.exceptions import RequestError
from pydantic import ValidationError

from gateway.agents.acp.failures import failed
from gateway.agents.acp.session import Conversation
from gateway.agents.protocol import TurnContext, plain_text
from gateway.clock import Clock
from gateway.logs import Event, log
from store.agent_sessions import AgentSession
from store.records import Message, Role

#: Characters of our record that an agent is given; the newest count.
_RECORD = 24_000
_MESSAGE = 4_000

_HEAD = (
    "[Record of this conversation so far, because your own is gone. It is for your information only: "
    "everything in it was dealt with. The message to answer comes after it.]"
)
_END = "[End of the record.]"
_WHO = {Role.USER: "User", Role.AGENT: "You"}
_MINUTE = 60_000_000


class How(StrEnum):
    """How a session began."""

    #: There was none before.
    FIRST = "first"
    RESUMED = "resumed"
    LOADED = "loaded"
    #: The agent had lost it.
    NEW = "new"


class Hangs(Exception):
    """The agent cannot take up a session, and is of no use any more."""


async def begin(
    child: Conversation, known: AgentSession | None, seconds: float, clock: Clock, *, loads_later: bool = False
) -> How:
    """Resume → load → new. Raises AgentFailed if nothing works, Hangs if the process has to be started again."""
    child.agent_session = ""
    if known is not None and known.cwd == str(child.terms.repo):
        for how in _ways(child, known, clock, loads_later):
            if await _take_up(child, known.name, how, seconds, clock):
                await child.quiet()
                child.agent_session = known.name
                return how
    try:
        async with clock.timeout(seconds):
            made = await child.connection.new_session(cwd=str(child.terms.repo), mcp_servers=[])
    except (TimeoutError, ConnectionError, RequestError, ValidationError) as error:
        raise await failed(error, child.process, child.terms.name, seconds) from error
    child.agent_session = made.session_id
    return How.FIRST if known is None else How.NEW


def _ways(child: Conversation, known: AgentSession, clock: Clock, loads_later: bool) -> Iterable[How]:
    told = child.capabilities
    if told.session_capabilities is not None and told.session_capabilities.resume is not None:
        yield How.RESUMED
    if told.load_session and not (loads_later and known.made_at // _MINUTE == clock.now() // _MINUTE):
        yield How.LOADED


async def _take_up(child: Conversation, name: str, how: How, seconds: float, clock: Clock) -> bool:
    """What is replayed meanwhile belongs to no turn, and is dropped."""
    call = child.connection.resume_session if how is How.RESUMED else child.connection.load_session
    try:
        async with clock.timeout(seconds):
            await call(session_id=name, cwd=str(child.terms.repo), mcp_servers=[])
    except (RequestError, ValidationError) as error:
        log(Event.AGENT_NOT_RESUMED, session=child.session_id, way=how, why=str(error)[:200])
        return False
    except (TimeoutError, ConnectionError) as error:
        log(Event.AGENT_NOT_RESUMED, session=child.session_id, way=how, why=str(error)[:200] or "no answer in time")
        raise Hangs from error
    return True


def record(turn: TurnContext, past: Iterable[Message]) -> str | None:
    """What was said before this turn, as far as it fits; None if nothing was."""
    lines: list[str] = []
    room = _RECORD
    for message in reversed([*past, *turn.history]):
        text = plain_text(message).strip()[:_MESSAGE]
        who = _WHO.get(message.role)
        if who is None or not text or message.superseded:
            continue
        room -= len(text)
        if room < 0:
            break
        lines.append(f"{who}: {text}")
    if turn.summary:
        lines.append(f"Summary of what was said before: {turn.summary[:_RECORD]}")
    return "\n\n".join([_HEAD, *reversed(lines), _END]) if lines else None
