"""Commands about what an agent does: its tools, its thoughts, and answers to its questions in words."""

from __future__ import annotations

from gateway import phrases
from gateway.agents.protocol import ToolStatus
from gateway.questions import deciding
from gateway.questions.deciding import Settled
from gateway.questions.wording import code, line
from gateway.telling import last_turn
from routing.keys import SessionKey
from routing.messages import Inbound
from store import messages, questions, sessions, turns
from store.content import Tool, to_json
from store.database import Database
from store.ids import Micros
from store.people import PersonRow
from store.questions import Question
from store.records import Message

#: Calls that `/tools` lists, and characters of their arguments.
_MOST = 30
_ARGUMENTS = 120
_SIGNS = {
    ToolStatus.COMPLETED: "✓",
    ToolStatus.FAILED: "✗",
    ToolStatus.REJECTED: "⊘",
    ToolStatus.CANCELLED: "⊘",
}


def tools(db: Database, key: SessionKey) -> str:
    """The tool calls of the last request."""
    last = last_turn(db, key)
    if last is None:
        return phrases.NO_TOOLS
    session = sessions.by_number(db, last.session)
    rows = messages.between(db, last.session, last.first_message, session.last_seq)
    calls = [row for row in rows if row.turn == last.id and isinstance(row.content, Tool) and not row.superseded]
    if not calls:
        return phrases.NO_TOOLS
    lines = [_call(row) for row in calls[-_MOST:]]
    return "\n".join([phrases.TOOLS.format(count=len(calls)), *lines])


def thoughts(db: Database, place: str, argument: str) -> str:
    """Show or hide what the agent thinks, in this chat."""
    if argument not in ("", "on", "off"):
        return phrases.THOUGHTS_HOW
    if argument:
        questions.set_thoughts(db, place, wanted=argument == "on")
    return phrases.THOUGHTS_ON if questions.wants_thoughts(db, place) else phrases.THOUGHTS_OFF


def choose(
    db: Database, key: SessionKey, message: Inbound, person: PersonRow, argument: str, now: Micros
) -> tuple[str, Settled | None]:
    """Answer in words what is asked here: the oldest question of this conversation, or of this chat."""
    question = _asked(db, key, message.address.place)
    if question is None:
        return phrases.NOTHING_TO_CHOOSE, None
    number = int(argument) if argument.isascii() and argument.isdecimal() and len(argument) < 4 else 0
    identity = f"{message.address.channel}:{message.sender.id}"
    settled = deciding.choose(db, question, number, person, identity, now)
    return settled.verdict.text, settled


def _asked(db: Database, key: SessionKey, place: str) -> Question | None:
    session = sessions.live(db, key)
    turn = None if session is None else turns.pending_of(db, session.id)
    here = [] if turn is None else questions.open_of_turn(db, turn.id)
    return next(iter(here or questions.open_at(db, place)), None)


def _call(row: Message) -> str:
    tool = row.content
    if not isinstance(tool, Tool):
        raise TypeError("not a tool call")
    status = tool.result.get("status", ToolStatus.COMPLETED)
    sign = _SIGNS.get(status, "…")
    args = f" {code(to_json(tool.args), _ARGUMENTS)}" if tool.args else ""
    return f"{sign} {code(tool.tool)}{args} ({line(str(status), 20)})"
