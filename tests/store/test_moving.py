"""Moving sessions to another agent: what is chosen, what cannot be moved and why, what follows."""

import sqlite3

import pytest

from routing.keys import SessionKey
from store import inbox, messages, moving, sessions, turns
from store.moving import Obstacle
from store.records import Session, Status
from store.turns import Ending
from tests.store.rows import arrive, ask, begin, dump, make_key, run, say

ADA, BOB = "ada", "bob"


def make(db: sqlite3.Connection, agent: str = ADA, peer: str = "1", now: int = 1) -> Session:
    return run(db, sessions.get_or_create, agent, make_key(agent, peer), now)


def carry(db: sqlite3.Connection, *given: Session, source: str | None = None) -> list[moving.Move]:
    """Move to Bob; the plan before says the same and changes nothing."""
    ids = [session.public_id for session in given]
    before = dump(db)
    plan = moving.plan(db, ids, source, BOB)
    assert dump(db) == before
    done = run(db, moving.carry_out, ids, source, BOB, 100)
    assert [move.obstacle for move in plan] == [move.obstacle for move in done]
    assert [(move.session_id, move.old, move.new) for move in plan] == [
        (move.session_id, move.old, move.new) for move in done
    ]
    return done


@pytest.mark.req("S001-62")
def test_the_history_is_readable_under_the_new_key(db: sqlite3.Connection) -> None:
    session = make(db)
    run(db, messages.append_messages, ADA, session.key, [say("hello")], 5)
    [move] = carry(db, session)
    assert (move.session_id, move.old, move.new) == (session.public_id, make_key(ADA), make_key(BOB))
    assert (move.obstacle, move.joins) == (None, None)
    assert [row.seq for row in messages.get_history(db, BOB, make_key(BOB))] == [1]
    assert sessions.live(db, make_key(ADA)) is None


@pytest.mark.req("S001-62")
def test_what_waits_on_the_key_follows(db: sqlite3.Connection) -> None:
    session = make(db)
    arrive(db, "for the key", session.key)
    arrive(db, "for the session", session.key, session=session.id)
    arrive(db, "for another", make_key(ADA, "2"))
    carry(db, session)
    assert [item.text for item in inbox.waiting(db, make_key(BOB))] == ["for the key", "for the session"]
    assert [item.text for item in inbox.waiting(db, make_key(ADA, "2"))] == ["for another"]
    begun, _ = begin(db, inbox.waiting(db, make_key(BOB))[0])
    assert begun.id == session.id


def test_an_ended_session_moves_without_what_waits_for_its_successor(db: sqlite3.Connection) -> None:
    ended = make(db)
    run(db, sessions.end, ended, Status.COMPLETED, "x", 5)
    arrive(db, "next", ended.key)
    [move] = carry(db, ended)
    assert move.obstacle is None
    assert sessions.get(db, ended.public_id).key == make_key(BOB)
    assert [item.text for item in inbox.waiting(db, make_key(ADA))] == ["next"]


def test_what_is_chosen(db: sqlite3.Connection) -> None:
    one, two, ended, other = make(db), make(db, peer="2", now=9), make(db, peer="3"), make(db, BOB, "4")
    run(db, sessions.end, ended, Status.COMPLETED, "x", 5)
    assert moving.chosen(db, ADA, None) == [two.public_id, one.public_id]
    named = [other.public_id, ended.public_id, other.public_id]
    assert moving.chosen(db, None, named) == moving.chosen(db, ADA, named) == [other.public_id, ended.public_id]
    assert moving.chosen(db, "nobody", None) == moving.chosen(db, None, []) == []


def test_what_cannot_be_moved_says_why_and_the_rest_goes(db: sqlite3.Connection) -> None:
    there, running, free = make(db, BOB, "1"), make(db, peer="2"), make(db, peer="3")
    run(db, turns.add, running.id, ask(), 5)
    moves = carry(db, there, running, free)
    assert [move.obstacle for move in moves] == [Obstacle.SAME_AGENT, Obstacle.RUNNING, None]
    assert sessions.get(db, running.public_id).key.agent_id == ADA
    assert sessions.get(db, free.public_id).key.agent_id == BOB
    [unknown] = moving.plan(db, ["nothing"], None, BOB)
    assert (unknown.obstacle, unknown.old, unknown.new) == (Obstacle.UNKNOWN, None, None)
    assert all(obstacle.sentence for obstacle in Obstacle)


def test_a_named_session_of_another_agent_than_from_stays(db: sqlite3.Connection) -> None:
    session = make(db)
    [move] = carry(db, session, source="carl")
    assert move.obstacle is Obstacle.OTHER_AGENT


def test_a_turn_that_has_ended_is_no_obstacle(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = run(db, turns.add, session.id, ask(), 5)
    run(db, turns.complete, turn.id, None, None, Ending(), 6)
    assert carry(db, session)[0].obstacle is None


# Where the other agent has the conversation already


def test_two_live_sessions_of_one_conversation_are_joined(db: sqlite3.Connection) -> None:
    mine, theirs = make(db), make(db, BOB)
    run(db, messages.append, mine.id, [say("newer")], 50)
    [move] = carry(db, mine)
    assert move.joins == theirs.public_id
    live = sessions.live(db, make_key(BOB))
    assert live is not None
    assert (live.id, live.predecessor) == (mine.id, theirs.id)
    assert sessions.get(db, theirs.public_id).status is Status.ARCHIVED


def test_sessions_that_would_meet_are_told_in_the_plan(db: sqlite3.Connection) -> None:
    one, two = make(db), run(db, sessions.create, make_key("carl"), 2)
    moves = moving.plan(db, [one.public_id, two.public_id], None, BOB)
    assert [move.joins for move in moves] == [None, one.public_id]
    carry(db, one, two)
    assert [sessions.get(db, one.public_id).status.live, sessions.get(db, two.public_id).status.live].count(True) == 1


@pytest.mark.parametrize("busy", ["running", "waiting for mine", "waiting for theirs"])
def test_nothing_that_waits_is_buried_by_joining(db: sqlite3.Connection, busy: str) -> None:
    mine, theirs = make(db), make(db, BOB)
    if busy == "running":
        run(db, turns.add, theirs.id, ask(), 5)
    else:
        session = mine if busy.endswith("mine") else theirs
        arrive(db, "prompt", session.key, session=session.id)
    [move] = carry(db, mine)
    assert move.obstacle is Obstacle.JOIN_BUSY
    assert sessions.live(db, make_key(ADA)) is not None
    assert sessions.live(db, make_key(BOB)) is not None


def test_keys_keep_their_place(db: sqlite3.Connection) -> None:
    session = make(db, peer="a/b:c")
    carry(db, session)
    moved = sessions.get(db, session.public_id).key
    assert moved == SessionKey(BOB, session.key.channel, session.key.account_id, session.key.peer_kind, "a/b:c")
