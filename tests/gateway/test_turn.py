"""A turn from top to bottom, through the whole daemon."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import phrases
from gateway.agents.protocol import Done, Event, PlanUpdate, TextDelta, ToolUpdate, TurnContext
from gateway.logs import Event as Logged
from routing.errors import AgentFailed
from store.content import Text
from store.database import Database
from store.records import Role, Status, TurnStatus, Usage
from tests.fakes.agents import ScriptedAgent, Step, says
from tests.fakes.harness import Rig, Rigs, in_short

READ = ToolUpdate("1", "read", {"path": "a.txt"})
READ_DONE = ToolUpdate("1", "read", {"path": "a.txt"}, {"lines": 3})

# -- the order ---------------------------------------------------------------------------------------------------------

#: What is written to the database, in the words of the requirement.
WATCHED = {
    "key": "AFTER INSERT ON inbox",
    "session": "AFTER INSERT ON sessions",
    "turn": "AFTER INSERT ON turns",
    "message": "AFTER INSERT ON messages",
    "totals": "AFTER UPDATE OF total_output_tokens ON sessions WHEN NEW.total_output_tokens > OLD.total_output_tokens",
    "completed": "AFTER UPDATE OF status ON turns WHEN NEW.status = 'completed'",
    "held": "AFTER INSERT ON outbox WHEN NEW.state = 'held'",
    "compacted": "AFTER INSERT ON compactions",
    "released": "AFTER UPDATE OF state ON outbox WHEN NEW.state = 'ready'",
    "sending": "AFTER UPDATE OF state ON outbox WHEN NEW.state = 'sending'",
    "sent": "AFTER UPDATE OF state ON outbox WHEN NEW.state = 'sent'",
}


def watch(db: Database) -> None:
    """Let the database itself write down what happens to it, and when."""
    db.execute("CREATE TABLE noticed (number INTEGER PRIMARY KEY, what TEXT)")
    for what, when in WATCHED.items():
        db.execute(f"CREATE TRIGGER see_{what} {when} BEGIN INSERT INTO noticed (what) VALUES ('{what}'); END")


def note(what: str) -> Callable[[Database], object]:
    return lambda db: db.execute("INSERT INTO noticed (what) VALUES (?)", (what,))


def seen(db: Database) -> list[str]:
    return [what for (what,) in db.execute("SELECT what FROM noticed ORDER BY number").fetchall()]


def in_order(what: Sequence[str], steps: Sequence[str | set[str]]) -> bool:
    """Whether the steps were taken in this order; those of one set share a transaction, where order has no meaning."""
    rest = list(what)
    for step in steps:
        together = {step} if isinstance(step, str) else step
        if sorted(rest[: len(together)]) != sorted(together):
            return False
        del rest[: len(together)]
    return not rest


@pytest.mark.req("S001-51", "S001-52", "S001-54", "S001-55", "S001-56", "S001-57", "S001-58", "S001-59")
@pytest.mark.req("S001-46", "CARD-21", "CARD-22", "CARD-23", "S004-79", "S004-87")
async def test_the_steps_of_a_turn_in_their_order(rigs: Rigs) -> None:
    rig: Rig
    long = "word " * 200

    def noting(what: str) -> Callable[[], Awaitable[object]]:
        return lambda: rig.write(note(what))

    usage = Usage(input=3, output=5, source="provider")
    first: Sequence[Step] = says(long)
    second: Sequence[Step] = [noting("agent begins"), TextDelta("a"), TextDelta("b"), noting("agent ends"), Done(usage)]
    compaction = {"strategy": "window", "keep_turns": 1}
    rig = await rigs(ScriptedAgent(first, second), main={"compaction": compaction, "context_window": 450}).start()
    await rig.write(watch)
    await rig.ask(long)
    begin, end = {"turn", "message"}, {"message", "completed", "held"}
    out: list[str | set[str]] = ["released", "sending", "sent"]
    assert in_order(await rig.read(seen), ["key", {"session"} | begin, end | {"totals"}, *out])
    await rig.write(lambda db: db.execute("DELETE FROM noticed"))
    await rig.ask("again")
    assert in_order(
        await rig.read(seen), ["key", begin, "agent begins", "agent ends", end | {"totals"}, "compacted", *out]
    )


async def test_the_log_tells_the_same_story(rigs: Rigs) -> None:
    rig = await rigs().start()
    before = len(rig.journal.lines)
    await rig.ask("hello")
    assert [name for name, _ in rig.journal.lines[before:]] == [
        Logged.MESSAGE_ACCEPTED,
        Logged.SESSION_CREATED,
        Logged.TURN_STARTED,
        Logged.TURN_COMPLETED,
        Logged.DELIVERY_SENT,
    ]


# -- what is stored ----------------------------------------------------------------------------------------------------


@pytest.mark.req("S000-06", "S000-44", "S000-45", "S001-32", "S004-13", "S004-42")
async def test_a_turn_leaves_one_row_of_each_side(rigs: Rigs) -> None:
    rig = await rigs(
        ScriptedAgent(says("Hello", " there"), says("Bye", usage=Usage(output=7, source="provider")))
    ).start()
    await rig.ask("hi")
    await rig.ask("bye")

    def stored(db: Database) -> list[tuple[str, dict[str, object]]]:
        rows = db.execute("SELECT role, content FROM messages ORDER BY id").fetchall()
        return [(role, json.loads(content)) for role, content in rows]

    assert await rig.read(stored) == [
        ("user", {"type": "text", "text": "hi"}),
        ("agent", {"type": "text", "text": "Hello there", "partial": False}),
        ("user", {"type": "text", "text": "bye"}),
        ("agent", {"type": "text", "text": "Bye", "partial": False}),
    ]
    history = await rig.history()
    assert [row.token_count for row in history] == [None, None, None, 7]
    assert [row.turn for row in history] == [(await rig.turns())[at].id for at in (0, 0, 1, 1)]


@pytest.mark.req("S004-44", "S004-45", "S004-46", "S004-47", "S004-49", "S004-50", "S004-53", "S004-54", "S004-57")
@pytest.mark.req("S004-80", "S004-81", "S004-82", "S004-83", "S004-84", "S004-94", "S004-95")
async def test_a_turn_knows_who_asked_what_answered_and_when(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    usage = Usage(input=3, output=5, source="provider")
    script: list[Step] = [TextDelta("yes"), go_on, Done(usage, "model-1", ("careful",))]
    rig = await rigs(ScriptedAgent(script)).start()
    await rig.ask("one", sender="1", group=True)
    [pending] = await rig.turns()
    assert (pending.status, pending.attempts, pending.mode, pending.seq) == (TurnStatus.PENDING, 1, "ask", 1)
    assert pending.status_at == pending.created_at
    assert (pending.response_received_at, pending.answer_summary, pending.model) == (None, None, None)
    await rig.advance(10)
    go_on.set()
    await rig.ask("two", sender="2", group=True)
    first, second = await rig.turns()
    session = await rig.session()
    assert (first.status, first.answer_summary, first.model) == (TurnStatus.COMPLETED, "yes", "model-1")
    assert (first.usage, first.warnings, first.errors) == (usage, ("careful",), ())
    assert first.created_at == pending.created_at
    assert first.response_received_at == first.status_at
    assert first.status_at - first.created_at == pytest.approx(10_000_000, abs=100)
    assert (first.conversation_id, second.seq) == (session.public_id, 2)
    people = await rig.read(lambda db: dict(db.execute("SELECT person, user_id FROM identities").fetchall()))
    assert [people[turn.created_by] for turn in (first, second)] == ["1", "2"]


@pytest.mark.req("S001-57", "CARD-21")
async def test_totals_are_the_sum_of_what_was_reported(rigs: Rigs) -> None:
    reported = [Usage(input=3, output=5, source="provider"), Usage(), Usage(input=1, output=2, source="estimated")]
    rig = await rigs(ScriptedAgent(*(says("ok", usage=usage, model="m") for usage in reported))).start()
    times = []
    for text in "abc":
        await rig.ask(text)
        times.append((await rig.session()).updated_at)
    session = await rig.session()
    used = [turn.usage for turn in await rig.turns()]
    assert [used[0], used[2]] == [reported[0], reported[2]]
    assert used[1].source == "estimated"
    assert session.total_input_tokens == sum(one.total_input or 0 for one in used)
    assert session.total_output_tokens == sum(one.total_output or 0 for one in used)
    assert (session.message_count, session.turn_count, session.last_model) == (6, 3, "m")
    assert times == sorted(set(times))


@pytest.mark.req("S004-58", "S004-60", "S004-61", "S004-88", "S004-90")
@pytest.mark.parametrize("length", [1023, 1024, 1025])
async def test_summaries_are_the_first_1024_characters(rigs: Rigs, length: int) -> None:
    asked, answered = "ä" * length, "🙂" * length
    rig = await rigs(ScriptedAgent(says(answered))).start()
    await rig.ask(asked)
    [turn] = await rig.turns()
    assert (turn.instruction_summary, turn.answer_summary) == (asked[:1024], answered[:1024])
    api, session = rig.running.api, await rig.session()
    assert await api.turn_text(session, turn, Role.USER) == asked
    assert await api.turn_text(session, turn, Role.AGENT) == answered == rig.chat.texts()[0]


# -- while it runs -----------------------------------------------------------------------------------------------------


@pytest.mark.req("S000-45", "S000-46", "S000-57")
async def test_a_growing_answer_is_one_row_that_is_partial_until_it_is_done(rigs: Rigs) -> None:
    more, done = asyncio.Event(), asyncio.Event()
    rig = await rigs(ScriptedAgent([TextDelta("Hel"), more, TextDelta("lo"), done, Done()])).start()
    await rig.ask("hi")
    assert await rig.said() == [("user", "hi")]
    await rig.advance(1)
    assert await rig.said() == [("user", "hi"), ("agent", "Hel…")]
    grown = (await rig.history())[1]
    more.set()
    await rig.advance(1)
    assert await rig.said() == [("user", "hi"), ("agent", "Hello…")]
    again = (await rig.history())[1]
    assert (again.id, again.public_id, again.timestamp) == (grown.id, grown.public_id, grown.timestamp)
    assert again.changed_at > grown.changed_at
    assert (await rig.session()).updated_at == again.changed_at
    done.set()
    await rig.settled()
    assert await rig.said() == [("user", "hi"), ("agent", "Hello")]
    assert (await rig.history())[1].id == grown.id
    assert rig.chat.texts() == ["Hello"]


async def test_an_answer_is_not_delayed_by_the_rhythm_of_its_refreshes(rigs: Rigs) -> None:
    """No time passes between the last event and the delivery, wherever the refresher stands."""
    go_on, done = asyncio.Event(), asyncio.Event()
    rig = await rigs(ScriptedAgent([TextDelta("a" * 400_000), go_on, TextDelta("b"), done, Done()])).start()
    await rig.ask("hi")
    await rig.advance(60)
    go_on.set()
    await rig.advance(60)
    done.set()
    await rig.settled()
    assert len(rig.chat.texts()) == 1


@pytest.mark.req("S000-46")
async def test_refreshes_become_rarer_as_the_answer_grows(rigs: Rigs) -> None:
    rig: Rig
    writes: list[float] = []

    async def tick() -> None:
        await rig.clock.sleep(0.1)

    steps: list[Step] = []
    for _ in range(100):
        steps += [TextDelta("x" * 4_000), tick]
    rig = await rigs(ScriptedAgent([*steps, Done()])).start()
    await rig.ask("hi")
    last = 0
    for _ in range(100):
        await rig.advance(0.1)
        history = await rig.history()
        if len(history) == 2 and history[1].changed_at > last and in_short(history[1]).endswith("…"):
            last = history[1].changed_at
            writes.append(rig.clock.monotonic())
    gaps = [later - earlier for earlier, later in zip(writes, writes[1:], strict=False)]
    assert 2 < len(writes) < 10
    assert gaps == sorted(gaps)
    assert gaps[-1] > 5 * gaps[0]


@pytest.mark.req("S000-47", "S000-48")
async def test_tool_calls_and_plans_are_rows_that_are_brought_up_to_date(rigs: Rigs) -> None:
    between = asyncio.Event()
    steps = ({"title": "read"}, {"title": "think"}, {"title": "write"})
    script: list[Step] = [
        PlanUpdate(steps[:1]),
        READ,
        between,
        READ_DONE,
        PlanUpdate(steps),
        TextDelta("Done."),
        Done(),
    ]
    rig = await rigs(ScriptedAgent(script)).start()
    await rig.ask("go")
    assert await rig.said() == [("user", "go"), ("system", "plan of 1"), ("system", "read={}")]
    between.set()
    await rig.settled()
    assert await rig.said() == [
        ("user", "go"),
        ("system", "plan of 3"),
        ("system", "read={'lines': 3}"),
        ("agent", "Done."),
    ]
    stored = await rig.read(lambda db: db.execute("SELECT content FROM messages WHERE role = 'system'").fetchall())
    assert [json.loads(content) for (content,) in stored] == [
        {"type": "plan", "steps": list(steps)},
        {"type": "tool", "tool": "read", "args": {"path": "a.txt"}, "result": {"lines": 3}},
    ]


@pytest.mark.req("P37")
async def test_text_before_and_after_a_tool_call_stays_apart(rigs: Rigs) -> None:
    script: list[Step] = [
        TextDelta("Let me"),
        TextDelta(" look."),
        READ,
        READ_DONE,
        TextDelta("It is "),
        TextDelta("empty."),
        Done(),
    ]
    rig = await rigs(ScriptedAgent(script)).start()
    await rig.ask("go")
    assert await rig.said() == [
        ("user", "go"),
        ("agent", "Let me look."),
        ("system", "read={'lines': 3}"),
        ("agent", "It is empty."),
    ]
    assert rig.chat.texts() == ["Let me look.\n\nIt is empty."]
    session, [turn] = await rig.session(), await rig.turns()
    assert turn.answer_summary == "Let me look.\n\nIt is empty."
    assert await rig.running.api.turn_text(session, turn, Role.AGENT) == "Let me look.\n\nIt is empty."


async def test_an_answer_may_end_with_a_tool_call(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent([TextDelta("Saved."), READ_DONE, TextDelta("\n"), Done()])).start()
    await rig.ask("go")
    assert await rig.said() == [("user", "go"), ("agent", "Saved."), ("system", "read={'lines': 3}")]
    assert rig.chat.texts() == ["Saved."]


PIECES = st.lists(
    st.text(alphabet="ab \n\t🙂é", min_size=1, max_size=6) | st.just(READ_DONE), min_size=1, max_size=8
).filter(lambda pieces: any(isinstance(piece, str) and piece.strip() for piece in pieces))


def apart(pieces: Sequence[str | ToolUpdate]) -> list[str]:
    """The texts between tool calls, exactly as they were written."""
    texts = [""]
    for piece in pieces:
        if isinstance(piece, str):
            texts[-1] += piece
        elif texts[-1].strip():
            texts.append("")
    return [text for text in texts if text.strip()]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES)
async def test_an_answer_is_stored_as_the_agent_wrote_it(rigs: Rigs, pieces: list[str | ToolUpdate]) -> None:
    """Whatever the chunks, and however often the row was refreshed between them."""
    rig: Rig

    async def tick() -> None:
        await rig.clock.sleep(0.2)

    steps: list[Step] = []
    for piece in pieces:
        steps += [TextDelta(piece) if isinstance(piece, str) else piece, tick]
    rig = await rigs(ScriptedAgent([*steps, Done()])).start()
    await rig.ask("go")
    await rig.advance(0.2 * len(pieces))
    parts = apart(pieces)
    assert [text for role, text in await rig.said() if role == "agent"] == parts
    [shown] = rig.chat.texts()
    assert shown.split() == "\n\n".join(parts).split()
    await rig.cut()


# -- what goes wrong ---------------------------------------------------------------------------------------------------

SECRET = "password=hunter2"


def broken(turn: TurnContext) -> AsyncGenerator[Event, None]:
    raise RuntimeError(SECRET)


class BrokenAgent:
    """Fails before it is an iterator."""

    side_effects = False
    run = staticmethod(broken)

    async def close(self) -> None: ...


@pytest.mark.req("S004-47", "S004-100", "S004-101", "S004-104", "S004-105", "S004-107")
@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param([TextDelta("half ")], phrases.BROKEN_OFF, id="no closing event"),
        pytest.param([], phrases.BROKEN_OFF, id="nothing at all"),
        pytest.param([TextDelta("half "), asyncio.CancelledError()], phrases.BROKEN_OFF, id="cancelled from inside"),
        pytest.param([Done()], phrases.EMPTY_ANSWER, id="empty"),
        pytest.param([TextDelta(""), TextDelta(" \n"), Done()], phrases.EMPTY_ANSWER, id="white space"),
        pytest.param(
            [TextDelta("half "), AgentFailed("no credit.", detail=SECRET)], "no credit.", id="a known failure"
        ),
    ],
)
async def test_a_turn_that_goes_wrong_fails_visibly(rigs: Rigs, script: Sequence[Step], why: str) -> None:
    rig = await rigs(agent := ScriptedAgent(script, says("fine"))).start()
    await rig.ask("do X")
    [turn] = await rig.turns()
    assert (turn.status, turn.errors, turn.answer_summary) == (TurnStatus.FAILED, (why,), None)
    assert turn.response_received_at == turn.status_at
    [notice] = rig.chat.texts()
    assert notice == phrases.FAILED.format(why=why[0].upper() + why[1:])
    closing = (Role.SYSTEM, phrases.NOTE_FAILED.format(why=why))
    assert (await rig.said())[-1] == closing
    assert (await rig.session()).status is Status.ACTIVE
    [line] = rig.journal.of(Logged.TURN_FAILED)
    assert line["why"] == why
    await usable(rig, agent)
    assert closing in [(row.role, row.content.text) for row in agent.seen[-1].history if isinstance(row.content, Text)]


async def usable(rig: Rig, agent: ScriptedAgent) -> None:
    """The session goes on: the next message is answered, and two users' messages never stand side by side."""
    await rig.ask("and now?")
    assert rig.chat.texts()[-1] == "fine"
    assert (await rig.turns())[-1].status is TurnStatus.COMPLETED
    roles = [row.role for row in await rig.history()]
    assert (Role.USER, Role.USER) not in list(zip(roles, roles[1:], strict=False))
    assert len(await rig.sessions()) == 1


@pytest.mark.parametrize(
    "error", [RuntimeError(SECRET), TimeoutError(SECRET), KeyError(SECRET), StopAsyncIteration(SECRET)]
)
async def test_an_unexpected_error_shows_an_id_and_nothing_else(rigs: Rigs, error: Exception) -> None:
    rig = await rigs(agent := ScriptedAgent([TextDelta("half "), error], says("fine"))).start()
    await rig.ask("do X")
    [line] = rig.journal.of(Logged.TURN_FAILED)
    why = phrases.FAILED_UNEXPECTED.format(error_id=line["error_id"])
    assert rig.chat.texts() == [phrases.FAILED.format(why=why)]
    assert (await rig.turns())[0].errors == (why,)
    everything = await rig.read(lambda db: "\n".join(db.iterdump()))
    assert SECRET not in everything
    await usable(rig, agent)


async def test_an_agent_that_fails_before_it_begins(rigs: Rigs) -> None:
    rig = await rigs(BrokenAgent()).start()
    await rig.ask("do X")
    [line] = rig.journal.of(Logged.TURN_FAILED)
    assert line["error_id"] in rig.chat.texts()[0]


@pytest.mark.req("S004-107", "S000-46")
async def test_what_was_said_of_a_failed_answer_is_kept_and_marked(rigs: Rigs) -> None:
    fail = asyncio.Event()
    rig = await rigs(ScriptedAgent([TextDelta("half an ans"), fail, AgentFailed("no.")])).start()
    await rig.ask("do X")
    await rig.advance(1)
    fail.set()
    await rig.settled()
    user, half, note_row = await rig.history()
    assert (half.content, half.metadata) == (Text("half an ans", partial=False), {"incomplete": True})
    assert (user.role, note_row.role) == (Role.USER, Role.SYSTEM)


@pytest.mark.req("S001-57")
async def test_a_turn_has_a_deadline(rigs: Rigs) -> None:
    rig = await rigs(
        agent := ScriptedAgent([TextDelta("a"), asyncio.Event()], says("fine")), main={"turn_timeout": 90.0}
    ).start()
    await rig.ask("do X")
    await rig.advance(89)
    assert (await rig.turns())[0].status is TurnStatus.PENDING
    await rig.advance(1)
    why = phrases.TIMED_OUT.format(seconds=90.0)
    assert "90 seconds" in why
    assert rig.chat.texts() == [phrases.FAILED.format(why=why)]
    assert (await rig.said())[1:] == [("agent", "a"), ("system", phrases.NOTE_FAILED.format(why=why))]
    assert agent.cancelled == 1
    [line] = rig.journal.of(Logged.TURN_TIMEOUT)
    assert line["turn"] == 1
    await usable(rig, agent)


async def test_the_deadline_is_each_turns_own(rigs: Rigs) -> None:
    """Waiting in the lane does not count."""
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([go_on, *says("one")], [asyncio.Event()]), main={"turn_timeout": 60.0}).start()
    await rig.ask("one")
    await rig.say("two")
    await rig.advance(50)
    go_on.set()
    await rig.advance(59)
    assert [turn.status for turn in await rig.turns()] == [TurnStatus.COMPLETED, TurnStatus.PENDING]
    await rig.advance(1)
    assert (await rig.turns())[1].status is TurnStatus.FAILED
