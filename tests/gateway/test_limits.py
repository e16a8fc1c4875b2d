"""Limits of a platform: a place that is held hears nothing, others do; paces are kept; closed places are parked."""

import asyncio

import pytest

from channels.base import Pace
from channels.memory import Fault
from gateway import phrases
from gateway.agents.protocol import Done, TextDelta
from gateway.logs import Event as Logged
from routing.errors import DeliveryFailed
from routing.messages import Addressed
from store.records import OutboxState
from tests.fakes.agents import ScriptedAgent, Step, says
from tests.fakes.harness import Platform, Rig, Rigs

STREAMING = {"main": {"streaming": True}}
LIMITED = DeliveryFailed("too many requests", retryable=True, retry_after=100)


def slow(*pieces: str) -> tuple[list[Step], asyncio.Event]:
    """The pieces, and then nothing until the event."""
    event = asyncio.Event()
    return [*map(TextDelta, pieces), event, Done()], event


def platform(rigs: Rigs, agent: ScriptedAgent | None = None, **tables: object) -> tuple[Rig, Platform]:
    rig = rigs(agent, **{"memory": STREAMING, **tables})
    chat = Platform(rig.clock)
    return rig.on(chat), chat


def calls(chat: Platform, place: str) -> list[float]:
    """Everything that was asked of the platform for a place, and when."""
    return sorted([call.at for call in chat.log if call.chat == place] + [at for at, to in chat.typed if to == place])


# -- 429 ---------------------------------------------------------------------------------------------------------------


@pytest.mark.req("P41")
@pytest.mark.parametrize("where", ["send", "edit", "typing"])
@pytest.mark.parametrize("restart", [None, False, True])
async def test_a_limited_place_hears_nothing_until_its_time(rigs: Rigs, where: str, restart: bool | None) -> None:
    script, done = slow("half an")
    rig, chat = platform(rigs, ScriptedAgent(script, says("half an answer")))
    await rig.start()
    chat.retry_after = 100
    if where == "typing":
        chat.typing_error = LIMITED
    elif where == "send":
        chat.faults.append(Fault.RATE_LIMIT)
    else:
        chat.faults.extend([None, Fault.RATE_LIMIT])  # type: ignore[list-item]
    await rig.ask("go", sender="1")
    await rig.advance(2)
    if where == "edit":
        done.set()
        await rig.settled()
    limited = calls(chat, "1")[-1]
    if restart is not None:
        await (rig.cut() if restart else rig.stop())
        await rig.start()
    await rig.ask("/status", sender="1")
    await rig.ask("other", sender="2")
    await rig.advance(10)
    if restart is None:
        done.set()
    await rig.advance(limited + 99.9 - rig.clock.monotonic())
    assert calls(chat, "1")[-1] == limited, "no message, no preview, no typing"
    assert "half an answer" in chat.texts("2") or "half an" in chat.texts("2"), "others are not concerned"
    await rig.advance(60)
    answers = [text for text in chat.texts("1") if text.startswith("half an")]
    assert len(answers) == 1, "the final comes once"
    assert not {"ready", "sending", "held"} & set(await rig.states())


@pytest.mark.req("P41")
@pytest.mark.parametrize("hard", [None, False, True])
async def test_a_limit_on_an_answer_binds_the_next_turn_too(rigs: Rigs, hard: bool | None) -> None:
    script, done = slow("half an")
    rig, chat = platform(rigs, ScriptedAgent(says("first"), script))
    chat.retry_after = 100
    await rig.start()
    chat.faults.append(Fault.RATE_LIMIT)
    await rig.ask("one")
    assert calls(chat, "1") == [0]
    if hard is not None:
        await (rig.cut() if hard else rig.stop())
        await rig.start()
    await rig.ask("two")
    await rig.advance(99.9 - rig.clock.monotonic())
    assert calls(chat, "1") == [0], "no typing and no preview"
    done.set()
    await rig.advance(5)
    assert chat.texts() == ["first", "half an"]


@pytest.mark.req("P41")
async def test_a_limit_on_typing_binds_the_preview(rigs: Rigs) -> None:
    begin, done = asyncio.Event(), asyncio.Event()
    rig, chat = platform(rigs, ScriptedAgent([begin, TextDelta("half an"), done, Done()]))
    chat.typing_error = LIMITED
    await rig.start()
    await rig.ask("go")
    await rig.advance(5)
    begin.set()
    await rig.advance(90)
    assert len(calls(chat, "1")) == 1
    await rig.advance(10)
    assert chat.texts() == ["half an"], "it is shown when it may be"
    done.set()


@pytest.mark.req("P41")
async def test_a_shorter_limit_does_not_end_a_longer_one(rigs: Rigs) -> None:
    """A typing call that was under way learns of a shorter limit after a message learnt of a longer one."""
    script, done = slow("half an")
    rig, chat = platform(rigs, ScriptedAgent(script))
    await rig.start()
    await rig.ask("go")
    delivery = rig.running.delivery
    address = rig.message("x").address
    await delivery.hold(address, 30)
    await delivery.hold(address, 5)
    await rig.advance(6)
    assert delivery.held(address)
    before = len(calls(chat, "1"))
    await rig.advance(20)
    assert len(calls(chat, "1")) == before
    done.set()
    await rig.advance(5)
    assert chat.texts() == ["half an"]


@pytest.mark.req("P41")
async def test_what_waits_keeps_its_order_behind_a_limit(rigs: Rigs) -> None:
    rig, chat = platform(rigs, memory={"main": {"streaming": False}})
    await rig.start()
    chat.faults.append(Fault.RATE_LIMIT)
    for text in ("one", "/help", "two"):
        await rig.ask(text)
    await rig.advance(31)
    assert chat.texts() == ["re: one", phrases.HELP, "re: two"]


# -- pacing ------------------------------------------------------------------------------------------------------------


async def test_a_pace_is_kept_before_the_platform_has_to_say_so(rigs: Rigs) -> None:
    rig, chat = platform(rigs, memory={"main": {"streaming": False}})
    chat.paces = Pace(burst=3, every=2.0)
    await rig.start()
    for number in range(6):
        await rig.ask(str(number), sender="1")
    await rig.ask("other", sender="2")
    await rig.advance(20)
    assert [call.at for call in chat.log if call.chat == "1"] == pytest.approx([0, 0, 0, 2, 4, 6])
    assert [call.at for call in chat.log if call.chat == "2"] == pytest.approx([0]), "each place has its own"
    await rig.advance(600)
    for number in range(4):
        await rig.ask(str(number), sender="1")
    await rig.advance(10)
    times = [call.at for call in chat.log if call.chat == "1"][6:]
    assert [at - times[0] for at in times] == pytest.approx([0, 0, 0, 2]), "a rest fills it, and no more than that"


async def test_previews_leave_room_for_what_matters(rigs: Rigs) -> None:
    """The last call of a burst is not spent on a preview."""
    script, done = slow("half an")
    rig, chat = platform(rigs, ScriptedAgent(script))
    chat.paces = Pace(burst=2, every=60.0)
    await rig.start()
    await rig.ask("/status")
    await rig.ask("go")
    await rig.advance(5)
    assert len(chat.log) == 1
    done.set()
    await rig.settled()
    assert chat.texts()[1:] == ["half an"]
    assert chat.log[-1].at == pytest.approx(5)


# -- closed places -----------------------------------------------------------------------------------------------------


@pytest.mark.req("P16")
@pytest.mark.parametrize("hard", [None, False, True])
async def test_a_person_who_blocked_us_gets_it_when_they_write_again(rigs: Rigs, hard: bool | None) -> None:
    rig = await rigs().start()
    rig.chat.faults.append(Fault.BLOCK)
    await rig.ask("one")
    await rig.advance(3600)
    assert len(rig.chat.log) == 1, "one attempt"
    [parked] = await rig.running.api.parked()
    assert (parked.state, parked.error, parked.text) == (OutboxState.PARKED, "blocked by the user", "re: one")
    assert len(rig.journal.of(Logged.DELIVERY_PARKED)) == 1
    if hard is not None:
        await (rig.cut() if hard else rig.stop())
        await rig.start()
        assert len(rig.chat.log) == 1
    await rig.ask("two", sender="2")
    assert len(await rig.running.api.parked()) == 1, "somebody else's message releases nothing"
    await rig.ask("back again")
    assert rig.chat.texts() == ["re: one", "re: back again"]
    assert await rig.running.api.parked() == []


@pytest.mark.req("P16")
async def test_a_group_that_took_us_back_gets_it_at_its_first_word(rigs: Rigs) -> None:
    """Also if that is not for us, so that nothing else would make us look."""
    rig = await rigs().start()
    rig.chat.faults.append(Fault.BLOCK)
    await rig.ask("one", group=True)
    assert rig.chat.texts("-100") == []
    await rig.ask("chatter", group=True, addressed=Addressed.NOT)
    assert rig.chat.texts("-100") == ["re: one"]


@pytest.mark.req("P16")
async def test_a_preview_in_a_closed_place_parks_the_answer_once(rigs: Rigs) -> None:
    script, done = slow("half an")
    rig, chat = platform(rigs, ScriptedAgent(script))
    await rig.start()
    chat.faults.extend([Fault.BLOCK, Fault.BLOCK])
    await rig.ask("go")
    await rig.advance(5)
    done.set()
    await rig.advance(600)
    assert len(chat.log) == 2
    [parked] = await rig.running.api.parked()
    assert parked.text == "half an"
