"""What questions do to the database. Each function is (part of) one transaction; the first decision is the only one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from channels.base import Verdict
from gateway import phrases
from gateway.questions import wording
from routing.messages import Address, Press
from store import messages, outbox, people, places, questions, sessions, turns
from store.content import Text
from store.database import Database
from store.ids import Micros
from store.outbox import Draft
from store.people import PersonRow
from store.questions import Choice, Decision, NewQuestion, Question, QuestionState
from store.records import OutboxKind, OutboxState, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of an attempt to decide."""

    verdict: Verdict
    #: Set if this attempt decided it.
    question: Question | None = None
    #: Where its messages have to change.
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A message that will ask, at a place that has buttons or has not."""

    address: Address
    buttons: bool
    #: Where people read the history there is nothing to send.
    state: OutboxState


def ask(db: Database, new: NewQuestion, where: Sequence[Shown], now: Micros) -> Question:
    """Put a question, if its turn still runs."""
    said = f"{new.text}\n\n{wording.numbered(new.options)}"
    row = turns.progress(db, new.turn, None, Role.SYSTEM, Text(said), now)
    question = questions.ask(db, replace(new, message=row), now)
    for one in where:
        draft = Draft(address=one.address, text=question.text if one.buttons else said, kind=OutboxKind.NOTICE)
        questions.attach(db, question.id, outbox.put(db, draft, one.state, now))
    return question


def press(db: Database, press: Press, now: Micros) -> Settled:
    """A button: only where its question was asked, and only for who may."""
    read = wording.read(press.data)
    question = None if read is None else questions.by_token(db, read[0])
    if read is None or question is None or not _belongs(db, question, press):
        return Settled(verdict=Verdict(phrases.QUESTION_UNKNOWN, alert=True, over=True))
    identity = f"{press.channel}:{press.sender.id}"
    person = people.find(db, press.channel, press.sender.id)
    if person is None and identity in question.answerers:
        # Named by an id, and here for the first time.
        person = people.meet(db, press.channel, press.sender.id, press.sender.name, now)
    return choose(db, question, read[1], person, identity, now)


def choose(
    db: Database, question: Question, number: int, person: PersonRow | None, identity: str, now: Micros
) -> Settled:
    """Decide by the number of an option. The first one counts."""
    if person is None or not may_answer(question, person, identity):
        return Settled(verdict=Verdict(phrases.NOT_YOURS_TO_ANSWER, alert=True))
    if not question.open:
        return _over(question)
    if not 1 <= number <= len(question.options):
        return Settled(verdict=Verdict(phrases.NO_SUCH_OPTION.format(count=len(question.options)), alert=True))
    option = question.options[number - 1]
    outcome = phrases.CHOSEN.format(option=wording.code(option.label), name=wording.code(person.name or identity))
    decision = Decision(state=QuestionState.CHOSEN, outcome=outcome, chosen=option.id, by=person.id)
    ended = questions.decide(db, question.id, decision, now)
    if ended is None:
        current = questions.get(db, question.id)
        return _over(current or question)
    verdict = Verdict(phrases.YOU_CHOSE.format(option=option.label))
    return Settled(verdict=verdict, question=ended, places=_show(db, ended, now))


def expire(db: Database, question: int, minutes: float, now: Micros) -> Settled:
    """Nobody answered in time: whoever comes first, this or a press, decides."""
    found = questions.get(db, question)
    if found is None:
        return Settled(verdict=Verdict(phrases.QUESTION_UNKNOWN, over=True))
    option = wording.rejecting(found.options)
    outcome = phrases.NOBODY_ANSWERED.format(minutes=f"{minutes:g}")
    decision = Decision(state=QuestionState.TIMED_OUT, outcome=outcome, chosen=_id(option))
    ended = questions.decide(db, question, decision, now)
    if ended is None:
        return Settled(verdict=Verdict(""), question=questions.get(db, question))
    return Settled(verdict=Verdict(outcome), question=ended, places=_show(db, ended, now))


def close(db: Database, turn: int, why: str, now: Micros) -> list[str]:
    """The turn has ended: what it still asked is over. The places where that has to be shown."""
    return [place for one in questions.open_of_turn(db, turn) for place in _close(db, one, why, now)]


def close_all(db: Database, why: str, now: Micros) -> int:
    """At start: whoever asked is gone."""
    found = questions.all_open(db)
    for one in found:
        _close(db, one, why, now)
    return len(found)


def may_answer(question: NewQuestion, person: PersonRow, identity: str) -> bool:
    """The owner and those whom the agent's table names; having asked for it gives no right."""
    return person.owner or identity in question.answerers or person.config_name in question.answerers


def _close(db: Database, question: Question, why: str, now: Micros) -> tuple[str, ...]:
    outcome = phrases.QUESTION_CLOSED.format(why=why)
    ended = questions.decide(db, question.id, Decision(state=QuestionState.CLOSED, outcome=outcome), now)
    return () if ended is None else _show(db, ended, now)


def _show(db: Database, question: Question, now: Micros) -> tuple[str, ...]:
    """In the history and in every chat where it was asked."""
    if question.message is not None:
        _, when = sessions.advance(db, question.session, 0, now)
        messages.replace(db, question.message, Text(wording.decided(question)), when)
    return tuple(questions.show(db, question.id, wording.decided(question), now))


def _over(question: Question) -> Settled:
    text = phrases.QUESTION_OVER.format(why=wording.line(question.outcome or "", 150).replace("`", ""))
    return Settled(verdict=Verdict(text, alert=True, over=True))


def _belongs(db: Database, question: Question, press: Press) -> bool:
    """The button is under one of the messages of the question, in that chat; a forged one need not be."""
    chat = places.current(db, press.channel, press.account, press.chat)
    address = Address(channel=press.channel, account=press.account, chat=chat)
    return any(_same_chat(db, one, address) for one in questions.addresses(db, question.id))


def _same_chat(db: Database, one: Address, other: Address) -> bool:
    chat = places.current(db, one.channel, one.account, one.chat)
    return (one.channel, one.account, chat) == (other.channel, other.account, other.chat)


def _id(option: Choice | None) -> str | None:
    return None if option is None else option.id
