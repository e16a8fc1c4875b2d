"""Presence: typing exactly while a turn runs, a sign of life from a minute on, and a new message after a long run."""

import asyncio

import pytest

from channels.memory import Fault
from gateway import phrases
from gateway.agents.protocol import Done, TextDelta
from routing.errors import AgentFailed, DeliveryFailed
from tests.fakes.agents import ScriptedAgent, Step, says
from tests.fakes.harness import Chat, Platform, Rig, Rigs

STREAMING = {"main": {"streaming": True}}
#: Somewhat more than a quick answer takes, after which people are told that one is being written.
SOON = 0.5


def platform(rigs: Rigs, agent: ScriptedAgent, **tables: object) -> tuple[Rig, Platform]:
    rig = rigs(agent, **tables)
    chat = Platform(rig.clock)
    return rig.on(chat), chat


def waits(*before: Step, end: tuple[Step, ...] = (TextDelta("done"), Done())) -> tuple[list[Step], asyncio.Event]:
    event = asyncio.Event()
    return [*before, event, *end], event


def gaps(times: list[float]) -> list[float]:
    return [round(later - earlier, 6) for earlier, later in zip(times, times[1:], strict=False)]


# -- typing ------------------------------------------------------------------------------------------------------------

ENDINGS: dict[str, tuple[Step, ...]] = {
    "answer": (TextDelta("done"), Done()),
    "failure": (AgentFailed("No."),),
    "bug": (ZeroDivisionError("x"),),
    "broken off": (TextDelta("half"),),
    "empty": (Done(),),
}


@pytest.mark.req("P47")
@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS.keys())
async def test_typing_lasts_exactly_as_long_as_the_work(rigs: Rigs, end: tuple[Step, ...]) -> None:
    script, event = waits(end=end)
    rig, chat = platform(rigs, ScriptedAgent(script))
    await rig.start()
    assert chat.typed == []
    await rig.ask("go")
    await rig.advance(43)
    times = [at for at, _ in chat.typed]
    assert times[0] <= SOON
    assert max(gaps(times)) <= 4.0
    assert times[-1] >= 39, "it is still being said"
    event.set()
    await rig.settled()
    said = len(chat.typed)
    await rig.advance(600)
    assert len(chat.typed) == said, "and not a moment longer"
    assert len(chat.texts()) == 1


@pytest.mark.req("P47")
@pytest.mark.parametrize("how", ["stop", "timeout", "daemon stops", "daemon is killed"])
async def test_typing_ends_however_the_turn_does(rigs: Rigs, how: str) -> None:
    script, _ = waits()
    rig, chat = platform(rigs, ScriptedAgent(script), main={"turn_timeout": 30.0}, gateway={"drain_seconds": 5.0})
    await rig.start()
    await rig.ask("go")
    await rig.advance(10)
    assert chat.typed
    match how:
        case "stop":
            await rig.ask("/stop")
        case "timeout":
            await rig.advance(21)
        case "daemon stops":
            await rig.stop()
        case _:
            await rig.cut()
    said = len(chat.typed)
    await rig.clock.advance(600)  # type: ignore[attr-defined]
    assert len(chat.typed) == said


@pytest.mark.req("P47")
async def test_a_quick_answer_needs_no_typing(rigs: Rigs) -> None:
    rig, chat = platform(rigs, ScriptedAgent())
    await rig.start()
    await rig.ask("go")
    assert (chat.texts(), chat.typed) == (["re: go"], [])


@pytest.mark.req("P47")
async def test_typing_is_shown_where_the_work_is(rigs: Rigs) -> None:
    first, event = waits()
    rig, chat = platform(rigs, ScriptedAgent(first))
    await rig.start()
    await rig.ask("go", sender="1")
    await rig.ask("go", group=True)
    await rig.ask("waits", sender="1")
    await rig.advance(9)
    assert {chat for _, chat in chat.typed} == {"1", "-100"}
    event.set()
    await rig.settled()


@pytest.mark.parametrize(
    "error",
    [DeliveryFailed("cut", retryable=True), DeliveryFailed("no rights", retryable=False), ZeroDivisionError("x")],
    ids=["cut", "refused", "a bug"],
)
async def test_trouble_with_typing_is_no_trouble_of_the_turn(rigs: Rigs, error: Exception) -> None:
    script, event = waits()
    rig, chat = platform(rigs, ScriptedAgent(script))
    await rig.start()
    chat.typing_error = error
    await rig.ask("go")
    await rig.advance(9)
    event.set()
    await rig.settled()
    assert chat.texts() == ["done"]


# -- signs of life -----------------------------------------------------------------------------------------------------


@pytest.mark.req("P47")
async def test_a_long_job_gives_a_sign_of_life_from_a_minute_on(rigs: Rigs) -> None:
    script, event = waits()
    rig, chat = platform(rigs, ScriptedAgent(script), memory=STREAMING, main={"turn_timeout": 600.0})
    await rig.start()
    await rig.ask("go", reply_to="m1")
    await rig.advance(59)
    assert chat.log == []
    await rig.advance(2)
    assert chat.texts() == [phrases.STILL_WORKING.format(minutes=1)]
    await rig.advance(130)
    assert chat.texts() == [phrases.STILL_WORKING.format(minutes=3)]
    assert [call.verb for call in chat.log] == ["send", "edit", "edit"]
    event.set()
    await rig.settled()
    assert chat.texts() == [phrases.ANSWERED_BELOW, "done"], "it ends, and the answer notifies"
    assert [one.address.reply_to for one in chat.shown] == ["m1", "m1"]
    await rig.advance(600)
    assert chat.texts() == [phrases.ANSWERED_BELOW, "done"]


@pytest.mark.req("P47")
async def test_an_answer_that_grows_is_its_own_sign_of_life(rigs: Rigs) -> None:
    script, event = waits(TextDelta("working on it"))
    rig, chat = platform(rigs, ScriptedAgent(script), memory=STREAMING, main={"turn_timeout": 600.0})
    await rig.start()
    await rig.ask("go")
    await rig.advance(200)
    assert chat.texts() == ["working on it"]
    assert [call.verb for call in chat.log] == ["send"]
    event.set()


@pytest.mark.req("P47")
@pytest.mark.parametrize("how", ["failure", "stop", "timeout"])
async def test_a_sign_of_life_does_not_outlive_its_turn(rigs: Rigs, how: str) -> None:
    script, event = waits(end=(AgentFailed("No."),))
    rig, chat = platform(rigs, ScriptedAgent(script), memory=STREAMING, main={"turn_timeout": 100.0})
    await rig.start()
    await rig.ask("go")
    await rig.advance(70)
    assert chat.texts() == [phrases.STILL_WORKING.format(minutes=1)]
    if how == "failure":
        event.set()
        await rig.settled()
        expected = [phrases.ANSWERED_BELOW, phrases.FAILED.format(why="No.")]
    elif how == "stop":
        await rig.ask("/stop")
        expected = [phrases.STOPPED, phrases.STOPPED]
    else:
        await rig.advance(40)
        why = phrases.TIMED_OUT.format(seconds=100)
        expected = [phrases.ANSWERED_BELOW, phrases.FAILED.format(why=why)]
    await rig.advance(300)
    assert chat.texts() == expected


# -- the final message -------------------------------------------------------------------------------------------------


@pytest.mark.req("P46")
async def test_one_create_spaced_edits_and_none_equal_to_the_last(rigs: Rigs) -> None:
    rig: Rig

    async def tick() -> None:
        await rig.clock.sleep(0.35)

    steps: list[Step] = []
    for number in range(100):
        steps += [TextDelta(f"{number} " if number % 10 < 3 else "  \n"), tick]
    rig = rigs(ScriptedAgent([*steps, Done()]), memory=STREAMING)
    await rig.start()
    await rig.ask("go")
    await rig.advance(50)
    calls = rig.chat.log
    assert [call.verb for call in calls].count("send") == 1
    assert calls[0].verb == "send"
    assert min(gaps([call.at for call in calls[:-1]])) >= 1.5
    texts = [call.text for call in calls]
    assert all(one != two for one, two in zip(texts[:-1], texts[1:-1], strict=False)), "no edit equal to the last"
    # The final one may be: it is also how we learn that the message is still there.
    assert len(rig.chat.shown) == 1
    assert rig.chat.texts()[0].split() == [str(number) for number in range(100) if number % 10 < 3]


@pytest.mark.req("P46")
async def test_the_newest_text_is_shown_although_nothing_follows_it(rigs: Rigs) -> None:
    """A pause of the agent right after an edit does not leave half a sentence standing."""
    event, done = asyncio.Event(), asyncio.Event()
    rig = await rigs(
        ScriptedAgent([TextDelta("one"), event, TextDelta(" two"), done, Done()]), memory=STREAMING
    ).start()
    await rig.ask("go")
    await rig.advance(0.3)
    assert rig.chat.texts() == ["one"]
    event.set()
    await rig.advance(0.5)
    assert rig.chat.texts() == ["one"], "too soon for an edit"
    await rig.advance(1.5)
    assert rig.chat.texts() == ["one two"], "and now nothing else had to happen"
    done.set()


@pytest.mark.req("P46")
@pytest.mark.parametrize(("seconds", "new"), [(59, False), (62, True)])
async def test_after_a_long_run_the_answer_is_a_message_that_notifies(rigs: Rigs, seconds: float, new: bool) -> None:
    script, event = waits(TextDelta("half"), end=(TextDelta(" and half"), Done()))
    rig = await rigs(ScriptedAgent(script), memory=STREAMING, main={"turn_timeout": 600.0}).start()
    await rig.ask("go")
    await rig.advance(seconds)
    event.set()
    await rig.settled()
    assert rig.chat.texts() == [*([phrases.ANSWERED_BELOW] if new else []), "half and half"]


@pytest.mark.req("P46")
@pytest.mark.parametrize(
    ("how", "new"),
    [
        ({"sender": "2", "group": True}, True),
        ({"sender": "2", "group": True, "addressed": "not"}, True),
        ({"sender": "2", "group": True, "thread": "7"}, True),
        ({"sender": "2", "group": True, "thread": "8"}, False),
        ({"sender": "2", "group": True, "chat": "-200"}, False),
        ({"sender": "1"}, False),
    ],
    ids=["to us", "to others", "in the same topic", "in another topic", "in another group", "in private"],
)
async def test_when_others_have_spoken_the_answer_is_a_new_message(
    rigs: Rigs, how: dict[str, object], new: bool
) -> None:
    script, event = waits(TextDelta("half"), end=(TextDelta(" and half"), Done()))
    rig = await rigs(ScriptedAgent(script, says("other")), memory=STREAMING).start()
    await rig.ask("go", sender="1", group=True, thread="7" if how.get("thread") else None)
    await rig.advance(5)
    await rig.say("meanwhile", **how)
    await rig.advance(2)
    event.set()
    await rig.settled()
    mine = [text for text in rig.chat.texts("-100") if text != "other"]
    assert mine == [*([phrases.ANSWERED_BELOW] if new else []), "half and half"]


@pytest.mark.req("P03")
@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.RATE_LIMIT, Fault.REFUSE])
async def test_trouble_while_a_preview_is_closed_costs_no_answer(rigs: Rigs, fault: Fault) -> None:
    script, event = waits(TextDelta("half"), end=(TextDelta(" and half"), Done()))
    rig = await rigs(ScriptedAgent(script), memory=STREAMING, main={"turn_timeout": 600.0}).start()
    await rig.ask("go")
    await rig.advance(70)
    rig.chat.faults.append(fault)
    event.set()
    await rig.advance(100)
    assert rig.chat.texts()[-1] == "half and half"
    assert rig.chat.texts().count("half and half") == 1
    assert rig.chat.texts().count(phrases.ANSWERED_BELOW) == (0 if fault is Fault.REFUSE else 1)
    assert not {"ready", "sending", "held"} & set(await rig.states())


@pytest.mark.req("P46")
async def test_a_preview_that_somebody_deleted_is_not_closed_by_a_new_message(rigs: Rigs) -> None:
    script, event = waits(TextDelta("half"), end=(TextDelta(" and half"), Done()))
    rig = await rigs(ScriptedAgent(script), memory=STREAMING, main={"turn_timeout": 600.0}).start()
    await rig.ask("go")
    await rig.advance(70)
    rig.chat.shown.clear()
    event.set()
    await rig.settled()
    assert rig.chat.texts() == ["half and half"]
    assert sorted(await rig.states()) == ["dropped", "sent"]


async def test_without_previews_a_long_run_is_one_message(rigs: Rigs) -> None:
    script, event = waits()
    rig = await rigs(ScriptedAgent(script), main={"turn_timeout": 600.0}).start()
    await rig.ask("go")
    await rig.advance(200)
    event.set()
    await rig.settled()
    assert rig.chat.texts() == ["done"]
    assert isinstance(rig.chat, Chat)
