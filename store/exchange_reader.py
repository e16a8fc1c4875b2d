"""Reads what an export wrote, line by line. Whatever is wrong is said with the number of its line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from routing.errors import BadImport
from store.exchange_lines import (
    FORMAT,
    VERSIONS,
    CompactionLine,
    Header,
    Line,
    MessageLine,
    Person,
    SessionLine,
    TurnLine,
)
from store.records import TurnStatus

L = TypeVar("L", bound=Line)

#: The kinds of lines after the header, in their order.
_KINDS: dict[str, type[Line]] = {
    "session": SessionLine,
    "person": Person,
    "turn": TurnLine,
    "message": MessageLine,
    "compaction": CompactionLine,
}
_PLACES = {kind: place for place, kind in enumerate(_KINDS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A whole session, sound in itself."""

    session: SessionLine
    people: tuple[Person, ...]
    turns: tuple[TurnLine, ...]
    messages: tuple[MessageLine, ...]
    compactions: tuple[CompactionLine, ...]


class Reader:
    """Give it the lines in order, then ask for the package."""

    def __init__(self) -> None:
        self._line = 0
        self._header: Header | None = None
        self._place = -1
        self._sessions: list[SessionLine] = []
        self._people: list[Person] = []
        self._turns: list[TurnLine] = []
        self._messages: list[MessageLine] = []
        self._compactions: list[CompactionLine] = []

    def feed(self, line: bytes) -> None:
        self._line += 1
        if not line.strip():
            return
        value = self._parse(line)
        if self._header is None:
            self._header = self._open(value)
        else:
            self._take(value)

    def finish(self) -> Package:
        """What was read, if all of it came and it agrees with itself."""
        header = self._header
        if header is None:
            raise BadImport(line=1, why="there is nothing in the file")
        self._line += 1
        read = (len(self._people), len(self._turns), len(self._messages), len(self._compactions))
        if not self._sessions or read != (header.people, header.turns, header.messages, header.compactions):
            raise self._bad("the file ends before all that its first line promises")
        self._line = 2
        session = self._sessions[0]
        self._check(session)
        return Package(
            session=session,
            people=tuple(self._people),
            turns=tuple(self._turns),
            messages=tuple(self._messages),
            compactions=tuple(self._compactions),
        )

    def _bad(self, why: str) -> BadImport:
        return BadImport(line=self._line, why=why)

    def _parse(self, line: bytes) -> dict[str, object]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise self._bad("it is not JSON") from None
        if not isinstance(value, dict):
            raise self._bad("it is not a JSON object")
        return value

    def _open(self, value: dict[str, object]) -> Header:
        if value.get("format") != FORMAT:
            raise self._bad("this is not an export of a Trunkline session")
        version = value.get("version")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise self._bad(f"this export has version {version!r}, and this program knows versions {known}")
        return self._valid(value, Header)

    def _take(self, value: dict[str, object]) -> None:
        kind = value.get("type")
        place = _PLACES.get(kind) if isinstance(kind, str) else None
        if place is None:
            raise self._bad("its `type` is not known")
        if place < self._place or (self._place < 0 and place > 0) or (place == 0 and self._sessions):
            raise self._bad(f"a line of type {kind} does not belong here")
        self._place = place
        match self._valid(value, _KINDS[str(kind)]):
            case SessionLine() as session:
                self._sessions.append(session)
            case Person() as person:
                self._people.append(person)
            case TurnLine() as turn:
                self._add_turn(turn)
            case MessageLine() as message:
                self._add_message(message)
            case CompactionLine() as compaction:
                self._compactions.append(compaction)

    def _valid(self, value: dict[str, object], model: type[L]) -> L:
        try:
            return model.model_validate(value)
        except ValidationError as exc:
            raise self._bad(_sentence(exc.errors(include_url=False)[0])) from None

    def _add_turn(self, turn: TurnLine) -> None:
        if turn.seq != len(self._turns) + 1:
            raise self._bad(f"turn {len(self._turns) + 1} is missing")
        if self._turns and self._turns[-1].status is TurnStatus.PENDING:
            raise self._bad("a turn began before the one before it had ended")
        self._turns.append(turn)

    def _add_message(self, message: MessageLine) -> None:
        before = self._messages[-1] if self._messages else None
        if message.seq != len(self._messages) + 1:
            raise self._bad(f"message {len(self._messages) + 1} is missing")
        if before is not None and message.timestamp <= before.timestamp:
            raise self._bad("its time is not after that of the message before it")
        if message.turn is not None:
            self._check_turn(message, message.turn)
        elif message.content.get("partial"):
            raise self._bad("a text without a turn cannot grow")
        self._messages.append(message)

    def _check_turn(self, message: MessageLine, number: int) -> None:
        if number > len(self._turns):
            raise self._bad(f"there is no turn {number}")
        turn = self._turns[number - 1]
        pending = turn.status is TurnStatus.PENDING
        if message.seq < turn.firstMessage or not (pending or message.seq <= turn.lastMessage):
            raise self._bad(f"message {message.seq} does not lie in turn {number}")
        if message.content.get("partial") and not pending:
            raise self._bad("a text of a turn that has ended cannot grow")

    def _sum(self, *names: str) -> int:
        return sum(getattr(turn, name) or 0 for turn in self._turns for name in names)

    def _check(self, session: SessionLine) -> None:
        """What is true of every session."""
        known = {person.id for person in self._people}
        named = {session.person, *(turn.createdBy for turn in self._turns), *(one[0] for one in session.participants)}
        last = len(self._messages)
        sums = (self._sum("inputTokens", "cachedTokens"), self._sum("outputTokens", "reasoningTokens"))
        moments = [message.changedAt for message in self._messages] + [turn.statusAt for turn in self._turns]
        made = [compaction.createdAt for compaction in self._compactions]
        ids = [session.id, *(turn.id for turn in self._turns), *(message.id for message in self._messages)]
        if len(set(ids)) < len(ids):
            raise self._bad("two of its lines have the same id")
        if not named - {None} <= known:
            raise self._bad("somebody is named of whom there is no line")
        if any(turn.lastMessage > last for turn in self._turns):
            raise self._bad("a turn has more messages than there are")
        if any(compaction.throughSeq > last for compaction in self._compactions):
            raise self._bad("a compaction stands for more messages than there are")
        if (session.totalInputTokens, session.totalOutputTokens) != sums:
            raise self._bad("the session's tokens are not the sum of its turns'")
        if session.lastCompactionAt != max(made, default=None):
            raise self._bad("`lastCompactionAt` is not the time of the last compaction")
        if len({message.changedAt for message in self._messages}) < last:
            raise self._bad("two messages changed at the same time")
        if max(moments, default=session.updatedAt) > session.updatedAt:
            raise self._bad("something happened after `updatedAt`")


def _sentence(error: ErrorDetails) -> str:
    """One problem of a line, without its content, which is private."""
    where = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    return f"`{where}`: {message}" if where else message
