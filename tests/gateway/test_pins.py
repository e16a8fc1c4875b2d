"""Pinned messages: verbatim in every context to come, whatever is compacted."""

import pytest

from gateway import context, phrases, remembering
from routing.messages import Quote
from store import messages, pins, turns
from store.database import Database
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.harness import Rigs

#: About 100 tokens.
LONG = "word " * 80
FACT = "The cat is called **Blueberry**, and she is grey."
MAIN = {"compaction": {"strategy": "window", "keep_turns": 2}, "context_window": 1000}


@pytest.mark.req("P21")
async def test_a_pinned_message_stays_when_the_old_part_goes(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(says(LONG)), main=MAIN).start()
    await rig.ask(FACT)
    await rig.ask("/pin blueberry")
    assert rig.chat.texts()[-1] == phrases.PINNED.format(line=FACT)
    while not await rig.compactions():
        await rig.ask(LONG)
    await rig.ask("next")
    given = agent.seen[-1]
    assert [row.content for row in given.history][0] == (await rig.history())[0].content
    assert [row.seq for row in given.history[1:]] == list(range(given.history[1].seq, given.history[-1].seq + 1))
    assert len(given.history) == 5
    await rig.stop()
    await rig.start()
    await rig.ask("after a restart")
    assert agent.seen[-1].history[0].seq == 1
    await rig.ask("/unpin")
    assert rig.chat.texts()[-1] == phrases.UNPINNED.format(line=FACT)
    await rig.ask("next")
    assert agent.seen[-1].history[0].seq > 1
    assert (await rig.history())[0].metadata.get("pinned") is None


async def test_a_pinned_message_stays_where_only_the_budget_cuts(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(says(LONG)), main={"context_window": 500}).start()
    await rig.ask(FACT)
    await rig.ask("/pin blueberry")
    for _ in range(5):
        await rig.ask(LONG)
    given = agent.seen[-1]
    assert (given.history[0].seq, given.history[1].seq > 2) == (1, True)


async def test_what_is_meant(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says("Her name is **Blueberry**, a _grey_ cat."), says("yes"))).start()
    await rig.ask("/pin")
    assert rig.chat.texts()[-1] == phrases.NOTHING_TO_PIN
    await rig.ask("who?")
    await rig.ask("really?")
    await rig.ask("/pin")
    assert rig.chat.texts()[-1] == phrases.PINNED.format(line="yes"), "the last message"
    await rig.ask("/pin", quote=Quote(text="Her name is Blueberry, a grey cat."))
    assert "Blueberry" in rig.chat.texts()[-1], "the one replied to, as the platform shows it"
    await rig.ask("/pin grey cat")
    assert rig.chat.texts()[-1] == phrases.ALREADY_PINNED
    await rig.ask("/pin of all things")
    assert rig.chat.texts()[-1] == phrases.NOTHING_TO_PIN
    await rig.ask("/unpin yes")
    await rig.ask("/unpin yes")
    assert rig.chat.texts()[-1] == phrases.NOTHING_PINNED
    session = await rig.session()
    assert [row.seq for row in await rig.read(lambda db: pins.of_session(db, session.id, 99))] == [2]


async def test_pins_leave_room_for_the_conversation(rigs: Rigs) -> None:
    rig = await rigs(ScriptedAgent(says("ok")), main={"context_window": 600}).start()
    await rig.ask(LONG)
    await rig.ask("/pin word")
    await rig.ask(LONG)
    await rig.ask("/pin word")
    assert rig.chat.texts()[-1] == phrases.PINS_FULL


async def test_in_a_group_strangers_pin_nothing(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("hello", group=True)
    await rig.ask("/pin hello", group=True, sender="9")
    assert rig.chat.texts("-100")[-1] == phrases.KNOWN_ONLY


async def test_a_pin_goes_with_an_export(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("remember")
    await rig.ask("/pin remember")
    lines = await rig.running.api.operations.export((await rig.session()).public_id)
    assert any(b'"pinned":true' in line for line in lines)


async def test_pins_are_found_without_reading_the_history(rigs: Rigs) -> None:
    rig = await rigs().start()
    await rig.ask("one")

    def plan(db: Database) -> list[str]:
        rows = db.execute(
            "EXPLAIN QUERY PLAN SELECT id FROM messages INDEXED BY messages_pinned"
            " WHERE session = 1 AND json_extract(metadata, '$.pinned') = 1 ORDER BY id"
        )
        return [row[3] for row in rows.fetchall()]

    assert [line.split(" USING ")[1].split(" (")[0] for line in await rig.read(plan)] in (
        ["INDEX messages_pinned"],
        ["COVERING INDEX messages_pinned"],
    )


def test_letters_and_digits_are_compared() -> None:
    assert remembering._letters("**Ünder** the 3rd!") == "ünderthe3rd"


async def test_the_numbers_count_pins_once(rigs: Rigs) -> None:
    rig = await rigs(agent := ScriptedAgent(says(LONG)), main={"context_window": 1000}).start()
    await rig.ask(FACT)
    await rig.ask("/pin blueberry")
    await rig.ask("next")
    turn = (await rig.turns())[-1]
    given = await rig.read(lambda db: context.load(db, turns.get(db, turn.id), 1000))
    assert len(given.history) == len(agent.seen[-1].history) == 2
    rows = await rig.read(lambda db: messages.every(db, turn.session))
    assert [row.seq for row in given.history] == [row.seq for row in rows[:2]]
