"""Bindings against a model written from the documentation: weights and sets instead of tuples and a match."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.bindings import FIELDS, Binding, Route, Router, unreachable
from routing.keys import PeerKind
from routing.messages import Address, Inbound, Sender

#: The documented order of fields: each one outweighs all those after it together.
WEIGHTS = {
    "thread": 128,
    "peer": 64,
    "sender": 32,
    "role": 16,
    "guild": 8,
    "account": 4,
    "channel": 2,
    "peer_kind": 1,
}
GUILDLESS = ("telegram", "web")

#: What is true of one message, or what one binding asks for, by field.
Given = dict[str, str]

VALUES = {name: ["1", "2"] for name in WEIGHTS} | {
    "channel": ["telegram", "web", "discord"],
    "peer_kind": list(PeerKind),
}
ASKED = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES.items()})
FULL = st.fixed_dictionaries(
    {name: st.sampled_from(VALUES[name]) for name in ("peer", "sender", "account", "channel", "peer_kind")},
    optional={name: st.sampled_from(VALUES[name]) for name in ("thread", "role", "guild")},
)
FILES = st.lists(ASKED, max_size=6)
#: Files about one place and its peer kinds, so that duplicates and complete sets of kinds are common.
CROWDED = st.sampled_from([{}, {"guild": "1"}, {"thread": "1"}, {"channel": "web"}, {"peer": "1"}]).flatmap(
    lambda asked: st.lists(
        st.sampled_from([asked, *(asked | {"peer_kind": kind} for kind in PeerKind)]), min_size=3, max_size=6
    )
)


def binding(asked: Given, agent: str = "helper") -> Binding:
    return Binding(agent=agent, **asked)  # type: ignore[arg-type]


def bindings(file: Sequence[Given]) -> tuple[Binding, ...]:
    """The bindings of a file, each with an agent named after its position."""
    return tuple(binding(asked, str(position)) for position, asked in enumerate(file))


def inbound(facts: Given) -> Inbound:
    return Inbound(
        external_id="1",
        address=Address(
            channel=facts["channel"],
            account=facts["account"],
            chat=facts["peer"],
            thread=facts.get("thread"),
        ),
        peer_kind=PeerKind(facts["peer_kind"]),
        sender=Sender(id=facts["sender"]),
        text="hello",
        guild=facts.get("guild"),
        roles=frozenset({facts["role"], "another"} if "role" in facts else ()),
    )


def winner(file: Sequence[Given], facts: Given) -> int | None:
    """The model: of all bindings that ask for nothing else than the facts, the first of the heaviest."""
    matching = [position for position, asked in enumerate(file) if asked.items() <= facts.items()]
    return max(matching, key=lambda at: sum(WEIGHTS[name] for name in file[at]), default=None)


def possible(facts: Given) -> Given:
    """The facts without those that the platforms do not have."""
    missing = {"guild", "role"} if facts["channel"] in GUILDLESS else set[str]()
    if facts["peer_kind"] == PeerKind.DM:
        missing |= {"guild", "role", "thread"}
    return {name: value for name, value in facts.items() if name not in missing}


def built_from(asked: Given) -> Iterator[Given]:
    """The messages a binding is made for: what it asks for, and otherwise unlike every other binding."""
    strange = {name: "strange" for name in ("peer", "sender", "account", "channel")}
    for kind in PeerKind:
        yield possible(strange | {"peer_kind": kind} | asked)


def reported(file: Sequence[Given]) -> set[int]:
    return {position for position, _ in unreachable(bindings(file))}


@pytest.mark.req("S001-13")
@given(FILES, FULL)
def test_the_most_specific_binding_wins(file: list[Given], facts: Given) -> None:
    route = Router(bindings(file)).route(inbound(facts))
    expected = winner(file, facts)
    assert (route and route.agent) == (None if expected is None else str(expected))


@pytest.mark.req("S001-13")
@given(FILES, FULL)
def test_the_most_specific_binding_wins_among_matching_ones(file: list[Given], facts: Given) -> None:
    matching = [{name: facts[name] for name in asked if name in facts} for asked in file]
    route = Router(bindings(matching), "default").route(inbound(facts))
    expected = winner(matching, facts)
    assert route
    assert route.agent == ("default" if expected is None else str(expected))


@pytest.mark.req("S001-13")
@given(ASKED, FULL)
def test_all_given_fields_must_match(asked: Given, facts: Given) -> None:
    assert binding(asked).matches(inbound(facts)) == (asked.items() <= facts.items())


@pytest.mark.req("S001-13")
@pytest.mark.parametrize("name", WEIGHTS)
def test_a_field_outweighs_all_later_ones(name: str) -> None:
    facts = {field: values[0] for field, values in VALUES.items()}
    later = {field: facts[field] for field in WEIGHTS if WEIGHTS[field] < WEIGHTS[name]}
    route = Router(bindings([later, {name: facts[name]}])).route(inbound(facts))
    assert route == Route("1", name, binding({name: facts[name]}, "1"))


def test_the_order_of_fields_is_the_documented_one() -> None:
    assert list(FIELDS) == sorted(WEIGHTS, key=lambda name: -WEIGHTS[name])


@pytest.mark.req("S001-13")
@given(ASKED, FULL, st.integers(2, 5))
def test_ties_go_to_the_first_in_the_file(asked: Given, facts: Given, copies: int) -> None:
    route = Router(bindings([asked] * copies)).route(inbound(facts | asked))
    assert route
    assert route.agent == "0"


@pytest.mark.req("S001-13")
@pytest.mark.parametrize(
    ("asked", "matched_by"),
    [
        ({}, "any"),
        ({"channel": "discord"}, "channel"),
        ({"peer": "1"}, "peer"),
        ({"channel": "discord", "peer": "1"}, "peer+channel"),
        ({"account": "1", "role": "1", "peer_kind": PeerKind.CHANNEL}, "role+account+peer_kind"),
    ],
)
def test_route_names_what_decided(asked: Given, matched_by: str) -> None:
    facts = {name: "1" for name in WEIGHTS} | {"channel": "discord", "peer_kind": PeerKind.CHANNEL}
    route = Router((binding(asked),), "default").route(inbound(facts))
    assert route == Route("helper", matched_by, binding(asked))


@pytest.mark.req("S001-13")
@given(FILES, FULL)
def test_matched_by_names_the_fields_of_the_winner(file: list[Given], facts: Given) -> None:
    route = Router(bindings([{}, *file])).route(inbound(facts))
    asked = [{}, *file][winner([{}, *file], facts) or 0]
    assert route
    assert route.matched_by == ("+".join(name for name in WEIGHTS if name in asked) or "any")
    assert route.binding == binding(asked, route.agent)


@pytest.mark.req("S001-13")
@given(FULL)
def test_without_a_match_the_default_agent_answers(facts: Given) -> None:
    route = Router((binding({"peer": "elsewhere"}),), "default").route(inbound(facts))
    assert route == Route("default", "default", None)


@pytest.mark.req("S001-13")
@given(FULL)
def test_without_a_default_nobody_answers(facts: Given) -> None:
    assert Router((binding({"peer": "elsewhere"}),)).route(inbound(facts)) is None
    assert Router(()).route(inbound(facts)) is None


@pytest.mark.req("S001-13", "R-20")
@pytest.mark.parametrize("name", ["thread", "peer", "sender", "role", "guild"])
@pytest.mark.parametrize(("written", "arrived"), [("+042", "42"), ("42", "042"), (" -7 ", "-07")])
def test_spellings_of_an_id_match(name: str, written: str, arrived: str) -> None:
    facts = {field: values[0] for field, values in VALUES.items()} | {name: arrived}
    assert binding({name: written}).matches(inbound(facts))


@pytest.mark.req("S001-13")
@pytest.mark.parametrize("name", ["thread", "role", "guild"])
@pytest.mark.parametrize("value", ["", "None", "none"])
def test_a_missing_fact_matches_no_value(name: str, value: str) -> None:
    facts = {"channel": "discord", "account": "1", "peer": "1", "sender": "1", "peer_kind": PeerKind.GROUP}
    assert not binding({name: value}).matches(inbound(facts))


@pytest.mark.req("S001-13")
@given(FILES | CROWDED, FULL)
def test_a_binding_reported_as_unreachable_never_decides(file: list[Given], facts: Given) -> None:
    messages = [possible(facts | asked) for asked in [{}, *file]]
    assert not reported(file) & {winner(file, message) for message in messages}


@pytest.mark.req("S001-13")
@given(FILES | CROWDED)
def test_unreachable_are_those_that_win_no_message_made_for_them(file: list[Given]) -> None:
    winners = {position for position, asked in enumerate(file) if position in wins(file, asked)}
    assert reported(file) == set(range(len(file))) - winners


def wins(file: Sequence[Given], asked: Given) -> set[int | None]:
    return {winner(file, facts) for facts in built_from(asked)}


@pytest.mark.req("S001-13")
@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ([{"peer": "1"}, {"peer": "01"}], (1, "binding 1 matches the same messages and comes first")),
        ([{"peer_kind": PeerKind.DM, "guild": ""}], (0, "a direct message has no guild, role or thread")),
        ([{"peer_kind": PeerKind.DM, "thread": "1"}], (0, "a direct message has no guild, role or thread")),
        ([{"channel": "telegram", "role": "1"}], (0, "telegram has no guilds and roles")),
        ([{"channel": "web", "guild": "1"}], (0, "web has no guilds and roles")),
        (
            [{}, *({"peer_kind": kind} for kind in PeerKind)],
            (0, "every kind of peer has a binding of its own that is more specific"),
        ),
    ],
)
def test_unreachable_says_why(file: list[Given], expected: tuple[int, str]) -> None:
    assert list(unreachable(bindings(file))) == [expected]


@pytest.mark.req("P16")
@given(FILES, FULL)
def test_what_was_bound_to_a_chats_old_id_is_bound_to_the_new_one(file: list[Given], facts: Given) -> None:
    """Nothing is bound to the new id, so that only the old one can decide."""
    before = Router(bindings(file)).route(inbound(facts))
    moved = inbound({**facts, "peer": "-1009"})
    after = Router(bindings(file)).route(replace(moved, former_chats=frozenset({facts["peer"]})))
    assert after == before
    forgotten = Router(tuple(one for one in bindings(file) if one.peer is None)).route(moved)
    assert Router(bindings(file)).route(moved) == forgotten
