"""Questions in the database: decided once, shown as they are, forgotten with whoever decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import inbox, messages, outbox, people, questions, sessions, turns
from store.content import Text
from store.inbox import Arrival
from store.outbox import Draft
from store.questions import Choice, Decision, NewQuestion, Question, QuestionState
from store.records import NewMessage, OutboxKind, OutboxState, Role
from store.schema import REMOVED
from store.turns import Instruction
from tests.store.helpers import in_memory

KEY = SessionKey("main", "telegram", "bot", PeerKind.GROUP, "-100")
HERE = Address(channel="telegram", account="bot", chat="-100")
YES = Decision(state=QuestionState.CHOSEN, outcome="Yes, by Bob.", chosen="yes")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(in_memory()) as connection:
        yield connection


def ask(db: sqlite3.Connection, token: str = "t1") -> tuple[Question, int]:
    """A question of a running turn, and the message that asks it."""
    bob = people.meet(db, "telegram", "2", "Bob", 1)
    session = sessions.live(db, KEY)
    turn = None if session is None else turns.pending_of(db, session.id)
    if turn is None:
        item = inbox.accept(db, Arrival(external_id="1", key=KEY, address=HERE, text="go", person=bob.id), 2).item
        user = NewMessage(role=Role.USER, content=Text("go"), public_id=item.message_id)
        _, turn = turns.begin(db, "main", [item], Instruction(messages=(user,), summary="go"), 3)
    row = turns.progress(db, turn.id, None, Role.SYSTEM, Text("may I?"), 4)
    new = NewQuestion(
        token=token,
        turn=turn.id,
        asker=bob.id,
        answerers=(),
        text="may I?",
        options=(Choice("yes", "Yes", "allow_once"),),
        expires_at=9,
        message=row,
    )
    question = questions.ask(db, new, 5)
    delivery = outbox.put(db, Draft(address=HERE, text="may I?", kind=OutboxKind.NOTICE), OutboxState.READY, 5)
    questions.attach(db, question.id, delivery)
    return question, delivery


@pytest.mark.req("P52")
def test_the_first_decision_is_the_only_one(db: sqlite3.Connection) -> None:
    question, _ = ask(db)
    decided = questions.decide(db, question.id, YES, 6)
    assert decided is not None
    assert (decided.state, decided.chosen) == (QuestionState.CHOSEN, "yes")
    no = Decision(state=QuestionState.CLOSED, outcome="over")
    assert questions.decide(db, question.id, no, 7) is None
    assert questions.get(db, question.id) == decided
    assert questions.all_open(db) == []


def test_what_is_open_is_found_by_turn_session_and_place(db: sqlite3.Connection) -> None:
    first, _ = ask(db)
    second, _ = ask(db, "t2")
    questions.decide(db, first.id, YES, 6)
    for found in (
        questions.all_open(db),
        questions.open_of_turn(db, first.turn),
        questions.open_of_session(db, first.session),
        questions.open_at(db, HERE.place),
    ):
        assert found == [second]
    assert questions.open_at(db, "elsewhere") == []


@pytest.mark.parametrize("sent_before", [True, False])
def test_a_message_says_what_was_decided_also_if_that_was_while_it_was_sent(
    db: sqlite3.Connection, sent_before: bool
) -> None:
    question, delivery = ask(db)
    claimed = outbox.claim(db, HERE.place, 6)
    assert claimed is not None
    assert claimed.question == question.id
    if sent_before:
        assert questions.shown(db, delivery, "m1", "may I?", 7)
    assert questions.show(db, question.id, "yes", 8) == [HERE.place]
    if not sent_before:
        assert not questions.shown(db, delivery, "m1", "may I?", 9)
    again = outbox.claim(db, HERE.place, 10)
    assert again is not None
    assert (again.text, again.sent_id, again.editing) == ("yes", "m1", True)
    assert questions.shown(db, delivery, "m1", "yes", 11)
    assert outbox.claim(db, HERE.place, 12) is None


def test_who_decided_is_forgotten(db: sqlite3.Connection) -> None:
    question, delivery = ask(db)
    bob = people.meet(db, "telegram", "2", "Bob", 1)
    by_bob = Decision(state=YES.state, outcome=YES.outcome, chosen="yes", by=bob.id)
    questions.decide(db, question.id, by_bob, 6)
    questions.forget(db, [bob.id], 7)
    found = questions.get(db, question.id)
    assert found is not None
    assert (found.asker, found.decided_by, found.outcome, found.chosen) == (None, None, REMOVED, "yes")
    assert outbox.get(db, delivery).text.endswith(REMOVED)
    [row] = [row for row in messages.every(db, question.session) if row.role is Role.SYSTEM]
    assert row.content == Text(f"may I?\n\n{REMOVED}")


def test_questions_go_with_their_session(db: sqlite3.Connection) -> None:
    question, _ = ask(db)
    sessions.remove(db, question.session)
    assert questions.get(db, question.id) is None


def test_thoughts_are_wanted_by_place(db: sqlite3.Connection) -> None:
    questions.set_thoughts(db, "a", wanted=True)
    questions.set_thoughts(db, "a", wanted=True)
    assert (questions.wants_thoughts(db, "a"), questions.wants_thoughts(db, "b")) == (True, False)
    questions.set_thoughts(db, "a", wanted=False)
    assert not questions.wants_thoughts(db, "a")
