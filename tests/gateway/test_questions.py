"""Permission requests of agents: who decides, once, by when, and what the turn does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.base import Button, Outgoing, Verdict
from channels.memory import Fault
from gateway import phrases
from gateway.agents.protocol import Agent, Done, Option, OptionKind, Permission, TextDelta, ToolUpdate, TurnContext
from gateway.agents.protocol import Event as AgentEvent
from gateway.clock import Clock
from gateway.config import load
from gateway.logs import Event
from gateway.questions import deciding, wording
from gateway.questions.deciding import Shown
from routing.errors import AgentFailed, ConfigError
from routing.keys import PeerKind, SessionKey
from routing.messages import Address, Press, Sender
from store import inbox, people, questions, turns
from store.content import Text, Tool
from store.database import Database
from store.inbox import Arrival
from store.people import Configured
from store.questions import NewQuestion, Question, QuestionState
from store.records import NewMessage, OutboxState, Role, TurnStatus
from store.turns import Instruction
from tests.fakes.agents import OPTIONS, AskingAgent, ScriptedAgent, Step, says
from tests.fakes.harness import Chat, Platform, Rig, Rigs
from tests.store.helpers import in_memory

pytestmark = pytest.mark.req("P52")

PEOPLE = {"ann": {"telegram": 1, "owner": True}, "bea": {"telegram": 5}, "cid": {"telegram": 7}}
#: Ann owns it, Bea is named for the agent, Cid is known and asks; Dan is anybody.
ANN, BEA, CID, DAN = "1", "5", "7", "9"


class ButtonChat(Chat):
    """A chat with buttons."""

    longest_label = 64

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, "bot", "telegram")
        #: The buttons of each message now, by its id.
        self.buttons: dict[str, tuple[Button, ...]] = {}

    async def send(self, item: Outgoing) -> str:
        sent = await super().send(item)
        self.buttons[sent] = item.buttons or ()
        return sent

    async def edit(self, sent_id: str, item: Outgoing) -> None:
        await super().edit(sent_id, item)
        self.buttons[sent_id] = item.buttons or ()


def ready(rigs: Rigs, agent: Agent, *, buttons: bool = True, **main: object) -> Rig:
    table = {"kind": "builtin", "approvers": ["bea"], "turn_timeout": 30, **main}
    account = {"token": "x", "dm": "open", "groups": [-100], "mention": False, "streaming": False}
    rig = rigs(agent, main=table, people=PEOPLE, telegram={"bot": account})
    return rig.on(ButtonChat(rig.clock) if buttons else Chat(rig.clock, "bot", "telegram"))


async def every(rig: Rig) -> list[Question]:
    def read(db: Database) -> list[Question]:
        rows = db.execute("SELECT id FROM questions ORDER BY id").fetchall()
        return [found for (number,) in rows if (found := questions.get(db, number))]

    return await rig.read(read)


async def asked(rig: Rig) -> Question:
    """Cid asks in the group, and the agent waits for a permission."""
    await rig.start()
    await rig.ask("clean up", group=True, sender=CID)
    [question] = await every(rig)
    return question


async def press(rig: Rig, question: Question, option: int, sender: str) -> Verdict:
    data = f"q:{question.token}:{option}"
    one = Press(channel="telegram", account="bot", chat="-100", sender=Sender(id=sender), data=data)
    verdict = await rig.running.intake.desk.press(one)
    await rig.settled()
    return verdict


async def state(rig: Rig) -> tuple[QuestionState, str | None]:
    [question] = await every(rig)
    return question.state, question.chosen


# -- who decides, and when ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", [ANN, BEA])
async def test_the_owner_and_those_who_are_named_decide(rigs: Rigs, who: str) -> None:
    rig = ready(rigs, agent := AskingAgent())
    question = await asked(rig)
    for stranger in (CID, DAN):
        assert (await press(rig, question, 1, stranger)).text == phrases.NOT_YOURS_TO_ANSWER
    assert (await state(rig), agent.told) == ((QuestionState.OPEN, None), [])
    await press(rig, question, 1, who)
    assert (await state(rig), agent.told) == ((QuestionState.CHOSEN, "yes"), ["yes"])
    assert rig.chat.texts("-100")[-1] == "told: yes"
    assert len(rig.journal.of(Event.PRESS_REFUSED)) == 2
    [row] = [one for one in await rig.history() if "was chosen by" in getattr(one.content, "text", "")]
    assert row.role == "system"


async def test_nobody_answers_and_it_is_rejected(rigs: Rigs) -> None:
    rig = ready(rigs, agent := AskingAgent(), permission_timeout=120)
    question = await asked(rig)
    await rig.advance(119)
    assert agent.told == []
    await rig.advance(1)
    assert (await state(rig), agent.told) == ((QuestionState.TIMED_OUT, "no"), ["no"])
    said = phrases.NOBODY_ANSWERED.format(minutes="2")
    assert said in rig.chat.texts("-100")[0]
    late = await press(rig, question, 1, ANN)
    assert said in late.text
    assert late.over
    assert (await state(rig))[1] == "no"


async def test_without_a_rejection_for_once_nothing_is_chosen(rigs: Rigs) -> None:
    options = (OPTIONS[0], Option("never", "Never", OptionKind.REJECT_ALWAYS))
    rig = ready(rigs, agent := AskingAgent(options=options))
    await asked(rig)
    await rig.advance(600)
    assert (await state(rig), agent.told) == ((QuestionState.TIMED_OUT, None), [None])


PEOPLE_ROWS = [
    Configured(name="ann", owner=True, identities={"telegram": ANN}),
    Configured(name="bea", identities={"telegram": BEA}),
    Configured(name="cid", identities={"telegram": CID}),
]
GROUP = Address(channel="telegram", account="bot", chat="-100")


def put_question(db: Database) -> Question:
    key = SessionKey("main", "telegram", "bot", PeerKind.GROUP, "-100")
    item = inbox.accept(db, Arrival(external_id="1", key=key, address=GROUP, text="go"), 2).item
    user = NewMessage(role=Role.USER, content=Text("go"), public_id=item.message_id)
    _, turn = turns.begin(db, "main", [item], Instruction(messages=(user,), summary="go"), 3)
    new = NewQuestion(
        token="abc",
        turn=turn.id,
        asker=None,
        answerers=("bea",),
        text="may I?",
        options=wording.choices(OPTIONS),
        expires_at=9,
    )
    return deciding.ask(db, new, [Shown(GROUP, True, OutboxState.READY)], 4)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([ANN, BEA, CID, "timeout", "stop"]), st.integers(0, 4)), min_size=1))
def test_the_first_who_may_decides_and_nobody_after(happenings: list[tuple[str, int]]) -> None:
    """Whatever happens in whatever order: one outcome, that of the first that counts, and it never changes."""
    with closing(in_memory()) as db:
        people.sync(db, PEOPLE_ROWS, 1)
        for user in (ANN, BEA, CID):
            people.meet(db, "telegram", user, user, 1)
        question = put_question(db)
        outcome: tuple[str, str | None] | None = None
        for moment, (who, option) in enumerate(happenings, 10):
            decided = happen(db, question, who, option, moment)
            found = questions.get(db, question.id)
            assert found is not None
            if outcome is None and not found.open:
                outcome = (found.state, found.chosen)
                assert decided
                assert who != CID
            elif outcome is not None:
                assert not decided
                assert (found.state, found.chosen) == outcome


def happen(db: Database, question: Question, who: str, option: int, now: int) -> bool:
    """Whether it decided the question."""
    if who == "timeout":
        settled = deciding.expire(db, question.id, 10, now)
        return bool(settled.places)
    if who == "stop":
        return bool(deciding.close(db, question.turn, "x", now))
    one = Press(
        channel="telegram",
        account="bot",
        chat="-100",
        sender=Sender(id=who),
        data=f"q:{question.token}:{option}",
    )
    return deciding.press(db, one, now).question is not None


# -- meanwhile ---------------------------------------------------------------------------------------------------------


async def test_the_deadline_of_the_turn_stands_still(rigs: Rigs) -> None:
    rig = ready(rigs, AskingAgent())
    question = await asked(rig)
    await rig.advance(500)
    [turn] = await rig.turns()
    assert turn.status is TurnStatus.PENDING
    await press(rig, question, 1, ANN)
    [turn] = await rig.turns()
    assert turn.status is TurnStatus.COMPLETED


async def test_the_deadline_goes_on_where_it_stood(rigs: Rigs) -> None:
    loop = asyncio.get_running_loop()
    request = Permission(ToolUpdate("c", "rm"), OPTIONS, loop.create_future())
    hang = asyncio.Event()
    rig = ready(rigs, ScriptedAgent([lambda: rig.clock.sleep(20), request, hang, Done()]))
    await rig.start()
    await rig.ask("clean up", group=True, sender=CID)
    await rig.advance(20)
    [question] = await every(rig)
    await rig.advance(300)
    await press(rig, question, 1, ANN)
    await rig.advance(9)
    assert (await rig.turns())[0].status is TurnStatus.PENDING
    await rig.advance(2)
    assert (await rig.turns())[0].status is TurnStatus.FAILED


async def test_the_slot_is_free_while_a_person_decides(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    first = AskingAgent()

    class Both(AskingAgent):
        """Asks in the group, and answers slowly elsewhere."""

        async def run(self, turn: TurnContext) -> AsyncGenerator[AgentEvent, None]:
            if turn.text == "quick":
                await go_on.wait()
                yield TextDelta("here")
                yield Done()
                return
            async for event in first.run(turn):
                yield event

    rig = ready(rigs, Both(), max_turns=1)
    await rig.start()
    await rig.ask("clean up", group=True, sender=CID)
    [question] = await every(rig)
    await rig.ask("quick", sender=BEA)
    # The slot is taken by the other one: the answer is known, and the agent goes on when there is room again.
    await press(rig, question, 1, ANN)
    assert first.told == []
    go_on.set()
    await rig.settled()
    assert first.told == ["yes"]
    assert rig.chat.texts(BEA) == ["here"]
    assert rig.chat.texts("-100")[-1] == "told: yes"


@pytest.mark.req("P47")
async def test_it_does_not_look_busy_while_it_waits(rigs: Rigs) -> None:
    rig = rigs(AskingAgent(), people=PEOPLE, telegram={"bot": {"token": "x"}})
    platform = Platform(rig.clock, "bot", "telegram")
    await rig.on(platform).start()
    await rig.ask("clean up", sender=ANN)
    await rig.advance(100)
    assert platform.typed == []
    assert platform.texts(ANN)[0].startswith(phrases.ASKS_PERMISSION.format(agent="`main`"))
    assert len(platform.texts(ANN)) <= 2


async def test_two_requests_at_once_are_decided_apart(rigs: Rigs) -> None:
    loop = asyncio.get_running_loop()
    requests = [Permission(ToolUpdate(name, name), OPTIONS, loop.create_future()) for name in ("one", "two")]
    told: list[str | None] = []

    async def wait() -> None:
        told.extend(await asyncio.gather(*(one.answer for one in requests)))

    rig = ready(rigs, ScriptedAgent([*requests, wait, *says("done")]))
    await rig.start()
    await rig.ask("clean up", group=True, sender=CID)
    first, second = await every(rig)
    await press(rig, second, 3, ANN)
    assert told == []
    await press(rig, first, 1, BEA)
    assert told == ["yes", "no"]
    tools = [one.content for one in await rig.history() if isinstance(one.content, Tool)]
    assert [one.result.get("status") for one in tools] == ["pending", "rejected"]


# -- how it ends otherwise ---------------------------------------------------------------------------------------------


@pytest.mark.req("P36", "P53")
@pytest.mark.parametrize("how", ["stop", "end", "fail"])
async def test_a_request_ends_with_its_turn(rigs: Rigs, how: str) -> None:
    hang = asyncio.Event()
    endings: dict[str, Step] = {"stop": hang, "end": Done(), "fail": AgentFailed("no credit.")}
    request = Permission(ToolUpdate("c", "rm"), OPTIONS, asyncio.get_running_loop().create_future())
    rig = ready(rigs, ScriptedAgent([TextDelta("so"), request, lambda: rig.clock.sleep(1), endings[how]]))
    question = await asked(rig)
    await rig.advance(1)
    if how == "stop":
        await rig.ask("/stop", group=True, sender=CID)
    why = {"stop": phrases.OVER_STOPPED, "end": phrases.OVER_ENDED, "fail": phrases.OVER_FAILED}[how]
    assert (await state(rig))[0] is QuestionState.CLOSED
    assert rig.chat.texts("-100")[0].endswith(phrases.QUESTION_CLOSED.format(why=why))
    assert isinstance(rig.chat, ButtonChat)
    assert not any(rig.chat.buttons.values())
    assert request.answer.cancelled()
    assert why in (await press(rig, question, 1, ANN)).text


@pytest.mark.req("P53")
async def test_a_request_of_before_a_restart_is_over(rigs: Rigs) -> None:
    rig = ready(rigs, agent := AskingAgent())
    question = await asked(rig)
    await rig.cut()
    await rig.start()
    verdict = await press(rig, question, 1, ANN)
    assert phrases.OVER_RESTARTED in verdict.text
    assert verdict.over
    assert (await state(rig), agent.told) == ((QuestionState.CLOSED, None), [])
    assert phrases.OVER_RESTARTED in rig.chat.texts("-100")[0]


async def test_a_request_that_is_decided_while_it_is_being_sent(rigs: Rigs) -> None:
    rig = ready(rigs, agent := AskingAgent())
    await rig.start()
    rig.chat.faults.append(Fault.DELAY)
    await rig.ask("clean up", group=True, sender=CID)
    [question] = await every(rig)
    await press(rig, question, 1, ANN)
    assert agent.told == ["yes"]
    rig.chat.go_on.set()
    await rig.settled()
    assert "was chosen by" in rig.chat.texts("-100")[0]
    assert isinstance(rig.chat, ButtonChat)
    assert not any(rig.chat.buttons.values())


# -- where there are no buttons ----------------------------------------------------------------------------------------


async def test_in_words_by_number(rigs: Rigs) -> None:
    rig = ready(rigs, agent := AskingAgent(), buttons=False)
    await asked(rig)
    [shown] = rig.chat.texts("-100")
    assert shown.endswith(wording.numbered(wording.choices(OPTIONS)))
    assert "3. `❌ Reject`" in shown
    await rig.ask("/choose 1", group=True, sender=CID)
    assert rig.chat.texts("-100")[-1] == phrases.NOT_YOURS_TO_ANSWER
    await rig.ask("/choose all", group=True, sender=BEA)
    assert rig.chat.texts("-100")[-1] == phrases.NO_SUCH_OPTION.format(count=3)
    await rig.ask("/choose 3", group=True, sender=BEA)
    assert agent.told == ["no"]
    assert phrases.YOU_CHOSE.format(option="❌ Reject") in rig.chat.texts("-100")
    await rig.ask("/choose 3", group=True, sender=BEA)
    assert rig.chat.texts("-100")[-1] == phrases.NOTHING_TO_CHOOSE


async def test_somebody_named_by_id_need_not_have_written_before(rigs: Rigs) -> None:
    rig = ready(rigs, agent := AskingAgent(), approvers=["telegram:9"])
    question = await asked(rig)
    await press(rig, question, 1, BEA)
    assert agent.told == []
    await press(rig, question, 1, DAN)
    assert agent.told == ["yes"]


@pytest.mark.parametrize("listed", [["nobody"], ["telegram:ada"], [":5"], "bea", [5]])
def test_who_is_named_must_be_somebody(tmp_path: Path, listed: object) -> None:
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps({"agents": {"main": {"kind": "builtin", "approvers": listed}}}))
    with pytest.raises(ConfigError, match="approvers"):
        load(file, {})
