"""A different secret in every place: no agent is ever given another place's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from gateway.agents.protocol import TurnContext
from gateway.attribution import prompt_text
from tests.fakes.agents import ScriptedAgent, Step, says
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.watch import Watch
from tests.fakes.telegram.server import FakeTelegram
from tests.platforms.conftest import Deploy, connected


@dataclass(frozen=True)
class Place:
    name: str
    say: Callable[[str], object]

    @property
    def canary(self) -> str:
        return f"canary-{self.name}-yranac"


def prompt(turn: TurnContext) -> str:
    """Everything that an agent can see of a turn."""
    return "\n".join([turn.summary or "", *map(prompt_text, (*turn.history, *turn.instruction))])


class Listener(ScriptedAgent):
    """Says the same to everybody, and tells the test when it was asked."""

    def __init__(self, asked: Watch) -> None:
        super().__init__(lambda _: self._answer())
        self._asked = asked

    def _answer(self) -> list[Step]:
        self._asked.changed()
        return says("noted")


@pytest.mark.req("P09", "P10", "P11", "P12")
@pytest.mark.timeout(120)
async def test_no_prompt_has_a_foreign_canary(telegram: FakeTelegram, discord: FakeDiscord, deploy: Deploy) -> None:
    first, second = telegram.bot("first_bot"), telegram.bot("second_bot")
    people = [telegram.user(f"Person {number}") for number in range(3)]
    groups = [telegram.group(first, second), telegram.group(first), telegram.group(second, forum=True)]
    topics = [groups[2].topic("one"), groups[2].topic("two")]
    robot = discord.add_bot("robot", "a-discord-token")
    members = [discord.add_user(f"Member {number}") for number in range(2)]
    guild = discord.add_guild("Guild", robot, *members)
    rooms = [discord.add_channel(guild, "one"), discord.add_channel(guild, "two")]
    threads = [discord.add_thread(rooms[0], "t1"), discord.add_thread(rooms[0], "t2")]
    places = [
        *(Place(f"dm1-{one.id}", telegram.dm(first, one).say) for one in people),
        # The second account answers with another agent.
        *(Place(f"dm2-{one.id}", telegram.dm(second, one).say) for one in people),
        *(
            Place(f"group-{number}", _mention(group.say, people[0], "second_bot" if number == 2 else "first_bot"))
            for number, group in enumerate(groups)
        ),
        *(
            Place(f"topic-{number}", _mention(topic.say, people[1], "second_bot"))
            for number, topic in enumerate(topics)
        ),
        *(Place(f"discord-dm-{one.id}", _in(discord, one, discord.dm(one, robot))) for one in members),
        *(Place(f"room-{room.id}", _in(discord, members[0], room, robot.id)) for room in (*rooms, *threads)),
    ]
    asked = Watch()
    agents = {"main": Listener(asked), "other": Listener(asked)}
    account = {"base_url": telegram.url, "dm": "open", "groups": [group.id for group in groups], "flood": 0}
    rig = await deploy(
        agents,
        gateway={"default_agent": "main"},
        telegram={"first": {**account, "token": first.token}, "second": {**account, "token": second.token}},
        discord={
            "main": {
                "token": robot.token,
                "base_url": discord.base_url,
                "gateway_url": discord.gateway_url,
                "dm": "open",
                "groups": [guild.id],
            }
        },
        bindings=[{"agent": "other", "account": "second"}],
    )
    await connected(rig, "telegram.first", "telegram.second", "discord.main")
    seen = [*agents.values()]
    turns = 0
    for question in ("remember {canary}", "and again {canary}", "what is the secret?"):
        for place in places:
            place.say(question.format(canary=place.canary))
        turns += len(places)
        await asked.until(partial(_asked, seen, turns))
    own = {place.canary for place in places}
    for turn in (turn for one in seen for turn in one.seen):
        found = {canary for canary in own if canary in prompt(turn)}
        assert len(found) == 1, found
    last = [turn for one in seen for turn in one.seen if turn.text.endswith("what is the secret?")]
    assert len(last) == len(places)
    assert {canary for turn in last for canary in own if canary in prompt(turn)} == own


def _asked(agents: Sequence[ScriptedAgent], turns: int) -> bool:
    return sum(len(one.seen) for one in agents) == turns


def _mention(say: Callable[..., object], user: object, bot: str) -> Callable[[str], object]:
    return lambda text: say(f"@{bot} {text}", user)


def _in(discord: FakeDiscord, user: object, channel: object, bot: int | None = None) -> Callable[[str], object]:
    prefix = "" if bot is None else f"<@{bot}> "
    return lambda text: discord.say(user, channel, f"{prefix}{text}")  # type: ignore[arg-type]
