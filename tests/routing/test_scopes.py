"""Which messages share a session: direct messages by person, groups by place."""

from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from routing.bindings import Binding, Router
from routing.keys import ANY, MAIN, PeerKind, SessionKey, normalise_id
from routing.messages import Address, Inbound, Sender
from routing.scopes import DmScope, GroupScope, Person, Scopes, dm_key, session_key

NAMES = st.text() | st.sampled_from([ANY, MAIN, "telegram", "discord"])
IDS = (st.text() | st.text(alphabet="main@/%12", max_size=4) | st.just(MAIN)).map(normalise_id)
PERSONS = st.builds(Person, IDS, st.booleans())
STRANGERS = st.builds(Person, IDS)
ADDRESSES = st.builds(Address, channel=NAMES, account=NAMES, chat=IDS, thread=st.none() | IDS)
GROUP_KINDS = st.sampled_from([PeerKind.GROUP, PeerKind.CHANNEL])
SCOPES = st.builds(Scopes, dm=st.sampled_from(DmScope), group=st.sampled_from(GroupScope))
OWNER = Person("1", owner=True)


def inbound(address: Address, kind: PeerKind) -> Inbound:
    return Inbound(external_id="1", address=address, peer_kind=kind, sender=Sender(id="1"), text="hello")


def direct(address: Address, person: Person, scope: DmScope) -> SessionKey:
    return session_key("helper", inbound(address, PeerKind.DM), person, Scopes(dm=scope))


def grouped(
    address: Address,
    person: Person = OWNER,
    scope: GroupScope = GroupScope.GROUP,
    kind: PeerKind = PeerKind.GROUP,
) -> SessionKey:
    return session_key("helper", inbound(address, kind), person, Scopes(group=scope))


def place(channel: str, chat: str, thread: str | None = None) -> Address:
    return Address(channel=channel, account="work", chat=chat, thread=thread)


@pytest.mark.req("S001-11", "R-19")
def test_direct_messages_of_the_owner_are_one_main_session() -> None:
    telegram = direct(place("telegram", "42"), OWNER, DmScope.PERSON)
    discord = direct(place("discord", "777"), OWNER, DmScope.PERSON)
    assert telegram == discord
    assert telegram.peer_id == "main"
    assert str(telegram) == "helper:*:*:dm:main"


@pytest.mark.req("S001-11", "R-19")
@given(IDS, ADDRESSES, st.sampled_from(DmScope))
def test_the_owner_is_literally_main(person: str, address: Address, scope: DmScope) -> None:
    assert direct(address, Person(person, owner=True), scope).peer_id == "main"


@pytest.mark.req("S001-11", "R-19")
@given(PERSONS, st.lists(ADDRESSES, min_size=2))
def test_one_person_has_one_session_over_all_channels(person: Person, addresses: list[Address]) -> None:
    assert len({direct(address, person, DmScope.PERSON) for address in addresses}) == 1


@pytest.mark.req("R-19")
@given(PERSONS, STRANGERS, ADDRESSES, ADDRESSES, st.sampled_from([DmScope.PERSON, DmScope.ACCOUNT]))
@example(OWNER, Person(MAIN), place("telegram", "1"), place("telegram", "1"), DmScope.PERSON)
@example(OWNER, Person(MAIN), place("telegram", "1"), place("telegram", "1"), DmScope.ACCOUNT)
@example(Person("@main"), Person(MAIN), place("web", "1"), place("web", "1"), DmScope.PERSON)
def test_two_persons_never_share_direct_messages(
    one: Person, other: Person, here: Address, there: Address, scope: DmScope
) -> None:
    assume(one.id != other.id)
    assert direct(here, one, scope) != direct(there, other, scope)


@pytest.mark.req("R-19")
@given(PERSONS, ADDRESSES, ADDRESSES)
def test_account_scope_separates_accounts(person: Person, here: Address, there: Address) -> None:
    keys = {direct(address, person, DmScope.ACCOUNT) for address in (here, there)}
    assert len(keys) == len({(address.channel, address.account) for address in (here, there)})


@pytest.mark.req("S001-11", "R-19")
@given(st.lists(st.tuples(ADDRESSES, PERSONS), min_size=1))
def test_main_scope_puts_everybody_together(messages: list[tuple[Address, Person]]) -> None:
    keys = {direct(address, person, DmScope.MAIN) for address, person in messages}
    assert keys == {SessionKey("helper", ANY, ANY, PeerKind.DM, MAIN)}


@pytest.mark.req("R-19")
def test_persons_stay_apart_unless_told_otherwise() -> None:
    assert Scopes() == Scopes(dm=DmScope.PERSON, group=GroupScope.GROUP)


@pytest.mark.req("R-19")
@given(ADDRESSES, PERSONS, st.sampled_from(DmScope))
def test_dm_key_needs_no_message(address: Address, person: Person, scope: DmScope) -> None:
    assert dm_key("helper", address.channel, address.account, person, scope) == direct(address, person, scope)


@pytest.mark.req("S001-12")
def test_chats_and_threads_of_one_account_are_apart() -> None:
    places = [place("telegram", "-1"), place("telegram", "-2"), place("telegram", "-1", "7")]
    assert [grouped(address).peer_id for address in places] == ["-1", "-2", "-1/7"]


@pytest.mark.req("S001-12", "R-20")
@given(ADDRESSES, ADDRESSES, GROUP_KINDS, st.sampled_from(GroupScope))
def test_places_share_no_session(here: Address, there: Address, kind: PeerKind, scope: GroupScope) -> None:
    keys = {grouped(address, OWNER, scope, kind) for address in (here, there)}
    assert len(keys) == len({here, there})


@pytest.mark.req("S001-12", "R-20")
@given(ADDRESSES, PERSONS, st.sampled_from(GroupScope), IDS)
def test_a_thread_never_shares_the_session_of_its_parent(
    address: Address, person: Person, scope: GroupScope, thread: str
) -> None:
    parent = replace(address, thread=None)
    assert grouped(replace(address, thread=thread), person, scope) != grouped(parent, person, scope)


@pytest.mark.req("R-20")
@given(ADDRESSES, PERSONS, st.sampled_from(GroupScope))
def test_a_group_and_a_channel_share_no_session(address: Address, person: Person, scope: GroupScope) -> None:
    keys = {grouped(address, person, scope, kind) for kind in (PeerKind.GROUP, PeerKind.CHANNEL)}
    assert len(keys) == 2


@pytest.mark.req("S001-12")
@given(ADDRESSES, PERSONS, PERSONS)
def test_group_scope_unites_the_members(address: Address, one: Person, other: Person) -> None:
    assert grouped(address, one) == grouped(address, other)


@pytest.mark.req("S001-12")
@given(ADDRESSES, PERSONS, PERSONS)
@example(place("web", "1"), OWNER, Person(MAIN))
def test_member_scope_separates_the_members(address: Address, one: Person, other: Person) -> None:
    keys = {grouped(address, person, GroupScope.MEMBER) for person in (one, other)}
    assert len(keys) == len({one.id, other.id})


@pytest.mark.req("S001-12", "R-20")
@pytest.mark.parametrize(("one", "other"), [("-100", " -0100"), ("7", "+7"), ("caf\u00e9", "cafe\u0301")])
def test_two_spellings_of_a_place_are_one_session(one: str, other: str) -> None:
    assert grouped(place("telegram", one)) == grouped(place("telegram", other))
    assert grouped(place("telegram", "1", one)) == grouped(place("telegram", "1", other))


@pytest.mark.req("R-19")
@given(ADDRESSES, ADDRESSES, PERSONS, PERSONS, GROUP_KINDS, SCOPES)
def test_groups_and_direct_messages_never_share_a_session(
    here: Address, there: Address, one: Person, other: Person, kind: PeerKind, scopes: Scopes
) -> None:
    assert grouped(here, one, scopes.group, kind) != direct(there, other, scopes.dm)


@pytest.mark.req("R-19")
@given(ADDRESSES, PERSONS, st.sampled_from(GroupScope), GROUP_KINDS)
def test_a_group_key_has_the_reserved_channel_only_if_a_channel_is_called_so(
    address: Address, person: Person, scope: GroupScope, kind: PeerKind
) -> None:
    key = grouped(address, person, scope, kind)
    assert (key.channel, key.account_id) == (address.channel, address.account)


@pytest.mark.req("R-19")
@given(ADDRESSES, PERSONS, PERSONS)
def test_scopes_meet_only_in_a_channel_called_like_the_reserved_one(
    address: Address, one: Person, other: Person
) -> None:
    assume((address.channel, address.account) != (ANY, ANY))
    assert direct(address, one, DmScope.ACCOUNT) != direct(address, other, DmScope.PERSON)


@pytest.mark.req("R-21")
@given(NAMES, ADDRESSES, st.sampled_from(PeerKind), PERSONS, SCOPES)
def test_the_router_completes_the_key(
    agent: str, address: Address, kind: PeerKind, person: Person, scopes: Scopes
) -> None:
    message = inbound(address, kind)
    route = Router((Binding(agent=agent, peer=address.chat),)).route(message)
    assert route
    key = session_key(route.agent, message, person, scopes)
    assert (key.agent_id, key.peer_kind) == (agent, kind)


@pytest.mark.req("R-21", "S001-12")
@given(NAMES, NAMES, ADDRESSES, st.sampled_from(PeerKind), PERSONS, SCOPES)
def test_two_agents_never_share_a_session(
    one: str, other: str, address: Address, kind: PeerKind, person: Person, scopes: Scopes
) -> None:
    keys = {session_key(agent, inbound(address, kind), person, scopes) for agent in (one, other)}
    assert len(keys) == len({one, other})
