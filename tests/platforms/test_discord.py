"""A whole daemon and a Discord on loopback: what people see of it in their channels."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from gateway import phrases
from gateway.attribution import prompt_text
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.discord.faults import Kind
from tests.fakes.discord.model import Bot, Channel
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.harness import Rig
from tests.platforms.conftest import Deploy, connected
from tests.platforms.test_telegram import slowly


class Scene:
    """One bot, a guild with a channel, a member, and a daemon."""

    def __init__(self, discord: FakeDiscord, deploy: Deploy) -> None:
        self.discord = discord
        self._deploy = deploy
        self.bot: Bot = discord.add_bot("robot", "a-discord-token")
        self.ada = discord.add_user("Ada")
        self.guild = discord.add_guild("Guild", self.bot, self.ada)
        self.room = discord.add_channel(self.guild, "general")
        self.dm = discord.dm(self.ada, self.bot)
        self.agent = ScriptedAgent()

    async def start(self, agent: ScriptedAgent | None = None, **account: object) -> Rig:
        self.agent = agent or self.agent
        table = {
            "token": self.bot.token,
            "base_url": self.discord.base_url,
            "gateway_url": self.discord.gateway_url,
            "groups": [self.guild.id],
            **account,
        }
        people = {"ada": {"discord": self.ada.id, "owner": True}}
        rig = await self._deploy({"main": self.agent}, discord={"main": table}, people=people)
        await connected(rig, "discord.main")
        return rig

    def ask(self, text: str, channel: Channel | None = None) -> None:
        self.discord.say(self.ada, channel or self.room, f"<@{self.bot.id}> {text}")

    def texts(self, channel: Channel | None = None) -> list[str]:
        return self.discord.texts(channel or self.room, self.bot)

    async def shows(self, *texts: str, channel: Channel | None = None) -> None:
        await self.discord.until(lambda: self.texts(channel) == list(texts))


@pytest.fixture
def scene(discord: FakeDiscord, deploy: Deploy) -> Scene:
    return Scene(discord, deploy)


async def test_answers_where_it_is_asked(scene: Scene) -> None:
    agent = ScriptedAgent(lambda turn: says(f"re: {turn.text}, {len(turn.history)} before"))
    await scene.start(agent)
    thread = scene.discord.add_thread(scene.room, "aside")
    scene.discord.say(scene.ada, scene.room, "not for you")
    scene.ask("hello")
    scene.ask("in the thread", thread)
    scene.discord.say(scene.ada, scene.dm, "in private")
    await scene.shows("re: hello, 0 before")
    await scene.shows("re: in the thread, 0 before", channel=thread)
    await scene.shows("re: in private, 0 before", channel=scene.dm)
    asked = [prompt_text(message) for turn in agent.seen for message in turn.instruction]
    assert sorted(asked) == sorted(
        [f'[from "Ada" (discord:{scene.ada.id})]\n{text}' for text in ("hello", "in the thread")] + ["in private"]
    )


@pytest.mark.req("P03", "P04", "P46")
async def test_one_message_that_grows(scene: Scene) -> None:
    await scene.start(ScriptedAgent(slowly(*(f"word{number} " for number in range(20)), pause=0.2)))
    scene.ask("go")
    await scene.shows(" ".join(f"word{number}" for number in range(20)))
    assert len(scene.discord.calls("send")) == 1
    assert 1 <= len(scene.discord.calls("edit")) <= 5


@pytest.mark.req("P42")
async def test_a_slash_command_is_acknowledged_and_answered_once(scene: Scene) -> None:
    rig = await scene.start()
    pressed = scene.discord.press(scene.ada, scene.room, "whoami", bot=scene.bot)
    await scene.discord.until(lambda: any("the owner" in text for text in scene.texts()))
    assert len(scene.texts()) == 1
    assert pressed.token not in str(rig.journal.lines)
    writes = len(scene.discord.calls("put_commands", "commands"))
    await rig.cut()
    await rig.start()
    await connected(rig, "discord.main")
    assert len(scene.discord.calls("put_commands", "commands")) == writes


@pytest.mark.req("P36")
async def test_stop(scene: Scene) -> None:
    await scene.start(ScriptedAgent(slowly(*["and on "] * 50, pause=0.1), says("next")))
    scene.ask("go")
    await scene.discord.until(lambda: scene.texts())
    scene.ask("/stop")
    await scene.discord.until(lambda: phrases.STOPPED in scene.texts())
    shown = scene.texts()
    assert shown[0].endswith(phrases.STOPPED)
    scene.ask("again")
    await scene.shows(*shown, "next")


@pytest.mark.req("P02")
async def test_a_lost_answer_to_a_send_repeats_nothing(scene: Scene) -> None:
    await scene.start(ScriptedAgent(lambda turn: says(f"re: {turn.text}")))
    scene.discord.fail(Kind.CUT_AFTER, "send")
    scene.ask("one")
    await scene.shows("re: one")
    scene.ask("two")
    await scene.shows("re: one", "re: two")


@pytest.mark.req("P40")
async def test_what_was_said_in_a_gap_is_answered_once(scene: Scene) -> None:
    rig = await scene.start(ScriptedAgent(lambda turn: says(f"re: {turn.text}")))
    scene.ask("0")
    await scene.shows("re: 0")
    await rig.cut()
    scene.ask("1")
    scene.ask("2")
    await rig.start()
    await scene.shows("re: 0", "re: 1", "re: 2")
    scene.discord.gateway.invalidate()
    scene.ask("3")
    await scene.shows(*(f"re: {number}" for number in range(4)))
    for _ in range(3):
        scene.discord.gateway.invalidate()
        before = len(scene.discord.gateway.identified)
        await scene.discord.until(partial(_identified_since, scene.discord, before))
    scene.ask("4")
    await scene.shows(*(f"re: {number}" for number in range(5)))
    assert [turn.text for turn in scene.agent.seen] == [str(number) for number in range(5)]


def _identified_since(discord: FakeDiscord, before: int) -> bool:
    return len(discord.gateway.identified) > before


async def test_a_message_taken_back_is_not_answered(scene: Scene) -> None:
    wait = asyncio.Event()
    rig = await scene.start(ScriptedAgent([wait, *says("first")], lambda turn: says(f"re: {turn.text}")))
    scene.ask("first")
    await scene.discord.until(lambda: scene.agent.seen)
    gone = scene.discord.say(scene.ada, scene.room, f"<@{scene.bot.id}> second")
    scene.ask("third")
    await rig.settled()
    scene.discord.delete(gone)
    await rig.settled()
    wait.set()
    await scene.shows("first", "re: third")


@pytest.mark.req("P44")
async def test_long_answers_come_whole(scene: Scene) -> None:
    code = "\n".join(f"line {number}" for number in range(400))
    await scene.start(ScriptedAgent(says(f"Here:\n\n```python\n{code}\n```\n\nThat is all.")))
    scene.ask("write")
    await scene.discord.until(lambda: scene.texts() and scene.texts()[-1].endswith("That is all."))
    lines = [line for text in scene.texts() for line in text.splitlines() if line.startswith("line ")]
    assert lines == code.splitlines()
    assert all(text.count("```") % 2 == 0 and len(text) <= 2000 for text in scene.texts())
