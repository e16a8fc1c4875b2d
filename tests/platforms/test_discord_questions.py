"""An agent that asks for permission, and people in Discord who press buttons."""

from __future__ import annotations

import pytest

from gateway import phrases
from tests.fakes.agents import AskingAgent
from tests.fakes.discord.faults import Fault, Kind
from tests.fakes.discord.model import Bot, Channel, Message, Pressed
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.harness import Rig
from tests.platforms.conftest import Deploy, connected
from tests.platforms.test_telegram_questions import LABELS


class Scene:
    """One bot, its owner Ada, Bob who is known, a guild with a room, and a daemon."""

    def __init__(self, discord: FakeDiscord, deploy: Deploy) -> None:
        self.discord = discord
        self._deploy = deploy
        self.bot: Bot = discord.add_bot("robot", "a-discord-token")
        self.ada = discord.add_user("Ada")
        self.bob = discord.add_user("Bob")
        self.guild = discord.add_guild("Guild", self.bot, self.ada, self.bob)
        self.room = discord.add_channel(self.guild, "general")
        self.agent = AskingAgent()

    async def start(self, **table: object) -> Rig:
        account = {
            "token": self.bot.token,
            "base_url": self.discord.base_url,
            "gateway_url": self.discord.gateway_url,
            "groups": [self.guild.id],
        }
        people = {"ada": {"discord": self.ada.id, "owner": True}, "bob": {"discord": self.bob.id}}
        agents = {"main": {"kind": "builtin", **table}}
        rig = await self._deploy({"main": self.agent}, agents=agents, discord={"main": account}, people=people)
        await connected(rig, "discord.main")
        return rig

    async def question(self, channel: Channel | None = None) -> Message:
        where = channel or self.room
        await self.discord.until(lambda: any(one.buttons for one in self.discord.visible(where)))
        return next(one for one in self.discord.visible(where) if one.buttons)

    async def whispered(self, press: Pressed) -> str:
        await self.discord.until(lambda: press.whispers)
        [said] = press.whispers
        return said


@pytest.fixture
def scene(discord: FakeDiscord, deploy: Deploy) -> Scene:
    return Scene(discord, deploy)


@pytest.mark.req("P52")
async def test_only_who_may_can_press_and_the_message_tells_who_did(scene: Scene) -> None:
    await scene.start()
    scene.discord.say(scene.bob, scene.room, f"<@{scene.bot.id}> clean up")
    question = await scene.question()
    assert [one["label"] for one in question.buttons] == LABELS
    stranger = scene.discord.press_button(scene.bob, question, 0)
    assert await scene.whispered(stranger) == phrases.NOT_YOURS_TO_ANSWER
    assert question.buttons
    owner = scene.discord.press_button(scene.ada, question, 2)
    await scene.discord.until(lambda: not question.buttons)
    assert "❌ Reject" in question.content
    assert "was chosen by `ada`" in question.content
    assert owner.acknowledged_after is not None
    await scene.discord.until(lambda: "told: no" in scene.discord.texts(scene.room, scene.bot))
    assert owner.custom_id is not None
    late = scene.discord.press_button(scene.ada, question, owner.custom_id)
    assert "was chosen by ada" in await scene.whispered(late)
    assert scene.agent.told == ["no"]
    assert not question.pinged


@pytest.mark.req("P53")
async def test_a_press_after_a_restart_says_so_and_changes_nothing(scene: Scene) -> None:
    rig = await scene.start()
    scene.discord.say(scene.ada, scene.room, f"<@{scene.bot.id}> clean up")
    question = await scene.question()
    data = question.buttons[0]["custom_id"]
    await rig.cut()
    await rig.start()
    await connected(rig, "discord.main")
    await scene.discord.until(lambda: not question.buttons)
    assert question.content.endswith(phrases.QUESTION_CLOSED.format(why=phrases.OVER_RESTARTED))
    press = scene.discord.press_button(scene.ada, question, data)
    assert phrases.OVER_RESTARTED in await scene.whispered(press)
    assert scene.agent.told == []


async def test_a_press_counts_although_it_cannot_be_acknowledged(scene: Scene) -> None:
    await scene.start()
    scene.discord.say(scene.ada, scene.room, f"<@{scene.bot.id}> clean up")
    question = await scene.question()
    scene.discord.faults.plan.append(Fault(Kind.ERROR, frozenset({"acknowledge"}), status=404, code=10062))
    scene.discord.press_button(scene.ada, question, 0)
    await scene.discord.until(lambda: "told: yes" in scene.discord.texts(scene.room, scene.bot))
