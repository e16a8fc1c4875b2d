"""Pairing: an unknown person gets a code, somebody lets them in, and what they wrote first is answered."""

import re

import pytest

from gateway import phrases
from gateway.logs import Event as Logged
from routing.access import Reason
from routing.errors import UnknownPairing
from routing.messages import Addressed
from store import people
from tests.fakes.agents import ScriptedAgent
from tests.fakes.harness import Chat, Rig, Rigs

HOUR = 3600
PAIRING = {"main": {"dm": "pairing"}}
OWNER = {"ann": {"telegram": 42, "owner": True}}
CODE = re.compile(r"^[A-HJ-NP-Z2-9]{8}$", re.MULTILINE)


def code_in(text: str) -> str:
    found = re.search(r"Your code: (\S+)", text)
    assert found is not None, text
    assert CODE.fullmatch(found[1]), "eight characters that nobody takes for each other"
    return found[1]


async def knock(rig: Rig, sender: str = "41", text: str = "let me in", **how: object) -> str:
    """An unknown person writes; the code they get."""
    await rig.ask(text, sender=sender, **how)
    return code_in(rig.chat.texts(sender)[-1])


@pytest.fixture
async def telegram(rigs: Rigs) -> Rig:
    """A chat in which somebody is the owner."""
    rig = rigs(ScriptedAgent(), people=OWNER, telegram={"bot": {"token": "x", "dm": "pairing", "groups": [-100]}})
    rig.on(Chat(rig.clock, "bot", "telegram"))
    return await rig.start()


async def test_an_unknown_person_gets_a_code_once(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory=PAIRING).start()
    code = await knock(rig)
    await rig.ask("hello?", sender="41")
    assert rig.chat.texts("41") == [phrases.PAIRING.format(code=code, user="memory:41")]
    assert (agent.seen, await rig.sessions()) == ([], [])
    assert [one.reason for one in await rig.refusals()] == [Reason.PAIRING_REQUIRED] * 2
    assert await rig.read(lambda db: people.find(db, "memory", "41")) is None, "nobody is remembered for that"


async def test_once_approved_the_first_message_is_answered(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(), memory=PAIRING).start()
    code = await knock(rig, text="first words")
    pairing = await rig.running.intake.approve(code.lower())
    await rig.settled()
    assert (pairing.sender, pairing.channel, pairing.account) == ("41", "memory", "main")
    assert rig.chat.texts("41")[1:] == ["re: first words"]
    await rig.ask("and now", sender="41")
    assert rig.chat.texts("41")[2:] == ["re: and now"]
    assert [turn.text for turn in agent.seen] == ["first words", "and now"]
    assert len(rig.journal.of(Logged.PERSON_APPROVED)) == 1
    await rig.stop()
    await rig.start()
    await rig.ask("later", sender="41")
    assert rig.chat.texts("41")[3:] == ["re: later"], "they stay known"


@pytest.mark.req("P52", "P53")
async def test_a_code_is_used_once_and_for_an_hour(rigs: Rigs) -> None:
    rig = await rigs(memory=PAIRING).start()
    used, late = await knock(rig, "41"), await knock(rig, "43")
    await rig.running.intake.approve(used)
    await rig.advance(HOUR)
    for code in (used, late, "AAAAAAAA", ""):
        with pytest.raises(UnknownPairing):
            await rig.running.intake.approve(code)
    await rig.settled()
    assert rig.chat.texts("43") == [phrases.PAIRING.format(code=late, user="memory:43")]
    assert await knock(rig, "43") != late, "who still wants in asks again"


@pytest.mark.req("P53")
@pytest.mark.parametrize("hard", [False, True])
async def test_a_code_survives_a_restart(rigs: Rigs, hard: bool) -> None:
    rig = await rigs(memory=PAIRING).start()
    code = await knock(rig)
    await (rig.cut() if hard else rig.stop())
    await rig.start()
    await rig.running.intake.approve(code)
    await rig.settled()
    assert rig.chat.texts("41")[1:] == ["re: let me in"]


async def test_a_crowd_of_strangers_has_three_codes(rigs: Rigs) -> None:
    rig = await rigs(memory=PAIRING).start()
    codes = [await knock(rig, str(number)) for number in range(100, 105)]
    waiting = await rig.running.api.operations.pairings()
    assert [one.code for one in waiting] == codes[:1:-1]
    with pytest.raises(UnknownPairing):
        await rig.running.intake.approve(codes[0])


async def test_a_first_message_that_is_a_command_runs_on_approval(rigs: Rigs) -> None:
    rig = await rigs(memory=PAIRING).start()
    await rig.ask("/start", sender="41")
    await rig.running.intake.approve(code_in(rig.chat.texts("41")[0]))
    await rig.settled()
    assert rig.chat.texts("41")[1:] == [phrases.HELP]


# -- in chat -----------------------------------------------------------------------------------------------------------


async def test_the_owner_approves_in_chat(telegram: Rig) -> None:
    rig = telegram
    code = await knock(rig)
    await rig.ask(f"/approve {code.lower()}", sender="42")
    assert rig.chat.texts("42") == [phrases.APPROVED.format(name='"Person 41"', user="telegram:41")]
    assert rig.chat.texts("41")[1:] == ["re: let me in"]
    await rig.ask(f"/approve {code}", sender="42")
    assert str(UnknownPairing(pairing=code)) in rig.chat.texts("42")[1]


@pytest.mark.req("P52")
async def test_nobody_else_approves(telegram: Rig) -> None:
    rig = telegram
    friend = await knock(rig, "7")
    await rig.ask(f"/approve {friend}", sender="42")
    code = await knock(rig, "41")
    await rig.ask(f"/approve {code}", sender="7")
    await rig.ask(f"/approve {code}", sender="7", group=True, addressed=Addressed.COMMAND)
    await rig.ask(f"/approve {code}", sender="41")
    assert rig.chat.texts("7")[2:] == [phrases.OWNER_ONLY]
    assert rig.chat.texts("-100") == [phrases.OWNER_ONLY]
    assert rig.chat.texts("41") == [phrases.PAIRING.format(code=code, user="telegram:41")]
    assert [one.code for one in await rig.running.api.operations.pairings()] == [code], "and the code is not used up"


@pytest.mark.req("P57")
async def test_a_name_cannot_pretend_to_be_an_answer(telegram: Rig) -> None:
    rig = telegram
    await rig.ask("hi", sender="41", name='Eve"\nApproved: everybody')
    await rig.ask(f"/approve {code_in(rig.chat.texts('41')[0])}", sender="42")
    [told] = rig.chat.texts("42")
    assert "\n" not in told
    assert told.endswith("(telegram:41) is approved.")


async def test_a_code_means_nothing_in_a_group(telegram: Rig) -> None:
    """Strangers in a listed group are answered as before, and known nowhere else."""
    rig = telegram
    await rig.ask("hello", sender="41", group=True)
    assert rig.chat.texts("-100") == ["re: hello"]
    assert await knock(rig, "41")
