"""Commands that people type: at once, once, and for their own conversation only."""

import asyncio

import pytest

from gateway import phrases
from gateway.agents.protocol import Done, PlanUpdate, TextDelta, ToolUpdate
from gateway.commands import Command, Typed, parse
from gateway.logs import Event as Logged
from routing.errors import SessionEnded
from store.content import Text
from store.records import InboxState, Role, Status, TurnStatus
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.harness import Rigs
from tests.store.helpers import held


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/stop", Command.STOP),
        ("/new please", Command.NEW),
        ("/help@trunkline_bot", Command.HELP),
        ("/status\nand more", Command.STATUS),
        ("/STOP", Command.STOP),
        ("/stopwatch", None),
        ("/unknown", None),
    ],
)
def test_what_is_a_command(text: str, command: Command | None) -> None:
    typed = parse(text)
    assert typed is not None
    assert typed.command is command


@pytest.mark.parametrize("text", ["/stop!", "stop", "please /stop", "/", "//stop", "/etc/hosts", "/2 of it", "/ stop"])
def test_what_is_none(text: str) -> None:
    assert parse(text) is None


def test_a_command_has_an_argument() -> None:
    assert parse("/agent  helper \n") == Typed(Command.AGENT, "agent", "helper")
    assert parse("/nonsense@bot a b") == Typed(None, "nonsense", "a b")


async def test_an_unknown_command_is_answered_with_a_hint_and_never_reaches_the_agent(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("/stopwatch 10")
    await rig.ask("/xyzzy")
    hint = phrases.DID_YOU_MEAN.format(name="stop")
    assert rig.chat.texts() == [
        phrases.UNKNOWN_COMMAND.format(name="stopwatch", hint=hint),
        phrases.UNKNOWN_COMMAND.format(name="xyzzy", hint=""),
    ]
    assert agent.seen == []


async def test_words_that_only_look_like_a_command_are_for_the_agent(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/etc/hosts is what?")
    assert rig.chat.texts() == ["re: /etc/hosts is what?"]


def status(*, messages: int = 0, waiting: int = 0, running: bool = False) -> str:
    text = phrases.STATUS.format(agent="main", messages=messages, waiting=waiting)
    return f"{text} {phrases.STATUS_RUNNING if running else phrases.STATUS_IDLE}"


async def test_commands_do_not_queue_and_leave_no_trace_in_the_history(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent([asyncio.Event()])).start()
    await rig.ask("hang")
    await rig.ask("wait")
    for command in ("/help", "/status"):
        await rig.ask(command)
    assert rig.chat.texts() == [phrases.HELP, status(messages=1, waiting=1, running=True)]
    assert await rig.said() == [("user", "hang")]
    assert [turn.text for turn in agent.seen] == ["hang"]


async def test_status_before_the_first_message(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/status")
    assert rig.chat.texts() == [status()]
    assert await rig.sessions() == []


# -- stop --------------------------------------------------------------------------------------------------------------


async def test_stop_is_immediate_and_idempotent(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent([TextDelta("half an ans"), asyncio.Event()], says("fine"))).start()
    await rig.ask("do X")
    await rig.advance(1)
    await rig.ask("/stop")
    assert agent.cancelled == 1
    assert rig.chat.texts() == [phrases.STOPPED]
    [turn] = await rig.turns()
    assert (turn.status, turn.errors, turn.answer_summary) == (TurnStatus.FAILED, ("stopped",), None)
    user, half, note = await rig.history()
    assert (half.content, half.metadata) == (Text("half an ans", partial=False), {"incomplete": True})
    assert (note.role, note.content) == (Role.SYSTEM, Text(phrases.NOTE_STOPPED))
    assert len(rig.journal.of(Logged.TURN_STOPPED)) == 1
    await rig.ask("/stop")
    assert rig.chat.texts() == [phrases.STOPPED, phrases.NOTHING_RUNNING]
    await rig.ask("hello")
    assert rig.chat.texts()[2:] == ["fine"]
    assert phrases.NOTE_STOPPED in [row.content.text for row in agent.seen[1].history if isinstance(row.content, Text)]
    await rig.advance(600)
    assert len(rig.chat.texts()) == 3
    assert (await rig.session()).status is Status.ACTIVE


async def test_what_waits_goes_on_after_a_stop(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()], says("two"), says("three"))).start()
    for text in ("one", "two", "three"):
        await rig.ask(text)
    await rig.ask("/stop")
    assert rig.chat.texts() == [f"{phrases.STOPPED} {phrases.STILL_WAITING.format(count=2)}", "two", "three"]


async def test_a_stop_reaches_its_own_conversation_only(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("answer")])).start()
    await rig.ask("x", sender="1")
    await rig.ask("x", sender="2")
    await rig.ask("x", sender="1", group=True)
    await rig.ask("x", sender="1", group=True, thread="7")
    await rig.ask("/stop", sender="1")
    await rig.ask("/stop", sender="3", group=True)
    go_on.set()
    await rig.settled()
    assert rig.chat.texts("1") == [phrases.STOPPED]
    assert rig.chat.texts("2") == ["answer"]
    assert rig.chat.texts("-100") == [phrases.STOPPED, "answer"]


async def test_a_stop_of_the_api_is_idempotent_too(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()])).start()
    api = rig.running.api
    session = await api.create_session(None, "owner")
    assert await api.stop(session.public_id) is None
    await api.prompt(session.public_id, "do X", "1")
    await rig.settled()
    stopped = await api.stop(session.public_id)
    assert stopped is not None
    assert (stopped.status, stopped.errors) == (TurnStatus.FAILED, ("stopped",))
    assert await api.stop(session.public_id) is None
    assert (await api.session(session.public_id)).status is Status.ACTIVE


LATE = [
    pytest.param([TextDelta("late"), Done()], id="text"),
    pytest.param([ToolUpdate("1", "rm", {}), TextDelta("late"), Done()], id="tool"),
    pytest.param([PlanUpdate(({"late": 1},)), TextDelta("late"), Done()], id="plan"),
    pytest.param([TextDelta("late")], id="no end"),
    pytest.param([], id="nothing"),
]


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("streaming", [False, True])
async def test_an_agent_that_does_not_listen_is_fenced_off(
    rigs: Rigs, late: list[TextDelta | ToolUpdate | PlanUpdate | Done], streaming: bool
) -> None:
    go_on = asyncio.Event()
    agent = ScriptedAgent([TextDelta("early "), go_on, *late], says("clean"), stubborn=True)
    rig = await rigs(agent, memory={"main": {"streaming": streaming}}).start()
    await rig.ask("do X")
    await rig.advance(5)
    await rig.ask("/stop")
    stopped = rig.chat.texts()
    assert stopped[-1] == phrases.STOPPED
    assert stopped[:-1] == ([f"early \n\n{phrases.STOPPED}"] if streaming else [])
    history = await rig.said()
    await rig.ask("hello")
    assert rig.chat.texts() == stopped
    go_on.set()
    await rig.settled()
    await rig.advance(10)
    assert rig.chat.texts() == [*stopped, "clean"]
    assert await rig.said() == [*history, ("user", "hello"), ("agent", "clean")]
    assert [turn.status for turn in await rig.turns()] == [TurnStatus.FAILED, TurnStatus.COMPLETED]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_stop_that_comes_before_the_commit_wins(rigs: Rigs, streaming: bool) -> None:
    done = asyncio.Event()
    agent = ScriptedAgent([TextDelta("answer"), done, Done()], says("fine"))
    rig = await rigs(agent, memory={"main": {"streaming": streaming}}).start()
    await rig.ask("do X")
    async with held(rig.running.store):
        stopping = asyncio.create_task(rig.say("/stop"))
        await asyncio.sleep(0)
        done.set()
        for _ in range(20):
            await asyncio.sleep(0)
    await stopping
    await rig.settled()
    assert rig.chat.texts() == [phrases.STOPPED]
    assert (await rig.turns())[0].errors == ("stopped",)
    await rig.ask("hello")
    assert rig.chat.texts() == [phrases.STOPPED, "fine"]


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_commit_that_comes_before_the_stop_wins(rigs: Rigs, streaming: bool) -> None:
    done = asyncio.Event()
    agent = ScriptedAgent([TextDelta("answer"), done, Done()], says("fine"))
    rig = await rigs(agent, memory={"main": {"streaming": streaming}}).start()
    await rig.ask("do X")
    async with held(rig.running.store):
        done.set()
        for _ in range(20):
            await asyncio.sleep(0)
        stopping = asyncio.create_task(rig.say("/stop"))
        await asyncio.sleep(0)
    await stopping
    await rig.settled()
    assert sorted(rig.chat.texts()) == sorted(["answer", phrases.NOTHING_RUNNING])
    assert (await rig.turns())[0].status is TurnStatus.COMPLETED
    await rig.ask("hello")
    assert rig.chat.texts()[2:] == ["fine"]


async def test_a_command_that_comes_twice_is_carried_out_once(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([asyncio.Event()])).start()
    await rig.ask("one")
    await rig.ask("/stop", external_id="stop")
    await rig.ask("two")
    await rig.ask("/stop", external_id="stop")
    assert rig.chat.texts() == [phrases.STOPPED]
    assert [turn.status for turn in await rig.turns()] == [TurnStatus.FAILED, TurnStatus.PENDING]


# -- new ---------------------------------------------------------------------------------------------------------------


@pytest.mark.req("S000-17")
async def test_new_ends_the_conversation_and_the_next_message_opens_another(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent()).start()
    await rig.ask("one")
    await rig.ask("/new")
    [old] = await rig.sessions()
    assert (old.status, old.reason) == (Status.COMPLETED, "new")
    await rig.ask("two")
    old, new = await rig.sessions()
    assert (new.status, new.key, new.predecessor) == (Status.ACTIVE, old.key, None)
    assert await rig.said(old) == [("user", "one"), ("agent", "re: one")]
    assert await rig.said(new) == [("user", "two"), ("agent", "re: two")]
    assert agent.seen[1].history == ()
    assert rig.chat.texts() == ["re: one", phrases.NEW_SESSION, "re: two"]


async def test_new_stops_what_runs_and_strands_nothing_that_waits(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([TextDelta("never shown"), asyncio.Event()], says("two"), says("three"))).start()
    for text in ("one", "two", "three"):
        await rig.ask(text)
    await rig.ask("/new")
    old, new = await rig.sessions()
    assert [(turn.status, turn.errors) for turn in await rig.turns(old)] == [(TurnStatus.FAILED, ("stopped",))]
    assert [text for _, text in await rig.said(new)] == ["two", "two", "three", "three"]
    assert rig.chat.texts() == [phrases.NEW_SESSION, "two", "three"]


async def test_new_without_a_conversation(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("/new")
    assert (rig.chat.texts(), await rig.sessions()) == ([phrases.NEW_SESSION], [])


# -- ending through the API --------------------------------------------------------------------------------------------


@pytest.mark.req("S001-25")
@pytest.mark.parametrize("status", [Status.CANCELLED, Status.COMPLETED, Status.ARCHIVED])
async def test_an_ended_session_stops_its_turn_and_takes_no_more(rigs: Rigs, status: Status) -> None:
    rig = await rigs(agent := ScriptedAgent([asyncio.Event()])).start()
    api = rig.running.api
    session = await api.create_session("main", "owner")
    await api.prompt(session.public_id, "one", "1")
    await api.prompt(session.public_id, "two", "2")
    await rig.settled()
    ended = await api.end(session.public_id, status, "enough")
    await rig.settled()
    assert (ended.status, ended.reason) == (status, "enough")
    assert agent.cancelled == 1
    assert len(agent.seen) == 1
    with pytest.raises(SessionEnded):
        await api.prompt(session.public_id, "three", "3")
    again = await api.prompt(session.public_id, "two", "2")
    assert (again.duplicate, again.item.state) == (True, InboxState.CANCELLED)
    said = await rig.said(ended)
    notes = [phrases.NOTE_CANCELLED.format(reason="enough")] if status is Status.CANCELLED else []
    assert said == [("user", "one"), ("system", phrases.NOTE_STOPPED), *(("system", text) for text in notes)]
