"""Commands that people type or pick from a menu. They do not queue; each takes effect as it is accepted."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from channels.base import MenuItem
from gateway import bill, phrases, remembering, seeing, telling
from gateway.admission import Rules
from gateway.questions.deciding import Settled
from gateway.remembering import Planned
from gateway.stopping import Stopped, stop
from routing.keys import PeerKind, SessionKey
from routing.messages import Inbound
from store import accounts, inbox, sessions
from store.about import About
from store.database import Database
from store.ids import Micros
from store.inbox import Arrival
from store.people import PersonRow
from store.records import InboxItem, Status, TurnStatus

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z0-9_]{0,31})(?:@\w+)?(?:\s+|$)")


class Command(StrEnum):
    HELP = "help"
    NEW = "new"
    STOP = "stop"
    RETRY = "retry"
    RESEND = "resend"
    STATUS = "status"
    HISTORY = "history"
    SESSIONS = "sessions"
    EXPORT = "export"
    AGENT = "agent"
    COMPACT = "compact"
    UNCOMPACT = "uncompact"
    PIN = "pin"
    UNPIN = "unpin"
    WHY = "why"
    WHOAMI = "whoami"
    USAGE = "usage"
    TOOLS = "tools"
    THOUGHTS = "thoughts"
    CHOOSE = "choose"
    APPROVE = "approve"
    #: What Telegram sends when somebody opens a bot for the first time.
    START = "start"


#: In a group these change or show what belongs to all: known people only.
_FOR_KNOWN = frozenset(
    {
        Command.NEW,
        Command.COMPACT,
        Command.UNCOMPACT,
        Command.PIN,
        Command.UNPIN,
        Command.EXPORT,
        Command.RETRY,
        Command.TOOLS,
        Command.THOUGHTS,
    }
)

_ARGUMENTS = {
    Command.AGENT: "name",
    Command.APPROVE: "code",
    Command.COMPACT: "keep",
    Command.PIN: "words",
    Command.UNPIN: "words",
    Command.THOUGHTS: "switch",
    Command.CHOOSE: "number",
}

#: As platforms show it.
MENU = tuple(
    MenuItem(name=command, description=description, argument=_ARGUMENTS.get(Command(command)))
    for command, description in phrases.COMMANDS.items()
)


@dataclass(frozen=True, slots=True)
class Typed:
    """A message that begins like a command."""

    #: None if there is no such command.
    command: Command | None
    name: str
    argument: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A command with all that is known about who gave it, and where."""

    typed: Typed
    message: Inbound
    key: SessionKey
    person: PersonRow
    #: The sender may do what known people may.
    known: bool
    #: How the agent was found, for `/why` and `/agent`.
    matched_by: str


@dataclass(frozen=True, slots=True)
class File:
    name: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    text: str
    file: File | None = None
    stopped: Stopped | None = None
    #: A message that waits for a turn now.
    again: InboxItem | None = None
    #: A summary that has to be made now.
    planned: Planned | None = None
    #: A question that was answered.
    settled: Settled | None = None


def parse(text: str) -> Typed | None:
    """What a message begins with, if it looks like a command; a path or a fraction does not."""
    found = _COMMAND.match(text)
    if found is None:
        return None
    name = found[1].lower()
    command = Command(name) if name in set(Command) else None
    return Typed(command, name, text[found.end() :].strip())


def execute(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    command = asked.typed.command
    if command is None:
        return Outcome(text=unknown(asked.typed.name))
    if command in _FOR_KNOWN and asked.message.peer_kind is not PeerKind.DM and not asked.known:
        return Outcome(text=phrases.KNOWN_ONLY)
    return _HANDLERS[command](db, asked, rules, now)


def unknown(name: str) -> str:
    near = difflib.get_close_matches(name, list(phrases.COMMANDS), n=1)
    hint = phrases.DID_YOU_MEAN.format(name=near[0]) if near else ""
    return phrases.UNKNOWN_COMMAND.format(name=name, hint=hint)


def _help(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=phrases.HELP)


def _stop(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    stopped = stop(db, asked.key, now)
    waiting = inbox.waiting_count(db, asked.key)
    text = phrases.NOTHING_RUNNING if stopped is None else phrases.STOPPED
    return Outcome(text=f"{text} {phrases.STILL_WAITING.format(count=waiting)}" if waiting else text, stopped=stopped)


def _new(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    stopped = stop(db, asked.key, now)
    session = sessions.live(db, asked.key)
    if session is not None:
        sessions.end(db, session, Status.COMPLETED, "new", now)
    return Outcome(text=phrases.NEW_SESSION, stopped=stopped)


def _retry(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    """The last request once more, as a message of whoever wants it again."""
    last = telling.last_turn(db, asked.key)
    if last is None:
        return Outcome(text=phrases.NOTHING_TO_RETRY)
    if last.status is TurnStatus.PENDING:
        return Outcome(text=phrases.STILL_RUNNING)
    arrival = Arrival(
        external_id=f"{asked.message.external_id}/retry",
        key=asked.key,
        address=asked.message.address,
        text=telling.instruction(db, last),
        person=asked.person.id,
        sender_name=asked.message.sender.name,
        about=About(user=asked.message.sender.id, group=asked.message.peer_kind is not PeerKind.DM),
    )
    limit = rules.agents[asked.key.agent_id].max_waiting
    return Outcome(text=phrases.RETRYING, again=inbox.accept(db, arrival, now, max_waiting=limit).item)


def _resend(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    """The last finished answer again, from the history: no new run."""
    return Outcome(text=telling.last_answer(db, asked.key) or phrases.NOTHING_TO_RESEND)


def _agent(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    wanted = asked.typed.argument
    names = ", ".join(rules.agents)
    if not wanted:
        text = phrases.AGENT.format(agent=asked.key.agent_id, matched_by=asked.matched_by)
        return Outcome(text=f"{text} {phrases.AGENTS.format(names=names)}" if asked.person.owner else text)
    if not asked.person.owner:
        return Outcome(text=phrases.OWNER_ONLY)
    if wanted == "default":
        accounts.choose(db, asked.message.address, None)
        return Outcome(text=phrases.AGENT_UNCHOSEN)
    if wanted not in rules.agents:
        return Outcome(text=phrases.NO_AGENT_CALLED.format(name=wanted, names=names))
    accounts.choose(db, asked.message.address, wanted)
    return Outcome(text=phrases.AGENT_CHOSEN.format(agent=wanted))


def _compact(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    focus = asked.typed.argument or None
    text, planned = remembering.compact(db, asked.key, rules.agents[asked.key.agent_id], focus, now)
    return Outcome(text=text, planned=planned)


def _uncompact(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=remembering.uncompact(db, asked.key, now))


def _pin(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    window = rules.agents[asked.key.agent_id].context_window
    return Outcome(text=remembering.pin(db, asked.key, _words(asked), window, now))


def _unpin(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=remembering.unpin(db, asked.key, _words(asked), now))


def _words(asked: Asked) -> str:
    """Of the message that is meant: the one that was replied to, or whatever was named."""
    quoted = asked.message.quote
    return asked.typed.argument or ("" if quoted is None else quoted.text)


def _export(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    transcript = telling.transcript(db, asked.key)
    if transcript is None:
        return Outcome(text=phrases.NOTHING_TO_EXPORT)
    return Outcome(text=phrases.EXPORTED, file=File("conversation.md", transcript))


def _told(tell: Callable[[Database, SessionKey], str]) -> Callable[[Database, Asked, Rules, Micros], Outcome]:
    return lambda db, asked, rules, now: Outcome(text=tell(db, asked.key))


def _why(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=telling.why(db, asked.message.address, asked.key, asked.matched_by, now))


def _whoami(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=telling.whoami(asked.message, asked.person, known=asked.known))


def _usage(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=bill.tell(db, asked.key, asked.message, asked.person, rules.budgets, now))


def _sessions(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=telling.conversations(db, asked.key, asked.person, now))


def _thoughts(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    return Outcome(text=seeing.thoughts(db, asked.message.address.place, asked.typed.argument))


def _choose(db: Database, asked: Asked, rules: Rules, now: Micros) -> Outcome:
    text, settled = seeing.choose(db, asked.key, asked.message, asked.person, asked.typed.argument, now)
    return Outcome(text=text, settled=settled)


_HANDLERS: dict[Command, Callable[[Database, Asked, Rules, Micros], Outcome]] = {
    Command.HELP: _help,
    Command.START: _help,
    Command.NEW: _new,
    Command.STOP: _stop,
    Command.RETRY: _retry,
    Command.RESEND: _resend,
    Command.STATUS: _told(telling.status),
    Command.HISTORY: _told(telling.history),
    Command.SESSIONS: _sessions,
    Command.EXPORT: _export,
    Command.AGENT: _agent,
    Command.COMPACT: _compact,
    Command.UNCOMPACT: _uncompact,
    Command.PIN: _pin,
    Command.UNPIN: _unpin,
    Command.WHY: _why,
    Command.WHOAMI: _whoami,
    Command.USAGE: _usage,
    Command.TOOLS: _told(seeing.tools),
    Command.THOUGHTS: _thoughts,
    Command.CHOOSE: _choose,
}
