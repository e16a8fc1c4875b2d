"""People: one row each, linked and merged explicitly; nobody ever comes into another one's conversation."""

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import UnknownPerson
from routing.keys import ANY, MAIN, PeerKind, SessionKey
from routing.scopes import DmScope, dm_key
from store import inbox, messages, people, sessions
from store.content import Text
from store.people import WEB_OWNER, Configured, PersonRow
from store.records import InboxItem, Session, Status
from tests.store.rows import arrive, begin, count, dump, fresh, make_key, run, say

ALICE, BOB = ("telegram", "1"), ("telegram", "2")
ALICE_TOO = ("discord", "11")


def meet(db: sqlite3.Connection, identity: tuple[str, str], name: str = "") -> PersonRow:
    return run(db, people.meet, *identity, name, 1)


def who(db: sqlite3.Connection, identity: tuple[str, str]) -> PersonRow:
    person = people.find(db, *identity)
    assert person is not None
    return person


def sync(db: sqlite3.Connection, *configured: Configured) -> None:
    run(db, people.sync, configured, 50)


def own_key(person: PersonRow, agent: str = "ada") -> SessionKey:
    return dm_key(agent, "telegram", "main", person.person, DmScope.PERSON)


def talk(db: sqlite3.Connection, person: PersonRow, text: str, now: int, agent: str = "ada") -> Session:
    """A direct message of a person, as it comes to lie in that person's session."""
    session = run(db, sessions.get_or_create, agent, own_key(person, agent), now, person=person.id)
    run(db, messages.append, session.id, [say(text)], now)
    return sessions.by_number(db, session.id)


def said(db: sqlite3.Connection, person: PersonRow, agent: str = "ada") -> list[object]:
    """What a person's live session with an agent has."""
    session = sessions.live(db, own_key(person, agent))
    return [] if session is None else [message.content for message in messages.every(db, session.id)]


def wait(db: sqlite3.Connection, person: PersonRow, name: str, agent: str = "ada") -> InboxItem:
    return arrive(db, name, own_key(person, agent), person=person.id)


# Meeting


def test_a_person_is_made_at_first_contact(db: sqlite3.Connection) -> None:
    assert people.find(db, *ALICE) is None
    alice = meet(db, ALICE, "Alice \ud83d")
    assert (alice.name, alice.owner, alice.known, alice.config_name) == ("Alice \ufffd", False, False, None)
    assert who(db, ALICE) == people.get(db, alice.id) == meet(db, ALICE, "Alice \ud83d") == alice
    assert meet(db, BOB).id != alice.id
    assert meet(db, ("discord", "1")).id != alice.id
    assert count(db, "people") == 3


def test_the_name_shown_is_the_last_one_seen(db: sqlite3.Connection) -> None:
    alice = meet(db, ALICE, "Alice")
    assert meet(db, ALICE, "Alicia") == replace(alice, name="Alicia")
    assert meet(db, ALICE, "").name == "Alicia"
    sync(db, Configured(name="alice", identities=dict([ALICE])))
    assert meet(db, ALICE, "Somebody Else").name == "alice"


@pytest.mark.req("S001-08")
def test_unknown_people_are_typed_errors(db: sqlite3.Connection) -> None:
    alice = meet(db, ALICE)
    before = dump(db)
    with pytest.raises(UnknownPerson):
        people.get(db, 99)
    for identity in (ALICE, BOB):
        with pytest.raises(UnknownPerson):
            run(db, people.link, *identity, 99, 5)
    assert dump(db) == before
    assert who(db, ALICE) == alice


# Linking


def test_a_free_identity_is_linked(db: sqlite3.Connection) -> None:
    alice = meet(db, ALICE)
    for _ in range(2):
        run(db, people.link, *ALICE_TOO, alice.id, 5)
        assert who(db, ALICE_TOO) == who(db, ALICE) == alice


@pytest.mark.parametrize("old_is_newer", [True, False])
def test_linking_merges_two_conversations(db: sqlite3.Connection, old_is_newer: bool) -> None:
    alice, shadow = meet(db, ALICE, "Alice"), meet(db, ALICE_TOO, "alice?")
    mine = talk(db, alice, "mine", 100 if old_is_newer else 300)
    other = talk(db, shadow, "the other's", 200)
    run(db, people.link, *ALICE_TOO, alice.id, 500)
    assert who(db, ALICE_TOO) == who(db, ALICE) == alice
    newer, older = (other, mine) if old_is_newer else (mine, other)
    live = sessions.for_agent(db, "ada", own_key(alice))
    assert (live.id, live.predecessor, live.person) == (newer.id, older.id, alice.id)
    archived = sessions.by_number(db, older.id)
    assert (archived.status, archived.reason, archived.person) == (Status.ARCHIVED, "merged", alice.id)
    assert sessions.live(db, own_key(shadow)) is None
    assert {str(one.content) for s in (mine, other) for one in messages.every(db, s.id)} == {
        str(Text("mine")),
        str(Text("the other's")),
    }


def test_each_agent_merges_its_own(db: sqlite3.Connection) -> None:
    alice, shadow = meet(db, ALICE), meet(db, ALICE_TOO)
    only = talk(db, shadow, "for bob", 100, agent="bob")
    group = run(db, sessions.get_or_create, "ada", make_key(), 1, person=shadow.id)
    account_scope = dm_key("ada", "discord", "main", shadow.person, DmScope.ACCOUNT)
    scoped = run(db, sessions.get_or_create, "ada", account_scope, 1, person=shadow.id)
    run(db, people.link, *ALICE_TOO, alice.id, 500)
    assert sessions.for_agent(db, "bob", own_key(alice, "bob")).id == only.id
    assert sessions.live(db, own_key(alice, "ada")) is None
    assert sessions.by_number(db, group.id).key == make_key()
    assert sessions.by_number(db, group.id).person == alice.id
    expected = dm_key("ada", "discord", "main", alice.person, DmScope.ACCOUNT)
    assert sessions.by_number(db, scoped.id).key == expected


def test_what_waits_follows(db: sqlite3.Connection) -> None:
    alice, shadow, bob = meet(db, ALICE), meet(db, ALICE_TOO), meet(db, BOB)
    running = wait(db, shadow, "running")
    begin(db, running)
    moved, stays = wait(db, shadow, "moved"), wait(db, bob, "stays")
    in_group = arrive(db, "in a group", make_key(), person=shadow.id)
    run(db, people.link, *ALICE_TOO, alice.id, 500)
    assert inbox.waiting(db, own_key(alice)) == [replace(moved, key=own_key(alice), person=alice.id)]
    assert inbox.waiting(db, own_key(shadow)) == []
    assert inbox.waiting(db, own_key(bob)) == [stays]
    assert inbox.waiting(db, make_key()) == [replace(in_group, person=alice.id)]


def test_ended_sessions_stay_where_they_are(db: sqlite3.Connection) -> None:
    alice, shadow = meet(db, ALICE), meet(db, ALICE_TOO)
    ended = talk(db, shadow, "old", 100)
    run(db, sessions.end, ended, Status.COMPLETED, "user", 101)
    run(db, people.link, *ALICE_TOO, alice.id, 500)
    after = sessions.by_number(db, ended.id)
    assert (after.status, after.key, after.person) == (Status.COMPLETED, own_key(shadow), alice.id)


def test_a_chain_of_merges(db: sqlite3.Connection) -> None:
    one, two, three = (meet(db, identity) for identity in (ALICE, BOB, ALICE_TOO))
    for number, person in enumerate((one, two, three)):
        talk(db, person, str(number), 100 + number)
    run(db, people.link, *BOB, one.id, 500)
    run(db, people.link, *ALICE, three.id, 600)
    assert who(db, ALICE) == who(db, BOB) == who(db, ALICE_TOO) == three
    assert said(db, three) == [Text("2")]
    chain, at = [], sessions.live(db, own_key(three))
    while at is not None:
        chain += [message.content for message in messages.every(db, at.id)]
        at = None if at.predecessor is None else sessions.by_number(db, at.predecessor)
    assert chain == [Text("2"), Text("1"), Text("0")]


def test_whoever_takes_over_the_owners_identity_is_the_owner(db: sqlite3.Connection) -> None:
    sync(db)
    owner, alice = who(db, WEB_OWNER), meet(db, ALICE)
    talk(db, alice, "before", 100)
    newer = talk(db, owner, "on the page", 200)
    run(db, people.link, *WEB_OWNER, alice.id, 500)
    new = people.owner(db)
    assert new is not None
    assert (new.id, new.known) == (alice.id, True)
    assert sessions.for_agent(db, "ada", own_key(new)).id == newer.id
    assert own_key(new).peer_id == MAIN


# The configuration


def test_without_an_owner_the_page_has_one_of_its_own(db: sqlite3.Connection) -> None:
    assert people.owner(db) is None
    sync(db)
    owner = people.owner(db)
    assert owner == who(db, WEB_OWNER)
    assert owner is not None
    assert (owner.known, own_key(owner)) == (True, SessionKey("ada", ANY, ANY, PeerKind.DM, MAIN))
    before = count(db, "people")
    sync(db)
    assert people.owner(db) == owner
    assert count(db, "people") == before


def test_configured_people_are_known_by_their_name(db: sqlite3.Connection) -> None:
    stranger = meet(db, BOB, "Bobby")
    sync(
        db,
        Configured(name="alice", owner=True, identities=dict([ALICE, ALICE_TOO])),
        Configured(name="bob", identities=dict([BOB])),
    )
    alice, bob = who(db, ALICE), who(db, BOB)
    assert (alice.name, alice.config_name, alice.owner, alice.known) == ("alice", "alice", True, True)
    assert who(db, ALICE_TOO) == who(db, WEB_OWNER) == people.owner(db) == alice
    assert bob == replace(stranger, name="bob", config_name="bob", known=True)


def test_the_same_configuration_again_changes_nothing(db: sqlite3.Connection) -> None:
    configured = [
        Configured(name="alice", owner=True, identities=dict([ALICE, ALICE_TOO])),
        Configured(name="bob", identities=dict([BOB])),
    ]
    sync(db, *configured)
    talk(db, who(db, ALICE), "hello", 100)
    before = dump(db)
    sync(db, *configured)
    sync(db, *reversed(configured))
    assert dump(db) == before


def test_who_leaves_the_configuration_is_a_stranger_again(db: sqlite3.Connection) -> None:
    sync(db, Configured(name="alice", identities=dict([ALICE])))
    alice = who(db, ALICE)
    sync(db)
    assert who(db, ALICE) == replace(alice, config_name=None, known=False)


def test_the_owners_earlier_conversation_becomes_main(db: sqlite3.Connection) -> None:
    alice = meet(db, ALICE)
    session = talk(db, alice, "hello", 100)
    item = wait(db, alice, "waits")
    sync(db, Configured(name="alice", owner=True, identities=dict([ALICE])))
    main = own_key(who(db, ALICE))
    assert main.peer_id == MAIN
    assert sessions.for_agent(db, "ada", main).id == session.id
    assert inbox.waiting(db, main) == [replace(item, key=main)]


def test_the_page_and_the_owner_become_one(db: sqlite3.Connection) -> None:
    sync(db)
    page = talk(db, who(db, WEB_OWNER), "on the page", 300)
    alice = meet(db, ALICE)
    older = talk(db, alice, "in telegram", 200)
    sync(db, Configured(name="alice", owner=True, identities=dict([ALICE])))
    owner = who(db, ALICE)
    assert owner == who(db, WEB_OWNER)
    live = sessions.for_agent(db, "ada", own_key(owner))
    assert (live.id, live.predecessor, live.person) == (page.id, older.id, alice.id)


@pytest.mark.parametrize("still_configured", [True, False])
def test_a_new_owner_does_not_inherit_the_old_ones_conversation(db: sqlite3.Connection, still_configured: bool) -> None:
    sync(db, Configured(name="alice", owner=True, identities=dict([ALICE])))
    before = talk(db, who(db, ALICE), "alice's secret", 100)
    item = wait(db, who(db, ALICE), "alice waits")
    prompt = arrive(db, "for her session", before.key, session=before.id)
    bob = meet(db, BOB)
    talk(db, bob, "bob's own", 90)
    new = [Configured(name="bob", owner=True, identities=dict([BOB]))]
    sync(db, *([Configured(name="alice", identities=dict([ALICE]))] * still_configured), *new)
    alice, bob = who(db, ALICE), who(db, BOB)
    assert (alice.owner, alice.known, bob.owner, bob.known) == (False, still_configured, True, True)
    assert who(db, WEB_OWNER) == bob
    assert (own_key(bob).peer_id, said(db, bob)) == (MAIN, [Text("bob's own")])
    assert said(db, alice) == [Text("alice's secret")]
    assert sessions.by_number(db, before.id).key == own_key(alice)
    assert inbox.waiting(db, own_key(alice)) == [replace(one, key=own_key(alice)) for one in (item, prompt)]
    assert inbox.waiting(db, own_key(bob)) == []


def test_an_owner_who_is_no_longer_one_loses_the_page(db: sqlite3.Connection) -> None:
    sync(db, Configured(name="alice", owner=True, identities=dict([ALICE])))
    talk(db, who(db, ALICE), "alice's secret", 100)
    sync(db, Configured(name="alice", identities=dict([ALICE])))
    alice, owner = who(db, ALICE), who(db, WEB_OWNER)
    assert alice.id != owner.id
    assert (alice.owner, alice.known, owner.owner) == (False, True, True)
    assert (said(db, alice), said(db, owner)) == ([Text("alice's secret")], [])


def test_an_old_owner_who_was_merged_keeps_his_conversation(db: sqlite3.Connection) -> None:
    sync(db, Configured(name="alice", owner=True, identities=dict([ALICE_TOO])))
    talk(db, who(db, ALICE_TOO), "the old owner's", 100)
    meet(db, ALICE)
    sync(
        db,
        Configured(name="alicia", identities=dict([ALICE, ALICE_TOO])),
        Configured(name="bob", owner=True, identities=dict([BOB])),
    )
    alice, bob = who(db, ALICE), who(db, BOB)
    assert who(db, ALICE_TOO) == alice
    assert (said(db, alice), said(db, bob)) == ([Text("the old owner's")], [])


@pytest.mark.parametrize("order", [1, -1])
def test_two_names_of_the_configuration_are_two_people(db: sqlite3.Connection, order: int) -> None:
    """An identity that was linked by mistake moves alone; it takes nobody's history along."""
    sync(db, Configured(name="alice", owner=True, identities=dict([ALICE, ALICE_TOO])))
    talk(db, who(db, ALICE), "alice's secret", 100)
    split = [
        Configured(name="alice", owner=True, identities=dict([ALICE])),
        Configured(name="carol", identities=dict([ALICE_TOO])),
    ]
    sync(db, *split[::order])
    alice, carol = who(db, ALICE), who(db, ALICE_TOO)
    assert (alice.config_name, alice.owner, carol.config_name, carol.owner) == ("alice", True, "carol", False)
    assert alice.id != carol.id
    assert (said(db, alice), said(db, carol)) == ([Text("alice's secret")], [])


@pytest.mark.parametrize("order", [1, -1])
def test_the_page_does_not_take_along_what_its_person_said_elsewhere(db: sqlite3.Connection, order: int) -> None:
    """All other identities of the owner go to another, in the same change that makes somebody new the owner."""
    sync(db, Configured(name="bob", owner=True, identities=dict([ALICE_TOO])))
    talk(db, who(db, ALICE_TOO), "secret", 100)
    change = [
        Configured(name="alice", identities=dict([ALICE_TOO])),
        Configured(name="bob", owner=True, identities=dict([ALICE])),
    ]
    sync(db, *change[::order])
    assert (who(db, WEB_OWNER), said(db, who(db, ALICE))) == (who(db, ALICE), [])


@pytest.mark.parametrize("order", [1, -1])
def test_two_people_of_the_configuration_may_become_one(db: sqlite3.Connection, order: int) -> None:
    sync(db, Configured(name="alice", identities=dict([ALICE])), Configured(name="carol", identities=dict([ALICE_TOO])))
    talk(db, who(db, ALICE), "one", 100)
    talk(db, who(db, ALICE_TOO), "two", 200)
    sync(db, Configured(name="alice", identities=dict([ALICE, ALICE_TOO][::order])))
    alice = who(db, ALICE)
    assert alice == who(db, ALICE_TOO)
    assert (alice.config_name, said(db, alice)) == ("alice", [Text("two")])


def test_a_name_given_to_another_identity_is_another_person(db: sqlite3.Connection) -> None:
    sync(db, Configured(name="alice", identities=dict([ALICE])))
    talk(db, who(db, ALICE), "secret", 100)
    sync(db, Configured(name="alice", identities=dict([BOB])))
    old, new = who(db, ALICE), who(db, BOB)
    assert (old.known, old.config_name, new.known, new.config_name) == (False, None, True, "alice")
    assert (said(db, old), said(db, new)) == ([Text("secret")], [])


@pytest.mark.req("S001-71")
def test_two_people_never_share_a_key(db: sqlite3.Connection) -> None:
    sync(db, Configured(name="alice", owner=True, identities=dict([ALICE])))
    everybody = [who(db, ALICE), *(meet(db, ("telegram", str(number))) for number in range(2, 12))]
    for scope in (DmScope.PERSON, DmScope.ACCOUNT):
        keys = {dm_key("ada", "telegram", "main", person.person, scope) for person in everybody}
        assert len(keys) == len(everybody)


NAMES = ("alice", "bob", "carol")
IDENTITIES = [(channel, user) for channel in ("telegram", "discord") for user in "123"]


@st.composite
def configurations(draw: st.DrawFn) -> list[Configured]:
    """People with at most one identity per channel, none twice; at most one owner."""
    free = draw(st.permutations(IDENTITIES))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    owner = draw(st.none() | st.sampled_from(NAMES))
    given: dict[str, dict[str, str]] = {name: {} for name in names}
    for channel, user in free:
        name = draw(st.none() | st.sampled_from(NAMES))
        if name in given and channel not in given[name]:
            given[name][channel] = user
    return [Configured(name=name, owner=name == owner, identities=given[name]) for name in names]


def check_rows(db: sqlite3.Connection, configured: Sequence[Configured]) -> None:
    """What is configured together is one person, two names are two, and one person is the owner."""
    for person in configured:
        for identity in person.identities.items():
            row = who(db, identity)
            assert (row.config_name, row.known, row.owner) == (person.name, True, person.owner)
    owner = who(db, WEB_OWNER)
    assert owner == people.owner(db)
    assert any(person.owner for person in configured) == (owner.config_name is not None)
    for session in sessions.list_all(db, sessions.SessionFilter())[0]:
        assert session.person is not None
        assert not session.status.live or session.key.peer_id == people.get(db, session.person).person.peer


@settings(deadline=None, max_examples=80)
@given(history=st.lists(configurations(), min_size=1, max_size=4))
def test_nobody_sees_what_others_said_whatever_the_configuration_was(history: Sequence[list[Configured]]) -> None:
    """An identity sees only what was said by those it was one person with, and by those they had been one with."""
    with fresh() as db:
        sees = {identity: {identity} for identity in IDENTITIES}
        for identity in IDENTITIES:
            meet(db, identity)
        for clock, configured in enumerate(history):
            sync(db, *configured)
            check_rows(db, configured)
            for identity in IDENTITIES:
                meet(db, identity)  # one that the configuration let go is a stranger again
                talk(db, who(db, identity), ":".join(identity), 100 * clock + IDENTITIES.index(identity))
            for identity in IDENTITIES:
                one = [other for other in IDENTITIES if who(db, other) == who(db, identity)]
                sees[identity] = set().union(*(sees[other] for other in one))
                visible = {str(Text(":".join(other))) for other in sees[identity]}
                assert {str(content) for content in said(db, who(db, identity))} <= visible
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_configured_person_without_identities_stays_the_same(db: sqlite3.Connection) -> None:
    """Or else the owner's conversation would be somebody else's after every start."""
    wanted = [Configured(name="ada", owner=True)]
    run(db, people.sync, wanted, 1)
    first = people.owner(db)
    run(db, people.sync, wanted, 2)
    assert first is not None
    assert people.owner(db) == first


def test_an_identity_taken_out_of_the_configuration_loses_its_rights(db: sqlite3.Connection) -> None:
    run(db, people.sync, [Configured(name="ada", owner=True, identities={"telegram": "1", "discord": "2"})], 1)
    run(db, people.sync, [Configured(name="ada", owner=True, identities={"telegram": "1"})], 2)
    ada = people.find(db, "telegram", "1")
    assert ada is not None
    assert ada.owner
    assert people.find(db, "discord", "2") is None
