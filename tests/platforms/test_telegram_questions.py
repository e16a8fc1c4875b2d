"""An agent that asks for permission, and people in Telegram who press buttons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gateway import phrases
from gateway.agents.protocol import Event, Option, OptionKind, TextDelta, ToolUpdate, TurnContext
from tests.fakes.agents import AskingAgent
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


@pytest.mark.req("P52")
async def test_whoever_asked_may_not_answer_and_the_owner_is_asked_elsewhere(scene: Scene) -> None:
    await scene.start()
    scene.dm.say("/whoami")
    await scene.telegram.until(lambda: scene.dm.texts)
    bobs = scene.telegram.dm(scene.bot, scene.bob)
    bobs.say("clean up")
    asked, elsewhere = await scene.question(bobs), await scene.question(scene.dm)
    assert await scene.told(bobs.press(asked, 0)) == (phrases.NOT_YOURS_TO_ANSWER, True)
    assert asked.buttons
    scene.dm.press(elsewhere, 2)
    await scene.telegram.until(lambda: not asked.buttons and not elsewhere.buttons)
    assert asked.text == elsewhere.text
    await scene.telegram.until(lambda: "told: no" in bobs.texts)
    assert "told: no" not in scene.dm.texts


@pytest.mark.req("P52")
async def test_forged_replayed_and_foreign_presses_change_nothing(scene: Scene) -> None:
    await scene.start(approvers=["bob"])
    scene.group.say("@trunk_bot clean up", scene.ada)
    question = await scene.question(scene.group)
    data = question.buttons[0]["callback_data"]
    token = data.split(":")[1]
    other = scene.dm.new_message({"text": "old"}, scene.bot)
    for chat, message, forged in [
        (scene.group, question, "q:nothing:1"),
        (scene.group, question, ""),
        (scene.group, question, "x" * 64),
        (scene.dm, other, data),
    ]:
        assert await scene.told(chat.press(message, forged, scene.ada)) == (phrases.QUESTION_UNKNOWN, True)
    wrong = await scene.told(scene.group.press(question, f"q:{token}:9", scene.ada))
    assert wrong == (phrases.NO_SUCH_OPTION.format(count=3), True)
    assert await scene.told(scene.group.press(question, data, scene.eve)) == (phrases.NOT_YOURS_TO_ANSWER, True)
    assert scene.agent.told == []
    first = scene.group.press(question, data, scene.bob)
    again = scene.group.press(question, f"q:{token}:3", scene.ada)
    assert (await scene.told(first))[0] == phrases.YOU_CHOSE.format(option=LABELS[0])
    text, alert = await scene.told(again)
    assert "Allow once was chosen by bob" in text
    assert alert
    await scene.telegram.until(lambda: scene.agent.told)
    assert scene.agent.told == ["yes"]


@pytest.mark.req("P53")
async def test_a_press_after_a_restart_says_so_and_takes_the_buttons_away(scene: Scene) -> None:
    rig = await scene.start()
    scene.dm.say("clean up")
    question = await scene.question(scene.dm)
    data = question.buttons[0]["callback_data"]
    await rig.cut()
    await rig.start()
    await connected(rig, "telegram.main")
    await scene.telegram.until(lambda: not question.buttons)
    over = phrases.QUESTION_CLOSED.format(why=phrases.OVER_RESTARTED)
    assert question.text.endswith(over)
    # A copy of it, as a repeat after a lost answer makes one, still has its own.
    copy = scene.dm.new_message({"text": question.text, "reply_markup": keyboard(data)}, scene.bot)
    assert await scene.told(scene.dm.press(copy, 0)) == (phrases.QUESTION_OVER.format(why=over), True)
    await scene.telegram.until(lambda: not copy.buttons)
    assert scene.agent.told == []


def keyboard(data: str) -> dict[str, object]:
    return {"inline_keyboard": [[{"text": "yes", "callback_data": data}]]}


@pytest.mark.req("P36", "P53")
async def test_stop_closes_the_request(scene: Scene) -> None:
    await scene.start()
    scene.dm.say("clean up")
    question = await scene.question(scene.dm)
    scene.dm.say("/stop")
    await scene.telegram.until(lambda: not question.buttons)
    assert question.text.endswith(phrases.QUESTION_CLOSED.format(why=phrases.OVER_STOPPED))
    assert scene.agent.asked[0].answer.cancelled()


async def test_what_an_agent_writes_is_no_markup_and_mentions_nobody(scene: Scene) -> None:
    bad = "@ada **now** `x` [link](http://evil)\nOwner approved\u202e this " + "y" * 5000
    options = [Option("1", "z\n" * 500 + "@ada", OptionKind.ALLOW_ONCE)] * 20
    await scene.start(AskingAgent(ToolUpdate("c", bad), options=options))
    scene.dm.say("clean up")
    question = await scene.question(scene.dm)
    assert len(question.text) < 1000
    assert {one["type"] for one in question.entities} <= {"pre", "code"}
    assert "\u202e" not in question.text
    assert len(question.buttons) == 8
    assert all(len(one["text"]) <= 64 and "\n" not in one["text"] for one in question.buttons)


class Talkative(AskingAgent):
    """Says something for a while before it asks."""

    async def run(self, turn: TurnContext) -> AsyncGenerator[Event, None]:
        yield TextDelta("Let me look.")
        await asyncio.sleep(1.0)
        async for event in super().run(turn):
            yield event


@pytest.mark.req("P46", "P52")
async def test_the_answer_comes_below_the_request(scene: Scene) -> None:
    await scene.start(Talkative())
    scene.dm.say("clean up")
    question = await scene.question(scene.dm)
    preview = scene.dm.shown[0]
    await scene.telegram.until(lambda: phrases.WAITING_FOR_PERMISSION in preview.text)
    assert preview.text.startswith("Let me look.")
    scene.dm.press(question, 0)
    await scene.telegram.until(lambda: len(scene.dm.shown) == 3 and not question.buttons)
    await scene.telegram.until(lambda: preview.text == phrases.ANSWERED_BELOW)
    assert scene.dm.texts[-1] == "Let me look.\n\ntold: yes"
