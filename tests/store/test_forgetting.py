"""Forgetting a person: nothing of theirs is left in any row, and nothing of anybody else's is touched."""

import sqlite3
from typing import Any

import pytest

from routing.errors import OwnerProtected, UnknownPerson
from routing.keys import ANY, MAIN, PeerKind, SessionKey, peer_id
from routing.messages import Address, Inbound, Sender
from routing.scopes import DmScope, dm_key
from store import (
    compactions,
    filters,
    forgetting,
    inbox,
    messages,
    outbox,
    people,
    refusals,
    search,
    sessions,
    turns,
    upkeep,
)
from store.content import Text
from store.forgetting import Forgotten
from store.inbox import Arrival
from store.outbox import Draft
from store.people import Configured, PersonRow
from store.records import InboxItem, NewMessage, OutboxKind, OutboxState, Role, Session, Turn
from store.schema import REMOVED
from store.sessions import SessionFilter, SessionPatch
from store.turns import Ending, Instruction
from tests.store.rows import count, dump, run
from tests.store.test_state_machine import VIOLATIONS

CANARY = "zq7canary"
GROUP = SessionKey("main", "telegram", "bot", PeerKind.GROUP, "-100")


class Talk:
    """People write, and are answered."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.serial = 0
        self.names: dict[str, str] = {}

    def meet(self, user: str, channel: str = "telegram", name: str = "") -> PersonRow:
        name = self.names.setdefault(user, name or f"{CANARY} of {user}")
        return run(self.db, people.meet, channel, user, name, 1)

    def direct(self, person: PersonRow, agent: str = "main") -> SessionKey:
        return dm_key(agent, "telegram", "bot", person.person, DmScope.PERSON)

    def accept(self, user: str, key: SessionKey, text: str = f"{CANARY} here", **more: Any) -> InboxItem:
        self.serial += 1
        person = self.meet(user)
        chat = user if key.peer_kind is PeerKind.DM else "-100"
        arrival = Arrival(
            external_id=f"{user}/{self.serial}",
            key=key,
            address=Address(channel="telegram", account="bot", chat=chat),
            text=text,
            person=person.id,
            sender_name=person.name,
            **more,
        )
        return run(self.db, inbox.accept, arrival, 10).item

    def begin(self, item: InboxItem) -> tuple[Session, Turn]:
        """As the gateway does it: the sender in the metadata, the first words as the title."""
        sender = people.get(self.db, item.person or 0)
        metadata = {"receivedAt": 1, "sender": {"id": sender.public_id, "name": item.sender_name}}
        user = NewMessage(role=Role.USER, content=Text(item.text), public_id=item.message_id, metadata=metadata)
        instruction = Instruction(messages=(user,), summary=item.text, created_by=item.person)
        session, turn = run(self.db, turns.begin, item.key.agent_id, [item], instruction, 20)
        if turn.seq == 1:
            run(self.db, sessions.patch, item.key.agent_id, item.key, SessionPatch(title=item.text))
        return session, turn

    def ask(self, user: str, key: SessionKey, text: str = f"{CANARY} here", answer: str = "An answer.") -> Session:
        """A whole turn, with a delivery."""
        item = self.accept(user, key, text)
        session, turn = self.begin(item)
        message = NewMessage(role=Role.AGENT, content=Text(answer, partial=False))
        run(self.db, turns.complete, turn.id, None, message, Ending(answer_summary=answer), 30)
        run(self.db, outbox.put, Draft(address=item.address, text=answer, turn=turn.id), OutboxState.SENT, 30)
        return session

    def notice(self, user: str, text: str = f"notice to {CANARY}") -> None:
        draft = Draft(address=Address(channel="telegram", account="bot", chat=user), text=text, kind=OutboxKind.NOTICE)
        run(self.db, outbox.put, draft, OutboxState.PARKED, 5)

    def refuse(self, user: str) -> None:
        message = Inbound(
            external_id="r",
            address=Address(channel="telegram", account="bot", chat=user),
            peer_kind=PeerKind.DM,
            sender=Sender(id=user),
            text="x",
        )
        run(self.db, refusals.record, message, "unknown_sender", 5)

    def forget(self, name: str, *, really: bool = False) -> Forgotten:
        def forget(db: sqlite3.Connection) -> Forgotten:
            return forgetting.forget(db, forgetting.look(db, name, really=really), 100)

        done = run(self.db, forget)
        broken = {rule: rows for rule, sql in VIOLATIONS.items() if (rows := self.db.execute(sql).fetchall())}
        assert broken == {}
        assert self.db.execute("PRAGMA foreign_key_check").fetchall() == []
        self.db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
        return done


@pytest.fixture
def talk(db: sqlite3.Connection) -> Talk:
    return Talk(db)


def everything(db: sqlite3.Connection) -> str:
    """All rows; what the index keeps of words that are gone is the business of `scrub`."""
    return repr({table: rows for table, rows in dump(db).items() if not table.startswith("search_")})


# Who is meant


def test_a_person_is_found_by_each_of_their_names(db: sqlite3.Connection, talk: Talk) -> None:
    run(db, people.sync, [Configured(name="ada", identities={"telegram": "1"})], 1)
    ada = people.find(db, "telegram", "1")
    bob = talk.meet("2")
    assert ada is not None
    for name in (ada.public_id, "ada", "telegram:1", "telegram:+01"):
        assert forgetting.resolve(db, name) == ada
    assert forgetting.resolve(db, "telegram:2") == bob
    for name in ("", "nobody", "telegram:3", "discord:1", "telegram", ":"):
        with pytest.raises(UnknownPerson):
            forgetting.resolve(db, name)


def test_who_was_merged_is_the_one_they_were_merged_into(db: sqlite3.Connection, talk: Talk) -> None:
    one, two, three = talk.meet("1"), talk.meet("2"), talk.meet("3")
    run(db, people.link, "telegram", "2", one.id, 5)
    run(db, people.link, "telegram", "1", three.id, 5)
    for person in (one, two, three):
        assert forgetting.resolve(db, person.public_id).id == three.id
        assert filters.same_person(db, person.public_id) == [one.id, two.id, three.id]


def test_the_owner_is_forgotten_only_when_it_is_meant(db: sqlite3.Connection, talk: Talk) -> None:
    run(db, people.sync, [], 1)
    before = dump(db)
    with pytest.raises(OwnerProtected):
        forgetting.look(db, "web:owner")
    assert dump(db) == before
    talk.forget("web:owner", really=True)
    assert people.owner(db) is None


# What goes


def test_direct_conversations_go_with_all_that_belongs_to_them(db: sqlite3.Connection, talk: Talk) -> None:
    ada, bob = talk.meet("1"), talk.meet("2", name="Bob")
    for agent in ("main", "other"):
        talk.ask("1", talk.direct(ada, agent), answer=f"about {CANARY}")
    run(db, compactions.record, 1, strategy="s", through_seq=1, summary=CANARY, tokens=(2, 1), now=40)
    talk.accept("1", talk.direct(ada))
    theirs = talk.ask("2", talk.direct(bob), "bob was here")
    talk.notice("1")
    talk.notice("2", "notice to bob")
    talk.refuse("1")
    talk.refuse("2")
    before = [messages.every(db, theirs.id), turns.of_session(db, theirs.id), sessions.by_number(db, theirs.id)]
    gone = [session.public_id for session in (sessions.by_number(db, 1), sessions.by_number(db, 2))]
    done = talk.forget("telegram:1")
    assert done == Forgotten(
        person=ada.public_id,
        config_name=None,
        sessions=2,
        messages=4,
        turns=0,
        summaries=0,
        inbox=3,
        outbox=3,
        refusals=1,
        identities=1,
        session_ids=tuple(gone),
    )
    assert CANARY not in everything(db)
    assert [messages.every(db, theirs.id), turns.of_session(db, theirs.id), sessions.by_number(db, theirs.id)] == before
    assert [row.text for row in outbox.parked(db)] == ["notice to bob"]
    assert [row.sender for row in refusals.newest(db)] == ["2"]
    assert [count(db, table) for table in ("sessions", "inbox", "identities")] == [1, 1, 1]


def test_in_a_group_only_their_words_go(db: sqlite3.Connection, talk: Talk) -> None:
    talk.meet("2", name="Bob")
    session = talk.ask("1", GROUP, f"{CANARY} one")
    talk.ask("2", GROUP, "bob speaks")
    talk.ask("1", GROUP, f"{CANARY} two")
    run(db, compactions.record, session.id, strategy="s", through_seq=2, summary=f"{CANARY}!", tokens=(2, 1), now=40)
    before = turns.of_session(db, session.id)
    mark = sessions.by_number(db, session.id).updated_at
    done = talk.forget("telegram:1")
    assert (done.sessions, done.messages, done.turns, done.summaries, done.outbox) == (0, 2, 2, 1, 2)
    assert CANARY not in everything(db)
    rows = messages.every(db, session.id)
    assert [row.content for row in rows] == [
        Text(REMOVED),
        Text("An answer.", partial=False),
        Text("bob speaks"),
        Text("An answer.", partial=False),
        Text(REMOVED),
        Text("An answer.", partial=False),
    ]
    assert rows[0].metadata == {"receivedAt": 1, "forgotten": True}
    assert rows[2].metadata["sender"]["name"] == "Bob"
    assert [row.seq for row in messages.changed_since(db, session.id, mark)] == [1, 5]
    after = turns.of_session(db, session.id)
    assert [turn.instruction_summary for turn in after] == [REMOVED, "bob speaks", REMOVED]
    assert [(turn.status, turn.answer_summary, turn.usage, turn.status_at) for turn in after] == [
        (turn.status, turn.answer_summary, turn.usage, turn.status_at) for turn in before
    ]
    left = sessions.by_number(db, session.id)
    assert (left.title, left.person, left.message_count) == (None, None, 6)
    assert search.find(db, CANARY).hits == ()
    assert sessions.list_all(db, SessionFilter(channel="telegram"))[1] == 1


def test_a_title_that_others_gave_stays(db: sqlite3.Connection, talk: Talk) -> None:
    talk.meet("2", name="Bob")
    session = talk.ask("2", GROUP, "bob began")
    talk.ask("1", GROUP)
    talk.forget("telegram:1")
    left = sessions.by_number(db, session.id)
    assert (left.title, left.person is not None) == ("bob began", True)


def test_a_direct_conversation_of_everybody_is_a_group(db: sqlite3.Connection, talk: Talk) -> None:
    """`dm_scope = "main"`: others speak in it, so it stays and only their words go."""
    talk.meet("2", name="Bob")
    shared = SessionKey("main", ANY, ANY, PeerKind.DM, MAIN)
    session = talk.ask("1", shared)
    talk.ask("2", shared, "bob speaks")
    talk.notice("1")
    done = talk.forget("telegram:1")
    assert (done.sessions, done.messages) == (0, 1)
    assert CANARY not in everything(db)
    assert [row.content for row in messages.every(db, session.id)][2] == Text("bob speaks")


def test_a_member_s_own_part_of_a_group_goes_whole(db: sqlite3.Connection, talk: Talk) -> None:
    ada, bob = talk.meet("1"), talk.meet("2", name="Bob")
    mine = SessionKey("main", "telegram", "bot", PeerKind.GROUP, peer_id("-100", member=ada.public_id))
    theirs = SessionKey("main", "telegram", "bot", PeerKind.GROUP, peer_id("-100", member=bob.public_id))
    talk.ask("1", mine, answer=f"you said {CANARY}")
    stays = talk.ask("2", theirs, "bob speaks")
    assert talk.forget("telegram:1").sessions == 1
    assert CANARY not in everything(db)
    assert sessions.live(db, theirs) is not None
    assert sessions.by_number(db, stays.id).message_count == 2


def test_all_identities_and_all_that_became_one_person_go(db: sqlite3.Connection, talk: Talk) -> None:
    one = talk.meet("1")
    other = talk.meet("9", "discord")
    talk.ask("1", GROUP, f"{CANARY} before")
    run(db, people.link, "discord", "9", one.id, 5)
    done = talk.forget("discord:9")
    assert done.identities == 2
    assert CANARY not in everything(db)
    assert people.find(db, "telegram", "1") is people.find(db, "discord", "9") is None
    for row in (one, other):
        left = people.get(db, row.id)
        assert (left.name, left.config_name, left.known, left.owner) == ("", None, False, False)


def test_what_waits_in_a_group_goes_and_that_of_others_stays(db: sqlite3.Connection, talk: Talk) -> None:
    talk.meet("2", name="Bob")
    talk.accept("1", GROUP)
    talk.accept("2", GROUP, "bob waits")
    talk.forget("telegram:1")
    assert [item.text for item in inbox.all_waiting(db)] == ["bob waits"]
    assert CANARY not in everything(db)


def test_running_turns_that_have_to_be_stopped_first(db: sqlite3.Connection, talk: Talk) -> None:
    ada = talk.meet("1")
    talk.meet("2", name="Bob")
    _, mine = talk.begin(talk.accept("1", talk.direct(ada)))
    _, bobs = talk.begin(talk.accept("2", GROUP, "bob asks"))
    talk.accept("1", GROUP)
    whose = forgetting.look(db, "telegram:1")
    assert [turn.id for turn in forgetting.running(db, whose)] == [mine.id]
    run(db, turns.fail, bobs.id, "stopped", Ending(), 50)
    _, asked = talk.begin(inbox.waiting(db, GROUP)[0])
    whose = forgetting.look(db, "telegram:1")
    assert {turn.id for turn in forgetting.running(db, whose)} == {mine.id, asked.id}


def test_forgetting_twice_is_no_error(db: sqlite3.Connection, talk: Talk) -> None:
    ada = talk.meet("1")
    talk.ask("1", GROUP)
    talk.forget(ada.public_id)
    again = talk.forget(ada.public_id)
    assert (again.sessions, again.messages, again.identities) == (0, 0, 0)


def test_who_is_forgotten_is_a_stranger_when_they_write_again(db: sqlite3.Connection, talk: Talk) -> None:
    ada = talk.meet("1")
    talk.ask("1", talk.direct(ada))
    talk.forget("telegram:1")
    again = talk.meet("1", name="Ada")
    assert again.public_id != ada.public_id
    session = talk.ask("1", talk.direct(again), "hello again")
    assert [row.content for row in messages.every(db, session.id)][0] == Text("hello again")


# What the database lets happen to an ended turn


def test_an_ended_turn_takes_the_marker_and_nothing_else(db: sqlite3.Connection, talk: Talk) -> None:
    talk.ask("1", GROUP)
    for change in ("'other'", "NULL", "''", f"'{REMOVED}', model = 'x'", f"'{REMOVED}', created_by = NULL"):
        with pytest.raises(sqlite3.IntegrityError, match="never changes"):
            db.execute(f"UPDATE turns SET instruction_summary = {change}")
    db.execute("UPDATE turns SET instruction_summary = ?", (REMOVED,))
    with pytest.raises(sqlite3.IntegrityError, match="never changes"):
        db.execute("UPDATE turns SET instruction_summary = 'back again'")


@pytest.mark.parametrize("column", ["public_id", "answer_summary", "input_tokens", "status", "errors", "status_at"])
def test_no_other_column_changes_with_it(db: sqlite3.Connection, talk: Talk, column: str) -> None:
    talk.ask("1", GROUP)
    with pytest.raises(sqlite3.IntegrityError, match="never changes"):
        db.execute(f"UPDATE turns SET instruction_summary = '{REMOVED}', {column} = '7'")


def test_every_column_of_a_turn_is_guarded(db: sqlite3.Connection, talk: Talk) -> None:
    """A column that comes later must be added to the exception, or it could change with it."""
    talk.ask("1", GROUP)
    columns = [row[1] for row in db.execute("PRAGMA table_info(turns)").fetchall()]
    for column in set(columns) - {"instruction_summary"}:
        with pytest.raises(sqlite3.Error, match="never changes|datatype mismatch"):
            db.execute(f"UPDATE turns SET instruction_summary = '{REMOVED}', {column} = coalesce({column}, 0) || '7'")


# No trace in the index


def test_the_index_forgets_words_that_are_gone(db: sqlite3.Connection, talk: Talk) -> None:
    """Deleted texts are only marked in the index until its parts are merged."""
    talk.meet("2", name="Bob")
    talk.ask("1", GROUP)
    talk.ask("2", GROUP, "bob speaks")
    talk.forget("telegram:1")

    def blocks() -> bytes:
        return b"".join(block for (block,) in db.execute("SELECT block FROM search_data").fetchall())

    assert CANARY[3:].encode() in blocks()
    upkeep.scrub(db)
    assert CANARY[3:].encode() not in blocks()
    assert [hit.snippet for hit in search.find(db, "bob speaks").hits] == ["bob speaks"]
