"""Access against a table of what is allowed: whatever the table does not list is refused."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.access import Allowed, DmPolicy, Facts, Policy, Reason, Refused, decide
from routing.keys import PeerKind
from routing.messages import Addressed

CHAT, SENDER, GUILD, FORMER = "-100", "42", "9", "-5"

#: Who may write a direct message: one of these has to be true of the sender.
DIRECT = {
    DmPolicy.OFF: set[str](),
    DmPolicy.ALLOWLIST: {"owner", "listed"},
    DmPolicy.PAIRING: {"owner", "listed", "known"},
    DmPolicy.OPEN: {"human"},
}
HOW = ("addressed", "mention not needed")
#: When a group message is answered: one of these sets has to be true as a whole.
GROUP = [
    *({place, how} for place in ("chat listed", "former listed", "guild listed") for how in HOW),
    {"chat always"},
    {"former always"},
    {"guild always"},
    # So that the owner can ask an unlisted group for its id.
    {"owner", "command"},
]
#: Whom an agent with side effects answers.
TRUSTED = {"owner", "listed", "known"}

BOOL = st.booleans()
IDS = st.sampled_from([CHAT, SENDER, GUILD, FORMER])
POLICIES = st.builds(
    Policy,
    dm=st.sampled_from(DmPolicy),
    allow=st.frozensets(IDS),
    groups=st.frozensets(IDS),
    mention=BOOL,
    always=st.frozensets(IDS),
    bots=st.frozensets(IDS),
)
FACTS = st.builds(
    Facts,
    peer_kind=st.sampled_from(PeerKind),
    chat=IDS,
    sender=IDS,
    former_chats=st.frozensets(IDS),
    guild=st.none() | IDS,
    is_bot=BOOL,
    addressed=st.sampled_from(Addressed),
    known=BOOL,
    owner=BOOL,
    side_effects=BOOL,
)


def truths(policy: Policy, facts: Facts) -> set[str]:
    """Everything the table may ask about."""
    every = {
        "owner": facts.owner,
        "known": facts.known,
        "listed": facts.sender in policy.allow,
        "human": not facts.is_bot or facts.sender in policy.bots,
        "chat listed": facts.chat in policy.groups,
        "former listed": bool(facts.former_chats & policy.groups),
        "guild listed": facts.guild in policy.groups,
        "chat always": facts.chat in policy.always,
        "former always": bool(facts.former_chats & policy.always),
        "guild always": facts.guild in policy.always,
        "command": facts.addressed is Addressed.COMMAND,
        "addressed": facts.addressed != Addressed.NOT,
        "mention not needed": not policy.mention,
    }
    return {name for name, holds in every.items() if holds}


def model(policy: Policy, facts: Facts) -> bool:
    true = truths(policy, facts)
    direct_message = facts.peer_kind == PeerKind.DM
    allowed = DIRECT[policy.dm] & true if direct_message else [rule for rule in GROUP if rule <= true]
    trusted = not facts.side_effects or TRUSTED & true
    return "human" in true and bool(allowed) and bool(trusted)


def every_policy(dm: DmPolicy) -> Iterator[Policy]:
    lists = [frozenset[str](), frozenset({CHAT}), frozenset({SENDER}), frozenset({GUILD})]
    for allow, groups, mention in product(lists, lists, (True, False)):
        yield Policy(dm=dm, allow=allow, groups=groups, mention=mention)
    for always, bots in product(lists[:2], lists[1:3]):
        yield Policy(dm=dm, always=always, bots=bots)


def every_fact() -> Iterator[Facts]:
    bools = (True, False)
    for kind, guild, addressed in product(PeerKind, (None, GUILD), Addressed):
        for bot, known, owner, side_effects in product(bools, bools, bools, bools):
            yield Facts(
                peer_kind=kind,
                chat=CHAT,
                sender=SENDER,
                guild=guild,
                is_bot=bot,
                addressed=addressed,
                known=known,
                owner=owner,
                side_effects=side_effects,
            )


DIRECT_MESSAGE = Facts(peer_kind=PeerKind.DM, chat=SENDER, sender=SENDER)
GROUP_MESSAGE = Facts(peer_kind=PeerKind.GROUP, chat=CHAT, sender=SENDER)


def direct(**known: bool) -> Facts:
    return replace(DIRECT_MESSAGE, **known)  # type: ignore[arg-type]


def in_group(addressed: Addressed = Addressed.NOT, side_effects: bool = False) -> Facts:
    return replace(GROUP_MESSAGE, addressed=addressed, side_effects=side_effects)


@pytest.mark.parametrize("dm", DmPolicy)
def test_the_table_decides_every_case(dm: DmPolicy) -> None:
    for policy, facts in product(every_policy(dm), every_fact()):
        assert isinstance(decide(policy, facts), Allowed) == model(policy, facts), (policy, facts)


@given(POLICIES, FACTS)
def test_nobody_is_allowed_whom_the_table_does_not_allow(policy: Policy, facts: Facts) -> None:
    assert isinstance(decide(policy, facts), Allowed) == model(policy, facts)


@given(POLICIES, FACTS)
def test_every_answer_explains_itself(policy: Policy, facts: Facts) -> None:
    decision = decide(policy, facts)
    assert (decision.rule if isinstance(decision, Allowed) else decision.reason.sentence).strip()


@pytest.mark.req("P29")
@given(POLICIES, FACTS)
def test_bots_are_refused_unless_they_are_listed(policy: Policy, facts: Facts) -> None:
    bot = replace(facts, is_bot=True)
    assert decide(replace(policy, bots=frozenset()), bot) == Refused(Reason.BOT)
    listed = replace(policy, bots=frozenset({facts.sender}))
    assert decide(listed, bot) == decide(listed, replace(facts, is_bot=False)), "and then they are like anybody"


@pytest.mark.req("P16")
@given(POLICIES, FACTS)
def test_what_held_for_a_chats_old_id_holds_for_the_new_one(policy: Policy, facts: Facts) -> None:
    new = replace(facts, peer_kind=PeerKind.GROUP, chat="-1009", former_chats=facts.former_chats | {facts.chat})
    old = replace(facts, peer_kind=PeerKind.GROUP)
    assert decide(policy, new) == decide(policy, old)


@given(POLICIES, FACTS)
def test_a_longer_list_refuses_nobody(policy: Policy, facts: Facts) -> None:
    more = replace(policy, always=policy.always | {CHAT}, groups=policy.groups | {GUILD}, allow=policy.allow | {SENDER})
    if isinstance(decide(policy, facts), Allowed):
        assert isinstance(decide(more, facts), Allowed)


@given(POLICIES, FACTS)
def test_dm_off_refuses_everybody(policy: Policy, facts: Facts) -> None:
    off = replace(policy, dm=DmPolicy.OFF)
    message = replace(facts, peer_kind=PeerKind.DM, is_bot=False)
    assert decide(off, message) == Refused(Reason.DM_OFF)


@given(POLICIES, FACTS)
def test_agents_with_side_effects_refuse_strangers(policy: Policy, facts: Facts) -> None:
    stranger = replace(facts, side_effects=True, known=False, owner=False, sender="77")
    assert isinstance(decide(policy, stranger), Refused)


@given(FACTS)
def test_the_default_policy_lets_no_stranger_in(facts: Facts) -> None:
    command = facts.owner and facts.addressed is Addressed.COMMAND
    known = facts.owner or facts.known if facts.peer_kind is PeerKind.DM else command
    assert isinstance(decide(Policy(), facts), Allowed) == (known and not facts.is_bot)


@pytest.mark.parametrize(
    ("policy", "facts", "reason"),
    [
        (Policy(dm=DmPolicy.OFF), direct(owner=True), Reason.DM_OFF),
        (Policy(dm=DmPolicy.ALLOWLIST), direct(known=True), Reason.NOT_ON_ALLOWLIST),
        (Policy(dm=DmPolicy.PAIRING), direct(), Reason.PAIRING_REQUIRED),
        (Policy(dm=DmPolicy.OPEN), direct(side_effects=True), Reason.STRANGER),
        (Policy(), in_group(addressed=Addressed.MENTION), Reason.GROUP_NOT_LISTED),
        (Policy(groups=frozenset({CHAT})), in_group(), Reason.NOT_ADDRESSED),
        (Policy(groups=frozenset({CHAT}), mention=False), in_group(side_effects=True), Reason.STRANGER),
    ],
)
def test_refusal_names_the_reason(policy: Policy, facts: Facts, reason: Reason) -> None:
    assert decide(policy, facts) == Refused(reason)


@pytest.mark.parametrize(
    ("policy", "facts", "rule"),
    [
        (Policy(dm=DmPolicy.OPEN), direct(), "dm=open"),
        (Policy(dm=DmPolicy.ALLOWLIST), direct(owner=True), "owner"),
        (Policy(dm=DmPolicy.ALLOWLIST, allow=frozenset({SENDER})), direct(), "allow"),
        (Policy(dm=DmPolicy.PAIRING), direct(known=True), "known person"),
        (Policy(groups=frozenset({CHAT})), in_group(addressed=Addressed.REPLY), "groups, reply"),
        (Policy(groups=frozenset({CHAT}), mention=False), in_group(), "groups"),
        (Policy(always=frozenset({CHAT})), in_group(), "always"),
        (Policy(), replace(in_group(Addressed.COMMAND), owner=True), "owner's command"),
    ],
)
def test_permission_names_the_rule(policy: Policy, facts: Facts, rule: str) -> None:
    assert decide(policy, facts) == Allowed(rule)


@pytest.mark.req("R-20")
def test_ids_in_the_policy_may_be_spelled_otherwise() -> None:
    policy = Policy(
        dm=DmPolicy.ALLOWLIST,
        allow=frozenset({" +042"}),
        groups=frozenset({"-0100 "}),
        always=frozenset({"-0200 "}),
        bots=frozenset({"+042"}),
    )
    assert decide(policy, direct()) == Allowed("allow")
    assert decide(policy, direct(is_bot=True)) == Allowed("allow")
    assert decide(policy, replace(in_group(), chat="-200")) == Allowed("always")
    assert decide(policy, in_group(addressed=Addressed.COMMAND)) == Allowed("groups, command")


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_sentence_of_its_own(reason: Reason) -> None:
    assert reason.sentence.strip()
    assert [other for other in Reason if other.sentence == reason.sentence] == [reason]
