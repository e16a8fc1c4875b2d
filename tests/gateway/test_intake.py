"""Intake: who may speak, to whom, in which conversation; and where the answer goes."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gateway import phrases
from gateway.logs import Event as Logged
from routing.access import Reason
from routing.keys import PeerKind
from routing.messages import Address, Addressed, Inbound, Sender
from store import inbox, people, places, sessions
from store.content import Text
from store.database import Database
from store.records import InboxState, Status, TurnStatus
from tests.fakes.agents import ScriptedAgent, echo, says
from tests.fakes.harness import Chat, Rig, Rigs

ANN = {"ann": {"owner": True, "telegram": 42, "discord": 43}}


def platforms(rig: Rig) -> tuple[Chat, Chat]:
    """A Telegram and a Discord that are the test's."""
    telegram, discord = Chat(rig.clock, "bot", "telegram"), Chat(rig.clock, "bot", "discord")
    rig.channels = (rig.chat, telegram, discord)
    return telegram, discord


async def keys(rig: Rig) -> list[str]:
    return [str(session.key) for session in await rig.sessions()]


# -- the key -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("S001-11", "S001-51", "CARD-17")
async def test_the_owners_direct_messages_are_one_conversation_called_main(rigs: Rigs) -> None:
    rig = rigs(agent := ScriptedAgent(), people=ANN)
    telegram, discord = platforms(rig)
    await rig.start()
    await rig.ask("one", channel=telegram, sender="42")
    await rig.ask("two", channel=discord, sender="43", chat="900")
    await rig.running.intake.take(
        Inbound(
            external_id="web",
            address=Address(channel="web", account="main", chat="owner"),
            peer_kind=PeerKind.DM,
            sender=Sender(id="owner"),
            text="three",
        )
    )
    await rig.settled()
    assert await keys(rig) == ["main:*:*:dm:main"]
    assert (telegram.texts("42"), discord.texts("900")) == (["re: one"], ["re: two"])
    assert [text for _, text in await rig.said()] == ["one", "re: one", "two", "re: two", "three", "re: three"]
    assert len(agent.seen[2].history) == 4


async def test_two_people_never_share_a_direct_conversation(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("one", sender="1")
    await rig.ask("two", sender="2")
    assert len(set(await keys(rig))) == 2
    assert agent.seen[1].history == ()


@pytest.mark.req("S001-12", "CARD-17")
async def test_groups_and_threads_are_conversations_of_their_own(rigs: Rigs) -> None:
    rig = await rigs().start()
    for chat, thread in (("-100", None), ("-200", None), ("-100", "7"), ("-100", None)):
        await rig.ask("x", sender="1", chat=chat, thread=thread, group=True)
    await rig.ask("x", sender="2", chat="-100", group=True)
    assert await keys(rig) == [
        "main:memory:main:group:-100",
        "main:memory:main:group:-200",
        "main:memory:main:group:-100/7",
    ]


async def test_a_group_may_be_divided_by_member(rigs: Rigs) -> None:
    rig = await rigs(main={"group_scope": "member"}).start()
    for sender in ("1", "2", "1"):
        await rig.ask("x", sender=sender, group=True)
    assert len(await keys(rig)) == 2


@pytest.mark.req("S001-51", "S001-52")
async def test_the_message_keeps_the_id_that_it_was_given_when_it_was_accepted(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()])).start()
    taken = await rig.running.intake.take(rig.message("hello", external_id="e1", reply_to="r1"))
    assert taken.item is not None
    await rig.settled()
    [row] = await rig.history()
    assert row.public_id == taken.item.message_id
    stored = await rig.read(lambda db: inbox.find(db, "memory", "e1"))
    assert stored is not None
    assert (stored.state, stored.address.reply_to) == (InboxState.RUNNING, "r1")
    assert stored.key == (await rig.session()).key


@pytest.mark.req("S000-57")
async def test_a_prompt_is_visible_from_the_moment_it_is_taken(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()])).start()
    api = rig.running.api
    session = await api.create_session(None, "owner")
    for number in range(3):
        await api.prompt(session.public_id, f"text {number}", None)
    await rig.settled()
    found = await api.conversation(session.public_id)
    assert [row.content for row in found.messages] == [Text("text 0")]
    assert [item.text for item in found.waiting] == ["text 1", "text 2"]


# -- once --------------------------------------------------------------------------------------------------------------


async def test_the_same_message_twice_makes_one_turn(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await asyncio.gather(*(rig.say("hello", external_id="e1") for _ in range(5)))
    await rig.settled()
    await rig.ask("hello", external_id="e1")
    assert (rig.chat.texts(), len(agent.seen)) == (["re: hello"], 1)
    assert len(rig.journal.of(Logged.MESSAGE_DUPLICATE)) == 5
    await rig.ask("hello", external_id="e2")
    assert len(agent.seen) == 2


async def test_the_same_prompt_twice_makes_one_turn(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    api = rig.running.api
    one, two = [await api.create_session(None, "owner") for _ in range(2)]
    results = await asyncio.gather(*(api.prompt(one.public_id, "hello", "1") for _ in range(5)))
    await api.prompt(two.public_id, "hello", "1")
    await rig.settled()
    assert sorted(accepted.duplicate for accepted in results) == [False, True, True, True, True]
    assert len({accepted.item.message_id for accepted in results}) == 1
    assert len(agent.seen) == 2, "an id belongs to its session"


# -- the address -------------------------------------------------------------------------------------------------------


async def test_a_later_message_from_elsewhere_does_not_redirect_an_answer(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = rigs(ScriptedAgent([go_on, *says("first")], echo), people=ANN)
    telegram, discord = platforms(rig)
    await rig.start()
    await rig.ask("one", channel=telegram, sender="42", reply_to="t1")
    await rig.ask("two", channel=discord, sender="43", chat="900", reply_to="d1")
    await rig.ask("three", channel=telegram, sender="42", reply_to="t2")
    go_on.set()
    await rig.settled()
    assert [(one.text, one.address.reply_to) for one in telegram.shown] == [("first", "t1"), ("re: three", "t2")]
    assert [(one.text, one.address.reply_to) for one in discord.shown] == [("re: two", "d1")]
    assert len(await keys(rig)) == 1


@pytest.mark.req("P16")
async def test_an_answer_follows_its_chat_to_another_id(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("first")], echo)).start()
    await rig.ask("one", chat="-100", group=True)
    await rig.ask("two", chat="-100", group=True)
    await rig.write(lambda db: places.set_alias(db, "memory", "main", "-100", "-200", rig.clock.now()))
    go_on.set()
    await rig.settled()
    assert (rig.chat.texts("-100"), rig.chat.texts("-200")) == ([], ["first", "re: two"])


async def test_an_alias_decides_about_what_comes_after_it(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("one", chat="-200", group=True)
    await rig.write(lambda db: places.set_alias(db, "memory", "main", "-100", "-200", rig.clock.now()))
    await rig.ask("two", chat="-100", group=True)
    assert await keys(rig) == ["main:memory:main:group:-200"]
    assert (rig.chat.texts("-100"), rig.chat.texts("-200")) == ([], ["re: one", "re: two"])


async def test_an_alias_holds_for_a_message_that_is_not_taken(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()]), main={"max_waiting": 1}).start()
    await rig.write(lambda db: places.set_alias(db, "memory", "main", "-100", "-200", rig.clock.now()))
    for text in "abc":
        await rig.ask(text, chat="-100", group=True)
    assert (rig.chat.texts("-100"), rig.chat.texts("-200")) == ([], [phrases.LANE_FULL.format(limit=1)])
    assert [one.chat for one in await rig.refusals()] == ["-200"]


async def test_answers_find_their_way_back_in_a_crowd(rigs: Rigs) -> None:
    """Every answer has the address of its own message, whatever the order of the turns."""
    rig = rigs(main={"max_turns": 3}, memory={"second": {"dm": "open", "groups": ["-100"], "streaming": False}})
    second = Chat(rig.clock, "second")
    rig.channels = (rig.chat, second)
    await rig.start()
    expected: dict[str, set[tuple[str | None, ...]]] = {"main": set(), "second": set()}
    for number in range(60):
        via = (rig.chat, second)[number % 2]
        group, thread, sender = number % 3 == 0, str(number % 5) if number % 3 == 0 else None, str(number % 7)
        await rig.say(f"{number}", channel=via, sender=sender, group=group, thread=thread, reply_to=f"r{number}")
        expected[via.account].add((f"re: {number}", "-100" if group else sender, thread, f"r{number}"))
    await rig.settled()
    for via in (rig.chat, second):
        assert {
            (one.text, one.address.chat, one.address.thread, one.address.reply_to) for one in via.shown
        } == expected[via.account]


# -- bindings and agents -----------------------------------------------------------------------------------------------


@pytest.mark.req("S001-13", "S001-60", "CARD-19")
async def test_bindings_choose_the_agent_and_the_answer_leaves_through_the_same_account(rigs: Rigs) -> None:
    agents = {name: ScriptedAgent(says(name)) for name in ("fallback", "work", "boss", "room")}
    rig = rigs(
        agents=agents,
        gateway={"default_agent": "fallback"},
        memory={"office": {"dm": "open", "groups": ["-100"], "streaming": False}},
        bindings=[
            {"agent": "work", "channel": "memory", "account": "office"},
            {"agent": "boss", "account": "office", "sender": "9"},
            {"agent": "room", "peer": "-100"},
        ],
    )
    office = Chat(rig.clock, "office")
    rig.channels = (rig.chat, office)
    await rig.start()
    await rig.ask("x", sender="1")
    await rig.ask("x", sender="1", channel=office)
    await rig.ask("x", sender="9", channel=office)
    await rig.ask("x", sender="1", channel=office, group=True)
    assert (rig.chat.texts(), office.texts("1"), office.texts("9"), office.texts("-100")) == (
        ["fallback"],
        ["work"],
        ["boss"],
        ["room"],
    )


@pytest.mark.req("S001-60")
async def test_one_person_and_two_agents_are_two_conversations(rigs: Rigs) -> None:
    one, two = ScriptedAgent(), ScriptedAgent()
    rig = rigs(
        agents={"one": one, "two": two},
        gateway={"default_agent": "one"},
        memory={"second": {"dm": "open", "streaming": False}},
        bindings=[{"agent": "two", "account": "second"}],
    )
    second = Chat(rig.clock, "second")
    rig.channels = (rig.chat, second)
    await rig.start()
    await rig.ask("secret")
    await rig.ask("hello", channel=second)
    await rig.ask("again", channel=second)
    for session in await rig.sessions():
        said = [text for _, text in await rig.said(session)]
        assert ("secret" in said) is (session.key.agent_id == "one")
    assert [turn.agent for turn in one.seen + two.seen] == ["one", "two", "two"]
    assert all("secret" not in str(turn) for turn in two.seen)
    assert one.seen[0].session_id != two.seen[0].session_id


def dump(db: Database, session: int) -> list[tuple[Any, ...]]:
    """Every byte of a session."""
    rows = db.execute("SELECT * FROM sessions WHERE id = ?", (session,)).fetchall()
    for table in ("messages", "turns"):
        rows += db.execute(f"SELECT * FROM {table} WHERE id >> 32 = ? ORDER BY id", (session,)).fetchall()
    return rows


@pytest.mark.req("S001-61")
async def test_another_binding_leaves_existing_conversations_as_they_are(rigs: Rigs) -> None:
    rig = await rigs(agents={"old": ScriptedAgent(), "new": ScriptedAgent()}, gateway={"default_agent": "old"}).start()
    await rig.ask("one")
    [old] = await rig.sessions()
    before = await rig.read(lambda db: dump(db, old.id))
    await rig.stop()
    await rig.start(bindings=[{"agent": "new", "channel": "memory"}])
    await rig.ask("two")
    old, new = await rig.sessions()
    assert (old.key.agent_id, new.key.agent_id) == ("old", "new")
    assert await rig.read(lambda db: dump(db, old.id)) == before
    assert await rig.said(new) == [("user", "two"), ("agent", "re: two")]
    await rig.stop()
    await rig.start(bindings=[])
    await rig.ask("three")
    assert [text for _, text in await rig.said(old)] == ["one", "re: one", "three", "re: three"]


# -- access ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "how", "reason"),
    [
        ({"dm": "off"}, {}, Reason.DM_OFF),
        ({"dm": "allowlist", "allow": ["2"]}, {}, Reason.NOT_ON_ALLOWLIST),
        ({}, {"bot": True}, Reason.BOT),
        ({}, {"group": True, "chat": "-999"}, Reason.GROUP_NOT_LISTED),
        ({}, {"group": True, "addressed": Addressed.NOT}, Reason.NOT_ADDRESSED),
        ({"dm": "off"}, {"text": "/stop"}, Reason.DM_OFF),
        ({}, {"text": " \n"}, Reason.EMPTY),
    ],
)
async def test_refusals_are_silent_and_recorded(
    rigs: Rigs, table: dict[str, Any], how: dict[str, Any], reason: Reason
) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": table}).start()
    text = how.pop("text", "hello")
    await rig.ask(text, reply_to="r1", **how)
    assert (rig.chat.log, agent.seen, await rig.sessions()) == ([], [], [])
    [refusal] = await rig.refusals()
    assert (refusal.reason, refusal.sender, refusal.message_id) == (reason, "1", "r1")
    [line] = rig.journal.of(Logged.ACCESS_REFUSED)
    assert line["reason"] == reason
    strangers = await rig.read(lambda db: people.find(db, "memory", "1"))
    assert strangers is None, "nobody is remembered who was not let in"


async def test_without_an_agent_there_is_a_reason(rigs: Rigs) -> None:
    rig = await rigs(
        agents={"a": ScriptedAgent(), "b": ScriptedAgent()},
        gateway={"default_agent": ""},
        bindings=[{"agent": "a", "sender": "7"}],
    ).start()
    await rig.ask("hello")
    assert [one.reason for one in await rig.refusals()] == [Reason.NO_AGENT]
    await rig.ask("hello", sender="7")
    assert rig.chat.texts("7") == ["re: hello"]


async def test_the_owner_is_let_in_where_others_have_to_wait(rigs: Rigs) -> None:
    rig = rigs(people=ANN)
    telegram, _ = platforms(rig)
    await rig.start()
    await rig.ask("hello", channel=telegram, sender="42")
    await rig.ask("hello", channel=telegram, sender="41")
    assert telegram.texts("42") == ["re: hello"]
    [told] = telegram.texts("41")
    assert told.startswith(phrases.PAIRING.partition("{")[0])
    assert [(one.reason, one.sender) for one in await rig.refusals()] == [(Reason.PAIRING_REQUIRED, "41")]


def known(identity: str) -> Callable[[Database], None]:
    """Somebody whom an operator has approved."""

    def operation(db: Database) -> None:
        person = people.meet(db, "memory", identity, "", 0)
        db.execute("UPDATE people SET known = 1 WHERE id = ?", (person.id,))

    return operation


async def test_an_agent_with_side_effects_keeps_strangers_out_of_groups_too(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(side_effects=True), memory={"main": {"allow": ["5"], "dm": "open"}}).start()
    await rig.write(known("7"))
    for sender in ("1", "5", "7"):
        await rig.ask(f"group {sender}", sender=sender, group=True)
        await rig.ask(f"direct {sender}", sender=sender)
    await rig.ask("/stop", sender="1", group=True)
    assert [turn.text for turn in agent.seen] == ["group 5", "direct 5", "group 7", "direct 7"]
    assert [(one.reason, one.sender) for one in await rig.refusals()] == [(Reason.STRANGER, "1")] * 3


async def test_explaining_stores_nothing_and_tells_the_truth(rigs: Rigs) -> None:
    rig = await rigs(memory={"main": {"dm": "allowlist", "allow": ["5"]}}).start()
    before = await rig.read(lambda db: list(db.iterdump()))
    explain = rig.running.api.explain
    assert not (await explain(rig.message("hello"))).judged.allowed
    assert (await explain(rig.message("hello", sender="5"))).judged.allowed
    assert await rig.read(lambda db: list(db.iterdump())) == before
    await rig.ask("hello", sender="5")
    assert (await explain(rig.message("hello", sender="5"))).key == (await rig.session()).key


# -- odd messages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["\ud800 half", "nul \0 byte", "\N{RIGHT-TO-LEFT OVERRIDE}txt", "x" * 300_000, "🙂" * 5_000]
)
async def test_odd_texts_are_taken_and_answered(rigs: Rigs, text: str) -> None:
    rig = await rigs(ScriptedAgent(says("ok"))).start()
    await rig.ask(text)
    assert rig.chat.texts() == ["ok"]
    stored = (await rig.said())[0][1]
    assert stored == text.replace("\ud800", "\N{REPLACEMENT CHARACTER}")


async def test_an_odd_answer_is_stored_and_sent(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says("half \ud800", "\0 and more"))).start()
    await rig.ask("go")
    [turn] = await rig.turns()
    assert turn.status is TurnStatus.COMPLETED
    assert rig.chat.texts() == ["half \N{REPLACEMENT CHARACTER}\0 and more"]


async def test_a_message_that_cannot_be_taken_does_not_stop_the_next(rigs: Rigs) -> None:
    """Nothing is raised into a channel's library, whatever it hands over."""
    rig = await rigs().start()
    await rig.ask("hello", sender="1\ud800")
    await rig.ask("hello", chat="-100", group=True, thread="\ud800")
    await rig.ask("hello", sender="2")
    assert rig.chat.texts("2") == ["re: hello"]
    assert len(rig.journal.of(Logged.MESSAGE_FAILED)) == 2


# -- status ------------------------------------------------------------------------------------------------------------


@pytest.mark.req("S001-23")
async def test_a_resting_conversation_wakes_with_the_next_message(rigs: Rigs) -> None:
    rig = await rigs(gateway={"idle_minutes": 10.0}).start()
    await rig.ask("hello")
    await rig.advance(9 * 60)
    assert (await rig.session()).status is Status.ACTIVE
    await rig.advance(3 * 60)
    session = await rig.session()
    assert (session.status, session.reason) == (Status.IDLE, "idle_timeout")
    assert len(rig.journal.of(Logged.SESSION_IDLE)) == 1
    await rig.ask("hello again")
    session = await rig.session()
    assert (session.status, session.reason, session.turn_count) == (Status.ACTIVE, None, 2)


@pytest.mark.req("S001-23")
async def test_a_conversation_does_not_rest_while_something_runs_or_waits(rigs: Rigs) -> None:
    rig = await rigs(
        ScriptedAgent([asyncio.Event()]), gateway={"idle_minutes": 1.0}, main={"turn_timeout": 86_400.0}
    ).start()
    await rig.ask("hello")
    await rig.advance(600)
    assert (await rig.session()).status is Status.ACTIVE


async def test_a_conversation_that_ended_in_error_is_succeeded(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("one")
    session = await rig.session()
    await rig.write(lambda db: sessions.end(db, session, Status.ERROR, "crash", rig.clock.now()))
    await rig.ask("two")
    old, new = await rig.sessions()
    assert (new.predecessor, new.key, old.status) == (old.id, old.key, Status.ERROR)
