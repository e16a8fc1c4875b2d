"""Too many messages: said once, recorded each time, and nobody else is concerned."""

import pytest

from gateway import phrases
from routing.access import Reason
from routing.messages import Addressed
from tests.fakes.agents import ScriptedAgent
from tests.fakes.harness import Rig, Rigs


async def reasons(rig: Rig) -> list[str]:
    return [one.reason for one in await rig.refusals()]


async def test_a_flood_is_said_once_and_every_message_of_it_recorded(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": {"flood": 3}}).start()
    for number in range(6):
        await rig.ask(str(number), reply_to=f"m{number}")
    assert rig.chat.texts() == ["re: 0", "re: 1", "re: 2", phrases.FLOOD]
    assert len(agent.seen) == 3
    assert await reasons(rig) == [Reason.FLOOD] * 3
    assert [one.message_id for one in await rig.refusals()] == ["m5", "m4", "m3"]
    await rig.ask("hello", sender="2")
    assert rig.chat.texts("2") == ["re: hello"], "nobody else is concerned"
    await rig.advance(61)
    await rig.ask("calm")
    assert rig.chat.texts()[4:] == ["re: calm"]
    for number in range(4):
        await rig.ask(str(number))
    assert rig.chat.texts().count(phrases.FLOOD) == 2, "a second flood is said again"


async def test_the_limit_is_a_number_per_minute_not_a_pause(rigs: Rigs) -> None:
    rig = await rigs(memory={"main": {"flood": 2}}).start()
    for number in range(6):
        await rig.ask(str(number))
        await rig.advance(31)
    assert rig.chat.texts() == [f"re: {number}" for number in range(6)]


async def test_a_flood_of_commands_is_one_too(rigs: Rigs) -> None:
    rig = await rigs(memory={"main": {"flood": 2}}).start()
    for _ in range(4):
        await rig.ask("/status")
    assert len(rig.chat.texts()) == 3
    assert rig.chat.texts()[-1] == phrases.FLOOD


async def test_a_group_has_a_limit_of_its_own(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": {"flood": 2}}).start()
    for sender in range(12):
        await rig.ask(f"from {sender}", sender=str(sender), group=True)
    assert len(agent.seen) == 10
    assert rig.chat.texts("-100").count(phrases.FLOOD) == 1
    await rig.ask("elsewhere", sender="99", group=True, chat="-200")
    assert rig.chat.texts("-200") == ["re: elsewhere"]


async def test_a_lively_group_does_not_make_the_bot_deaf(rigs: Rigs) -> None:
    """What people say to each other costs nothing, and so it does not count."""
    rig = await rigs(memory={"main": {"flood": 2, "overhear": 3}}).start()
    for number in range(30):
        await rig.ask(f"chatter {number}", sender=str(number % 3), group=True, addressed=Addressed.NOT)
    assert set(await reasons(rig)) == {Reason.NOT_ADDRESSED}, "each with its true reason"
    await rig.ask("bot?", sender="1", group=True)
    assert rig.chat.texts("-100") == ["re: bot?"]


async def test_where_everything_is_answered_everything_counts(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": {"flood": 2, "always": ["-100"]}}).start()
    for number in range(5):
        await rig.ask(f"chatter {number}", group=True, addressed=Addressed.NOT)
    assert len(agent.seen) == 2
    assert await reasons(rig) == [Reason.FLOOD] * 3


async def test_strangers_learn_nothing_from_a_flood(rigs: Rigs) -> None:
    rig = await rigs(memory={"main": {"flood": 1, "dm": "allowlist"}}).start()
    for _ in range(3):
        await rig.ask("hello?")
    assert rig.chat.texts() == []


async def test_no_limit_where_none_is_set(rigs: Rigs) -> None:
    rig = await rigs(memory={"main": {"flood": 0}}).start()
    for number in range(60):
        await rig.say(str(number), sender=str(number % 2))
    await rig.settled()
    assert await rig.refusals() == []


# -- bots --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("P29")
async def test_two_bots_do_not_talk_without_end(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": {"bots": ["7"], "flood": 0}}).start()
    for _ in range(42):
        await rig.ask("indeed", sender="7", bot=True, group=True)
        await rig.advance(5)
    assert len(agent.seen) == 10
    assert rig.chat.texts("-100") == ["re: indeed"] * 10, "then silence"
    assert set(await reasons(rig)) == {Reason.BOT_LIMIT}
    await rig.ask("hello", sender="1", group=True)
    assert len(agent.seen) == 11, "people are answered as before"
    await rig.ask("elsewhere", sender="7", bot=True, group=True, chat="-200")
    assert len(agent.seen) == 12, "the limit is for the pair in one chat"
    await rig.advance(3600)
    await rig.ask("indeed", sender="7", bot=True, group=True)
    assert len(agent.seen) == 13


@pytest.mark.req("P29")
async def test_a_bot_that_is_not_listed_is_refused_as_a_bot_for_ever(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": {"bots": ["7"]}}).start()
    for _ in range(30):
        await rig.ask("buy now", sender="8", bot=True, group=True)
    assert (agent.seen, rig.chat.log) == ([], [])
    assert set(await reasons(rig)) == {Reason.BOT}


async def test_what_a_platform_sends_again_counts_once(rigs: Rigs) -> None:
    rig = await rigs(memory={"main": {"flood": 3}}).start()
    for _ in range(5):
        await rig.ask("one", external_id="same")
    await rig.ask("two")
    await rig.ask("three")
    await rig.ask("one", external_id="same")
    assert rig.chat.texts() == ["re: one", "re: two", "re: three"]
    assert await reasons(rig) == []
