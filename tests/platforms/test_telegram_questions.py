"""An agent that asks for permission, and people in Telegram who press buttons."""

from __future__ import annotations

import pytest

from gateway import phrases
from tests.fakes.agents import OPTIONS, AskingAgent
from tests.fakes.harness import Rig
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat, Message, User
from tests.platforms.conftest import Deploy, connected

LABELS = ["✅ Allow once", "✅✅ Always allow", "❌ Reject"]


class Scene:
    """One bot, its owner Ada, Bob who is known, Eve who is not, and a daemon."""

    def __init__(self, telegram: FakeTelegram, deploy: Deploy) -> None:
        self.telegram = telegram
        self._deploy = deploy
        self.bot: Bot = telegram.bot()
        self.ada: User = telegram.user("Ada")
        self.bob: User = telegram.user("Bob")
        self.eve: User = telegram.user("Eve")
        self.dm: Chat = telegram.dm(self.bot, self.ada)
        self.group: Chat = telegram.group(self.bot)
        self.agent = AskingAgent()

    async def start(self, agent: AskingAgent | None = None, **table: object) -> Rig:
        self.agent = agent or self.agent
        account = {"token": self.bot.token, "base_url": self.telegram.url, "groups": [self.group.id]}
        people = {"ada": {"telegram": self.ada.id, "owner": True}, "bob": {"telegram": self.bob.id}}
        agents = {"main": {"kind": "builtin", **table}}
        rig = await self._deploy({"main": self.agent}, agents=agents, telegram={"main": account}, people=people)
        await connected(rig, "telegram.main")
        return rig

    async def question(self, chat: Chat) -> Message:
        """Wait for a message with buttons."""
        await self.telegram.until(lambda: any(one.buttons for one in chat.shown))
        return next(one for one in reversed(chat.shown) if one.buttons)

    async def told(self, press: str) -> tuple[str, bool]:
        """What whoever pressed is shown."""
        await self.telegram.until(lambda: press in self.bot.answers)
        return self.bot.answers[press]


@pytest.fixture
def scene(telegram: FakeTelegram, deploy: Deploy) -> Scene:
    return Scene(telegram, deploy)


@pytest.mark.req("P52")
async def test_the_owner_presses_and_the_agent_goes_on(scene: Scene) -> None:
    await scene.start()
    scene.dm.say("clean up")
    question = await scene.question(scene.dm)
    assert "rm -rf build" in question.text
    assert [one["text"] for one in question.buttons] == LABELS
    assert all(len(one["callback_data"].encode()) <= 64 for one in question.buttons)
    press = scene.dm.press(question, 0)
    assert await scene.told(press) == (phrases.YOU_CHOSE.format(option=LABELS[0]), False)
    await scene.telegram.until(lambda: "told: yes" in scene.dm.texts)
    await scene.telegram.until(lambda: not question.buttons)
    assert question.text.endswith("✅ Allow once was chosen by ada.")
    assert scene.agent.told == ["yes"]
