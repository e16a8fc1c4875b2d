"""Lanes: first in first out within a conversation, and conversations never wait for each other."""

import asyncio
import random
from itertools import groupby

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import phrases
from gateway.agents.protocol import TurnContext
from gateway.logs import Event as Logged
from routing.access import Reason
from routing.errors import LaneFull
from store import turns
from store.content import Text
from store.records import NewMessage, Role, TurnStatus
from store.turns import Ending, Instruction
from tests.fakes.agents import Script, ScriptedAgent, Step, echo, says
from tests.fakes.harness import Chat, Rig, Rigs

SESSIONS = [str(number) for number in range(20)]
EACH = 10


def hanging_on(word: str, event: asyncio.Event) -> Script:
    """Echoes, but waits for the event before it answers that word."""

    def script(turn: TurnContext) -> list[Step]:
        return [*([event] if turn.text == word else []), *echo(turn)]

    return script


async def test_200_messages_in_20_conversations_while_one_agent_hangs(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(hanging_on("7: 3", asyncio.Event())), main={"turn_timeout": 60.0}).start()
    order = [(chat, number) for chat in SESSIONS for number in range(EACH)]
    random.Random(1).shuffle(order)
    said = dict.fromkeys(SESSIONS, 0)
    texts: dict[str, list[str]] = {chat: [] for chat in SESSIONS}
    for chat, _ in order:
        texts[chat].append(f"{chat}: {said[chat]}")
        said[chat] += 1
        await rig.say(texts[chat][-1], sender=chat)
    await rig.settled()
    for chat in SESSIONS:
        answered = texts[chat][:3] if chat == "7" else texts[chat]
        assert rig.chat.texts(chat) == [f"re: {text}" for text in answered]
    for session in await rig.sessions():
        rows = await rig.turns(session)
        assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
        user = [text for role, text in await rig.said(session) if role == Role.USER]
        assert user == texts[user[0].split(":")[0]][: len(user)]
    await rig.advance(60)
    shown = rig.chat.texts("7")
    assert shown[3] == phrases.FAILED.format(why=phrases.TIMED_OUT.format(seconds=60.0))
    assert shown[4:] == [f"re: {text}" for text in texts["7"][4:]]


async def test_a_conversation_has_one_turn_at_a_time(rigs: Rigs) -> None:
    events = [asyncio.Event() for _ in range(3)]
    rig = await rigs(agent := ScriptedAgent(*([event, *says("ok")] for event in events))).start()
    for text in "abc":
        await rig.ask(text)
    for number, event in enumerate(events, 1):
        assert [turn.text for turn in agent.seen] == list("abc"[:number])
        event.set()
        await rig.settled()
    assert [turn.status for turn in await rig.turns()] == [TurnStatus.COMPLETED] * 3


async def test_a_lane_that_ran_empty_takes_up_work_again(rigs: Rigs) -> None:
    rig = await rigs().start()
    for number in range(3):
        await rig.ask(str(number))
        await rig.advance(1)
    assert rig.chat.texts() == ["re: 0", "re: 1", "re: 2"]
    assert len(await rig.sessions()) == 1


async def test_a_turn_that_another_lane_runs_in_the_same_session_goes_first(rigs: Rigs) -> None:
    """Two conversations that became one: the database lets one turn run at a time, and the other one waits."""
    rig = await rigs().start()
    await rig.ask("one")
    number = (await rig.session()).id
    asked = Instruction(messages=(NewMessage(role=Role.USER, content=Text("elsewhere")),), summary="elsewhere")
    turn = await rig.write(lambda db: turns.add(db, number, asked, rig.clock.now()))
    await rig.ask("two")
    await rig.advance(5)
    assert rig.chat.texts() == ["re: one"]
    await rig.write(lambda db: turns.fail(db, turn.id, "over", Ending(), rig.clock.now()))
    await rig.advance(1)
    assert rig.chat.texts() == ["re: one", "re: two"]
    assert [turn.seq for turn in await rig.turns()] == [1, 2, 3]


# -- overflow ----------------------------------------------------------------------------------------------------------


async def test_overflow_is_said_aloud_and_nothing_accepted_is_lost(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("0")], echo), main={"max_waiting": 3}).start()
    await rig.ask("0")
    for number in range(1, 6):
        await rig.ask(str(number), external_id=f"m{number}", reply_to=f"r{number}")
    full = phrases.LANE_FULL.format(limit=3)
    assert rig.chat.texts() == [full, full]
    refused = await rig.refusals()
    assert [(one.reason, one.chat, one.message_id) for one in refused] == [
        (Reason.LANE_FULL, "1", "r5"),
        (Reason.LANE_FULL, "1", "r4"),
    ]
    assert len(rig.journal.of(Logged.LANE_OVERFLOW)) == 2
    await rig.ask("elsewhere", sender="2")
    assert rig.chat.texts("2") == ["re: elsewhere"]
    go_on.set()
    await rig.settled()
    assert rig.chat.texts()[2:] == ["0", "re: 1", "re: 2", "re: 3"]
    await rig.ask("4", external_id="m4")
    assert rig.chat.texts()[6:] == ["re: 4"], "a refused message may come again"


async def test_commands_are_taken_when_the_lane_is_full(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()], echo), main={"max_waiting": 1}).start()
    for text in ("0", "1", "/stop"):
        await rig.ask(text)
    assert rig.chat.texts() == [f"{phrases.STOPPED} {phrases.STILL_WAITING.format(count=1)}", "re: 1"]


async def test_overflow_of_the_api_raises(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()]), main={"max_waiting": 2}).start()
    api = rig.running.api
    session = await api.create_session(None, "owner")
    for number in range(3):
        await api.prompt(session.public_id, "x", str(number))
        await rig.settled()
    with pytest.raises(LaneFull):
        await api.prompt(session.public_id, "x", "3")
    assert (await api.prompt(session.public_id, "x", "2")).duplicate


# -- collect -----------------------------------------------------------------------------------------------------------


async def test_collect_makes_one_turn_of_what_waits(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("0")], echo), main={"queue": "collect"}).start()
    for text in ("zero", "one", "two", "three"):
        await rig.ask(text, reply_to=text)
    go_on.set()
    await rig.settled()
    assert [turn.text for turn in agent.seen] == ["zero", "one\ntwo\nthree"]
    assert [text for role, text in await rig.said() if role == Role.USER] == ["zero", "one", "two", "three"]
    first, second = await rig.turns()
    assert (second.instruction_summary, second.last_message - second.first_message) == ("one\ntwo\nthree", 3)
    assert rig.chat.texts() == ["0", "re: one\ntwo\nthree"]
    assert rig.chat.shown[1].address.reply_to == "three"
    api, session = rig.running.api, await rig.session()
    assert await api.turn_text(session, second, Role.USER) == "one\ntwo\nthree"


async def test_followup_keeps_messages_apart(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("0")], echo)).start()
    for text in ("zero", "one", "two"):
        await rig.ask(text, reply_to=text)
    go_on.set()
    await rig.settled()
    assert [(one.text, one.address.reply_to) for one in rig.chat.shown] == [
        ("0", "zero"),
        ("re: one", "one"),
        ("re: two", "two"),
    ]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(origins=st.lists(st.sampled_from([("1", None), ("2", None), ("1", "t"), ("2", "t")]), max_size=12))
async def test_collect_never_mixes_people_or_threads(rigs: Rigs, origins: list[tuple[str, str | None]]) -> None:
    """Waiting neighbours from one person in one thread become one turn; order is kept."""
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent(hanging_on("first", go_on)), main={"queue": "collect"}).start()
    for thread in (None, "t"):
        await rig.say("first", sender="0", group=True, thread=thread)
    await rig.settled()
    for number, (sender, thread) in enumerate(origins):
        await rig.say(f"{sender}/{number}", sender=sender, group=True, thread=thread)
    go_on.set()
    await rig.settled()
    for thread in (None, "t"):
        lane = [f"{sender}/{number}" for number, (sender, where) in enumerate(origins) if where == thread]
        expected = ["\n".join(texts) for _, texts in groupby(lane, key=lambda text: text[0])]
        threads = {turn.session_id for turn in agent.seen if turn.text == "first"}
        assert len(threads) == 2
        answers = [one.text for one in rig.chat.shown if one.address.thread == thread]
        assert answers == ["re: first", *(f"re: {text}" for text in expected)]
    await rig.cut()


async def test_collect_never_mixes_chats(rigs: Rigs) -> None:
    """One person's direct messages through two accounts are one conversation, but two places."""
    go_on = asyncio.Event()
    rig = rigs(
        agent := ScriptedAgent([go_on, *says("0")], echo),
        main={"queue": "collect"},
        memory={"second": {"dm": "open", "streaming": False}},
    )
    second = Chat(rig.clock, "second")
    rig.channels = (rig.chat, second)
    await rig.start()
    await rig.ask("zero")
    for text, via in (("one", rig.chat), ("two", second), ("three", second), ("four", rig.chat)):
        await rig.ask(text, channel=via)
    go_on.set()
    await rig.settled()
    assert [turn.text for turn in agent.seen] == ["zero", "one", "two\nthree", "four"]
    assert (rig.chat.texts(), second.texts()) == (["0", "re: one", "re: four"], ["re: two\nthree"])


# -- limits ------------------------------------------------------------------------------------------------------------


async def run_out(rig: Rig, people: range) -> None:
    for person in people:
        await rig.say("x", sender=str(person))
    await rig.settled()


async def test_an_agent_has_so_many_turns_at_once_and_others_are_not_concerned(rigs: Rigs) -> None:
    narrow, other = ScriptedAgent([asyncio.Event()]), ScriptedAgent()
    rig = await rigs(
        agents={"narrow": narrow, "other": other},
        agent_tables={"narrow": {"max_turns": 2, "turn_timeout": 30.0}},
        gateway={"default_agent": "narrow"},
        bindings=[{"agent": "other", "sender": "99"}],
    ).start()
    await run_out(rig, range(5))
    assert (len(narrow.seen), rig.running.lanes.running) == (2, 2)
    await rig.ask("quick", sender="99")
    assert rig.chat.texts("99") == ["re: quick"]
    await rig.ask("/stop", sender="0")
    assert len(narrow.seen) == 3, "a stopped turn frees its slot"
    await rig.advance(30)
    assert len(narrow.seen) == 5, "a turn that ran out of time frees its slot"
    await rig.advance(30)
    statuses = [(await rig.turns(session))[-1].status for session in await rig.sessions()]
    assert sorted(statuses) == sorted([TurnStatus.FAILED] * 5 + [TurnStatus.COMPLETED])


async def test_a_conversation_with_much_to_say_does_not_keep_its_slot(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(agent := ScriptedAgent([go_on, *says("first")], echo), main={"max_turns": 1}).start()
    for number in range(5):
        await rig.say(f"busy {number}", sender="1")
    await rig.settled()
    await rig.say("patient", sender="2")
    await rig.settled()
    go_on.set()
    await rig.settled()
    order = [turn.text for turn in agent.seen]
    assert order.index("patient") <= 2
    assert [text for text in order if text.startswith("busy")] == [f"busy {number}" for number in range(5)]
