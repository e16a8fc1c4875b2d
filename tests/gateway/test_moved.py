"""A group that gets another id keeps its conversation, what waits in it, its permissions and its agent."""

import asyncio

import pytest

from channels.memory import Fault
from gateway.logs import Event as Logged
from routing.messages import Addressed
from tests.fakes.agents import ScriptedAgent, echo, says
from tests.fakes.harness import Rig, Rigs

OLD, NEW = "-100", "-100900"


async def keys(rig: Rig) -> list[str]:
    return [str(one.key) for one in await rig.sessions()]


@pytest.mark.req("P16")
async def test_the_conversation_goes_on_under_the_new_id(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("before", chat=OLD, group=True)
    await rig.move(OLD, NEW)
    await rig.ask("after", chat=NEW, group=True)
    assert await keys(rig) == [f"main:memory:main:group:{NEW}"]
    assert [message.metadata["sender"]["name"] for message in agent.seen[1].history[:1]] == ["Person 1"]
    assert len(agent.seen[1].history) == 2, "it knows what was said before"
    assert (rig.chat.texts(OLD), rig.chat.texts(NEW)) == (["re: before"], ["re: after"])
    assert len(rig.journal.of(Logged.CHAT_MOVED)) == 1


@pytest.mark.req("P16")
async def test_what_the_configuration_said_of_the_old_id_holds(rigs: Rigs) -> None:
    """The group is listed and bound by its old id only."""
    helper = ScriptedAgent(says("the helper"))
    rig = rigs(
        agents={"main": ScriptedAgent(), "helper": helper},
        gateway={"default_agent": "main"},
        bindings=[{"agent": "helper", "peer": OLD}],
    )
    rig.tables["memory"]["main"]["groups"] = [OLD]
    await rig.start()
    await rig.ask("too early", chat=NEW, group=True)
    assert rig.chat.texts(NEW) == []
    await rig.move(OLD, NEW)
    await rig.ask("hello", chat=NEW, group=True)
    await rig.ask("not for you", chat=NEW, group=True, addressed=Addressed.NOT)
    assert rig.chat.texts(NEW) == ["the helper"]
    await rig.stop()
    await rig.start()
    await rig.ask("again", chat=NEW, group=True)
    assert rig.chat.texts(NEW) == ["the helper"] * 2, "also after a restart"
    assert rig.chat.texts(OLD) == []


@pytest.mark.req("P16")
async def test_an_agent_chosen_for_the_group_goes_with_it(rigs: Rigs) -> None:
    rig = rigs(
        agents={"main": ScriptedAgent(), "helper": ScriptedAgent(says("the helper"))},
        gateway={"default_agent": "main"},
        people={"ann": {"telegram": 1, "owner": True}},
        telegram={},
    )
    await rig.start()
    await rig.write(
        lambda db: db.execute(
            "INSERT INTO chosen_agents VALUES ('memory', 'main', ?, '', 'helper')",
            (OLD,),
        )
    )
    await rig.move(OLD, NEW)
    await rig.ask("hello", chat=NEW, group=True)
    assert rig.chat.texts(NEW) == ["the helper"]


@pytest.mark.req("P16")
@pytest.mark.parametrize("known", [False, True])
async def test_what_waits_is_answered_in_the_new_group(rigs: Rigs, known: bool) -> None:
    """Also where no conversation was made yet, because the first message still waited."""
    go_on = asyncio.Event()
    script = [go_on, *says("first")]
    rig = await rigs(ScriptedAgent(*([script] if not known else [says("earlier"), script]), echo)).start()
    if known:
        await rig.ask("earlier", chat=OLD, group=True)
    await rig.ask("one", chat=OLD, group=True)
    await rig.ask("two", chat=OLD, group=True)
    await rig.move(OLD, NEW)
    await rig.ask("three", chat=NEW, group=True)
    go_on.set()
    await rig.advance(2)
    assert rig.chat.texts(OLD) == (["earlier"] if known else [])
    assert sorted(rig.chat.texts(NEW)) == ["first", "re: three", "re: two"]
    assert rig.chat.texts(NEW)[0] == "first"
    assert await keys(rig) == [f"main:memory:main:group:{NEW}"]


@pytest.mark.req("P16")
async def test_a_message_that_waits_for_its_first_turn_follows(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("one", chat=OLD, group=True, open=True)
    await rig.move(OLD, NEW)
    await rig.advance(2)
    await rig.ask("two", chat=NEW, group=True)
    assert rig.chat.texts(NEW) == ["re: one", "re: two"]
    assert await keys(rig) == [f"main:memory:main:group:{NEW}"]


@pytest.mark.req("P16")
@pytest.mark.parametrize("hard", [None, False, True])
async def test_what_could_not_be_delivered_goes_to_the_new_id(rigs: Rigs, hard: bool | None) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.CUT_BEFORE)
    await rig.ask("hello", chat=OLD, group=True, reply_to="5")
    await rig.move(OLD, NEW)
    if hard is not None:
        await (rig.cut() if hard else rig.stop())
        await rig.start()
    await rig.advance(5)
    [shown] = rig.chat.shown
    assert (shown.text, shown.address.chat, shown.address.reply_to) == ("re: hello", NEW, None)


async def test_told_twice_and_late_it_is_one_move(rigs: Rigs) -> None:
    """Telegram says so in the old group and in the new one, and a message of the new one may come before."""
    rig = await rigs().start()
    rig.tables["memory"]["main"]["groups"].append(NEW)
    await rig.stop()
    await rig.start()
    await rig.ask("before", chat=OLD, group=True)
    await rig.ask("early", chat=NEW, group=True)
    await rig.move(OLD, NEW)
    await rig.move(OLD, NEW)
    await rig.ask("after", chat=OLD, group=True)
    live = [one for one in await rig.sessions() if one.status.live]
    assert [str(one.key) for one in live] == [f"main:memory:main:group:{NEW}"]
    assert rig.chat.texts(NEW) == ["re: early", "re: after"]


async def test_threads_and_members_move_with_their_group(rigs: Rigs) -> None:
    rig = await rigs(main={"group_scope": "member"}).start()
    await rig.ask("one", chat=OLD, group=True, thread="7", sender="1")
    await rig.move(OLD, NEW)
    await rig.ask("two", chat=NEW, group=True, thread="7", sender="1")
    await rig.ask("three", chat=NEW, group=True, thread="8", sender="1")
    first, second = await rig.sessions()
    assert [text for _, text in await rig.said(first)] == ["one", "re: one", "two", "re: two"]
    assert [text for _, text in await rig.said(second)] == ["three", "re: three"]
