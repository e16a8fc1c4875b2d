"""The commands beside stop and new: each for its own conversation, in a group only what may be, and nobody else's."""

import asyncio
from collections.abc import Mapping

import pytest

from gateway import commands, phrases
from gateway.agents.protocol import TextDelta, ToolUpdate
from gateway.attribution import prompt_text
from gateway.commands import Command
from routing.access import Reason
from routing.errors import AgentFailed
from routing.messages import Addressed
from tests.fakes.agents import ScriptedAgent, Step, says
from tests.fakes.harness import Chat, Rig, Rigs

OWNER = {"ann": {"telegram": 42, "owner": True}}
#: In a group these change or show what belongs to all.
KNOWN_ONLY = {"new", "compact", "uncompact", "pin", "unpin", "export", "retry", "tools", "thoughts"}


def on_telegram(rig: Rig, **table: object) -> Rig:
    """A chat in which 42 is the owner."""
    rig.tables["people"] = OWNER
    rig.tables["telegram"] = {"bot": {"token": "x", "dm": "open", "groups": [-100], "streaming": False, **table}}
    return rig.on(Chat(rig.clock, "bot", "telegram"))


def test_the_menu_is_what_people_can_do() -> None:
    assert {item.name for item in commands.MENU} == set(phrases.COMMANDS)
    assert {item.name: item.argument for item in commands.MENU if item.argument} == {
        "agent": "name",
        "compact": "keep",
        "pin": "words",
        "unpin": "words",
        "thoughts": "switch",
        "choose": "number",
    }
    assert set(Command) == {*phrases.COMMANDS, "approve", "start"}
    for name, does in phrases.COMMANDS.items():
        assert f"/{name} – {does}" in phrases.HELP


@pytest.mark.parametrize("name", [*phrases.COMMANDS, "start", "approve"])
async def test_every_command_is_answered_once_and_reaches_no_agent(rigs: Rigs, name: str) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask(f"/{name}")
    await rig.ask("hello")
    await rig.ask(f"/{name.upper()}@bot")
    replies = len(rig.chat.texts()) - 1
    assert replies == {"export": 3, "retry": 3}.get(name, 2)
    assert [turn.text for turn in agent.seen] == ["hello"] * (2 if name == "retry" else 1)
    assert f"/{name}" not in [text for _, text in await rig.said((await rig.sessions())[0])]


@pytest.mark.parametrize("name", phrases.COMMANDS)
async def test_in_a_group_strangers_may_do_what_concerns_nobody_else(rigs: Rigs, name: str) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": {"allow": ["5"]}}).start()
    await rig.ask("hello", group=True, sender="1")
    await rig.ask(f"/{name}", group=True, sender="1")
    refused = rig.chat.texts("-100")[1:] == [phrases.KNOWN_ONLY]
    assert refused == (name in KNOWN_ONLY)
    session = await rig.session()
    assert session.status.live
    await rig.ask(f"/{name}", group=True, sender="5")
    assert phrases.KNOWN_ONLY not in rig.chat.texts("-100")[2:]
    assert len(agent.seen) == (2 if name == "retry" else 1)


# -- history, sessions, export -----------------------------------------------------------------------------------------


@pytest.mark.req("P14")
@pytest.mark.parametrize("command", ["/history", "/sessions", "/export", "/resend", "/status", "/why", "/whoami"])
async def test_nothing_of_others_is_shown(rigs: Rigs, command: str) -> None:
    rig = await rigs(
        agents={"main": ScriptedAgent(), "other": ScriptedAgent()}, gateway={"default_agent": "main"}
    ).start()
    await rig.ask("secret of two", sender="2")
    await rig.ask("secret of the group", sender="1", group=True)
    await rig.ask("secret of the topic", sender="1", group=True, thread="7")
    await rig.ask("secret of another group", sender="1", group=True, chat="-200")
    await rig.ask("my own", sender="1")
    before = {chat: len(rig.chat.texts(chat)) for chat in ("1", "2", "-100", "-200")}
    await rig.ask(command, sender="1")
    await rig.ask(f"{command} secret of two", sender="1")
    mine = "\n".join(rig.chat.texts("1")[before["1"] :])
    assert "secret" not in mine
    await rig.ask(command, sender="2", group=True)
    there = "\n".join(rig.chat.texts("-100")[before["-100"] :])
    assert "my own" not in there
    assert "secret of two" not in there
    assert "secret of the topic" not in there
    assert "secret of another group" not in there
    assert len(rig.chat.texts("2")) == before["2"]


async def test_history_shows_the_last_messages(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/history")
    for number in range(8):
        await rig.ask(f"question {number}\n{'x' * 300}")
    await rig.ask("/history")
    empty, *_, shown = rig.chat.texts()
    assert empty == phrases.NO_HISTORY
    head, *lines = shown.split("\n\n")
    assert head == phrases.HISTORY.format(count=16)
    assert len(lines) == 10
    assert lines[0].startswith("You: question 3 xxx")
    assert lines[1].startswith("Agent: re: question 3 xxx")
    assert all(len(line) < 200 for line in lines)


async def test_sessions_lists_ones_own_newest_first(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/sessions")
    await rig.ask("first talk")
    await rig.ask("/new")
    await rig.advance(60)
    await rig.ask("second talk")
    await rig.ask("/sessions")
    assert rig.chat.texts()[0] == phrases.NO_SESSIONS
    head, *lines = rig.chat.texts()[-1].split("\n")
    assert head == phrases.SESSIONS.format(total=2)
    assert [line.split(" · ")[:3] for line in lines] == [
        ["- second talk", "active", "2"],
        ["- first talk", "completed", "2"],
    ]


async def test_export_is_a_file_with_everything(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/export")
    await rig.ask("what is it?")
    await rig.ask("/export")
    nothing, _, words, file = rig.chat.shown
    assert (nothing.text, nothing.filename) == (phrases.NOTHING_TO_EXPORT, None)
    assert (words.text, words.filename, file.filename) == (phrases.EXPORTED, None, "conversation.md")
    assert file.text.startswith("# what is it?\n\n---\n\n**You** · ")
    assert "**Agent** · " in file.text
    assert file.text.endswith("re: what is it?\n")


async def test_what_a_lost_attempt_said_is_not_shown_again(rigs: Rigs) -> None:
    """After a crash the turn runs again; what the first attempt had finished is in the history, and superseded."""
    first: list[Step] = [TextDelta("Let me look."), ToolUpdate("1", "ls"), asyncio.Event()]
    again: list[Step] = [TextDelta("Let me look."), ToolUpdate("1", "ls"), *says("Found.")]
    rig = await rigs(agent := ScriptedAgent(first, again, says("fine"))).start()
    await rig.ask("go")
    await rig.cut()
    await rig.start()
    assert rig.chat.texts() == ["Let me look.\n\nFound."]
    for command in ("/history", "/export", "/resend"):
        await rig.ask(command)
    _, history, _, export, resent = rig.chat.texts()
    assert [one.count("Let me look.") for one in (history, export, resent)] == [1, 1, 1]
    assert resent == "Let me look.\n\nFound."
    await rig.ask("next")
    assert ["Let me look." in prompt_text(row) for row in agent.seen[2].history].count(True) == 1


# -- again -------------------------------------------------------------------------------------------------------------


async def test_retry_runs_the_last_request_again(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent([AgentFailed("No.")], says("fine"), [asyncio.Event()])).start()
    await rig.ask("/retry")
    await rig.ask("do it", reply_to="m1")
    await rig.ask("/retry", reply_to="m2")
    await rig.ask("/retry", reply_to="m3")
    await rig.ask("/retry", reply_to="m4")
    assert [turn.text for turn in agent.seen] == ["do it"] * 3
    assert rig.chat.texts() == [
        phrases.NOTHING_TO_RETRY,
        phrases.FAILED.format(why="No."),
        phrases.RETRYING,
        "fine",
        phrases.RETRYING,
        phrases.STILL_RUNNING,
    ]
    assert [one.address.reply_to for one in rig.chat.shown][3] == "m2", "the answer belongs to who asked again"


async def test_a_retry_that_comes_twice_runs_once(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("do it")
    for _ in range(2):
        await rig.ask("/retry", external_id="same")
    assert len(agent.seen) == 2


async def test_a_retry_in_a_group_says_who_wants_it(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory={"main": {"allow": ["5"]}}).start()
    await rig.ask("do it", group=True, sender="1")
    await rig.ask("/retry", group=True, sender="5")
    assert prompt_text(agent.seen[1].instruction[0]) == '[from "Person 5" (memory:5)]\ndo it'


async def test_resend_shows_the_last_answer_without_a_new_run(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(says("the answer"), [AgentFailed("No.")])).start()
    await rig.ask("/resend")
    await rig.ask("one")
    await rig.ask("two")
    await rig.ask("/resend")
    await rig.ask("/resend")
    assert rig.chat.texts() == [
        phrases.NOTHING_TO_RESEND,
        "the answer",
        phrases.FAILED.format(why="No."),
        "the answer",
        "the answer",
    ]
    assert len(agent.seen) == 2
    assert len(await rig.history()) == 4


# -- agent, why, whoami ------------------------------------------------------------------------------------------------


def two(rigs: Rigs, scripts: Mapping[str, str] = {"main": "main here", "helper": "helper here"}) -> Rig:  # noqa: B006
    agents = {name: ScriptedAgent(says(text)) for name, text in scripts.items()}
    return on_telegram(rigs(agents=agents, gateway={"default_agent": "main"}))


async def test_the_owner_chooses_who_answers_in_a_chat(rigs: Rigs) -> None:
    rig = await two(rigs).start()
    await rig.ask("/agent", sender="42")
    await rig.ask("/agent helper", sender="42", group=True, addressed=Addressed.COMMAND)
    await rig.ask("hello", sender="1", group=True)
    await rig.ask("hello", sender="1", group=True, thread="7")
    await rig.ask("hello", sender="42")
    asked, direct = rig.chat.texts("42")
    assert asked.startswith(phrases.AGENT.format(agent="main", matched_by="default"))
    assert "main, helper" in asked
    assert direct == "main here", "only there"
    assert rig.chat.texts("-100") == [phrases.AGENT_CHOSEN.format(agent="helper"), "helper here", "main here"]
    await rig.stop()
    await rig.start()
    await rig.ask("hello", sender="1", group=True)
    await rig.ask("/agent", sender="1", group=True)
    await rig.ask("/agent default", sender="42", group=True)
    await rig.ask("hello", sender="1", group=True)
    assert rig.chat.texts("-100")[3:] == [
        "helper here",
        phrases.AGENT.format(agent="helper", matched_by="chosen with /agent"),
        phrases.AGENT_UNCHOSEN,
        "main here",
    ]


async def test_nobody_else_chooses(rigs: Rigs) -> None:
    rig = await two(rigs).start()
    for group in (False, True):
        await rig.ask("/agent helper", sender="1", group=group)
        await rig.ask("hello", sender="1", group=group)
    assert rig.chat.texts("1") == [phrases.OWNER_ONLY, "main here"]
    assert rig.chat.texts("-100") == [phrases.OWNER_ONLY, "main here"]


async def test_an_agent_that_is_not_there(rigs: Rigs) -> None:
    rig = await two(rigs).start()
    await rig.ask("/agent nobody", sender="42")
    assert rig.chat.texts("42") == [phrases.NO_AGENT_CALLED.format(name="nobody", names="main, helper")]
    await rig.ask("/agent helper", sender="42")
    await rig.stop()
    rig.agents = {"main": ScriptedAgent(says("main here"))}
    del rig.tables["agents"]["helper"]
    await rig.start()
    await rig.ask("hello", sender="42")
    assert rig.chat.texts("42")[-1] == "main here", "what was chosen and is gone decides no more"


async def test_why_tells_the_last_refusal_of_this_chat(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/why")
    here = phrases.WHY_HERE.format(agent="main", matched_by="default")
    assert rig.chat.texts() == [f"{here} {phrases.WHY_NOTHING}"]
    await rig.ask("psst", group=True, sender="1", addressed=Addressed.NOT)
    await rig.ask("psst", group=True, sender="1", thread="7", addressed=Addressed.NOT)
    await rig.ask("  ", group=True, sender="1", chat="-200")
    await rig.advance(125)
    await rig.ask("/why", group=True)
    told = phrases.WHY_REFUSED.format(minutes=2, sentence=Reason.NOT_ADDRESSED.sentence, reason=Reason.NOT_ADDRESSED)
    assert rig.chat.texts("-100") == [f"{here} {told}"]
    await rig.ask("/why")
    assert rig.chat.texts()[1:] == [f"{here} {phrases.WHY_NOTHING}"], "what was refused elsewhere is not told here"


async def test_whoami_tells_ids_as_the_configuration_takes_them(rigs: Rigs) -> None:
    rig = await on_telegram(rigs(), allow=[5]).start()
    for sender, role in (("42", "owner"), ("5", "known"), ("1", "unknown")):
        await rig.ask("/whoami", sender=sender)
        told = phrases.WHOAMI.format(user=f"telegram:{sender}", role=phrases.ROLES[role], chat=sender)
        assert rig.chat.texts(sender) == [told]
    await rig.ask("/whoami", sender="1", group=True, thread="7")
    assert "-100, thread 7" in rig.chat.texts("-100")[0]


async def test_the_owner_can_ask_an_unlisted_group_for_its_id_and_nobody_else(rigs: Rigs) -> None:
    rig = await on_telegram(rigs(agent := ScriptedAgent())).start()
    await rig.ask("/whoami", sender="42", group=True, chat="-999", addressed=Addressed.COMMAND)
    assert "-999" in rig.chat.texts("-999")[0]
    await rig.ask("/whoami", sender="1", group=True, chat="-999", addressed=Addressed.COMMAND)
    await rig.ask("hello", sender="42", group=True, chat="-999", addressed=Addressed.MENTION)
    assert len(rig.chat.texts("-999")) == 1
    assert agent.seen == []
