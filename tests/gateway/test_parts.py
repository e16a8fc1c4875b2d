"""Long answers: in parts that fit, each once and in order, whatever happens between them; very long ones as a file."""

import random

import pytest

from channels.memory import Fault
from gateway import phrases
from store import outbox
from store.database import Database
from store.records import OutboxKind, OutboxState
from tests.fakes.agents import ScriptedAgent, says
from tests.fakes.chance import MARK
from tests.fakes.harness import Chat, Rig, Rigs, notice

LIMIT = 100


def letters(parts: int) -> str:
    """A text of so many parts, each of a letter of its own."""
    return "".join(letter * LIMIT for letter in "abcdefghij"[:parts])


async def limited(rigs: Rigs, text: str, **tables: object) -> Rig:
    rig = rigs(ScriptedAgent(says(text)), **tables)
    rig.chat.limit = LIMIT
    return await rig.start()


def shown(rig: Rig) -> str:
    """What people see, one letter for a part; a capital if it is marked as a possible repeat."""
    return "".join(text[0].upper() if text.endswith(MARK) else text[0] for text in rig.chat.texts())


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_a_long_answer_comes_in_parts(rigs: Rigs, count: int) -> None:
    rig = await limited(rigs, letters(count))
    await rig.ask("go")
    assert "".join(rig.chat.texts()) == letters(count)
    assert [len(text) for text in rig.chat.texts()] == [LIMIT] * count
    [row] = await rig.outbox()
    assert (row.state, row.part, row.sent_id) == (OutboxState.SENT, count, rig.chat.shown[0].id)


async def test_a_very_long_answer_is_its_beginning_and_a_file(rigs: Rigs) -> None:
    text = letters(6)
    rig = await limited(rigs, text)
    await rig.ask("go")
    first, file = rig.chat.shown
    assert first.text.startswith("a" * 50)
    assert first.filename is None
    assert (file.filename, file.text) == ("answer.md", text)
    assert await rig.states() == ["sent"]


async def test_where_there_is_room_the_beginning_says_so(rigs: Rigs) -> None:
    class Roomy(Chat):
        def split(self, text: str) -> list[str]:
            return [text] if "file below" in text else [text[at : at + 10] for at in range(0, len(text), 10)]

    rig = rigs(ScriptedAgent(says("x" * 60)))
    await rig.on(Roomy(rig.clock)).start()
    await rig.ask("go")
    assert rig.chat.texts()[0] == f"{'x' * 10}\n\n{phrases.REST_IN_FILE}"


async def test_nothing_comes_between_the_parts(rigs: Rigs) -> None:
    rig = await limited(rigs, letters(3))
    rig.chat.faults.extend([Fault.DELAY, Fault.CUT_BEFORE])
    await rig.ask("go")
    await rig.ask("/status")
    rig.chat.go_on.set()
    await rig.advance(5)
    assert shown(rig)[:3] == "abc"
    assert len(rig.chat.texts()) == 4


@pytest.mark.req("P01")
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("sent", [0, 1, 2])
async def test_a_stop_between_parts_loses_and_repeats_nothing(rigs: Rigs, sent: int, hard: bool) -> None:
    rig = await limited(rigs, letters(3))
    rig.chat.faults.extend([*[None] * sent, *[Fault.CUT_BEFORE] * 20])  # type: ignore[list-item]
    await rig.ask("go")
    assert shown(rig) == "abc"[:sent]
    await (rig.cut() if hard else rig.stop())
    rig.chat.faults.clear()
    await rig.start()
    await rig.advance(60)
    assert shown(rig) == "abc"
    assert len(await rig.turns()) == 1


@pytest.mark.req("P02")
@pytest.mark.parametrize("part", [0, 1, 2])
async def test_only_the_part_in_doubt_is_repeated(rigs: Rigs, part: int) -> None:
    """Shorter parts, so that there is room for the mark."""
    text = "a" * LIMIT + "b" * LIMIT + "c" * 10
    rig = await limited(rigs, text)
    rig.chat.faults.extend([*[None] * part, Fault.CUT_AFTER])  # type: ignore[list-item]
    await rig.ask("go")
    await rig.advance(60)
    letters = [shown[0] for shown in rig.chat.texts()]
    assert letters == sorted([*"abc", "abc"[part]])
    assert await rig.states() == ["sent"]


async def test_a_crash_while_a_part_is_sent_puts_only_that_one_in_doubt(rigs: Rigs) -> None:
    rig = await limited(rigs, letters(3))
    rig.chat.faults.extend([None, Fault.DELAY])  # type: ignore[list-item]
    await rig.ask("go")
    await rig.cut()
    [row] = await rig.before(lambda db: [outbox.get(db, 1)])
    assert (row.part, row.state) == (1, OutboxState.SENDING)
    await rig.start()
    assert shown(rig).lower() == "abc"


async def test_where_parts_can_be_found_none_is_repeated(rigs: Rigs) -> None:
    class Findable(Chat):
        async def find(self, item: object) -> str | None:
            text = getattr(item, "text", "")
            return next((one.id for one in self.shown if one.text == text), None)

    rig = rigs(ScriptedAgent(says(letters(3))))
    rig.on(Findable(rig.clock)).chat.limit = LIMIT
    await rig.start()
    rig.chat.faults.extend([Fault.CUT_AFTER, Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.CUT_AFTER])
    await rig.ask("go")
    await rig.advance(120)
    assert shown(rig) == "abc"


async def test_a_row_that_was_cut_differently_before_is_not_repeated(rigs: Rigs) -> None:
    """An update of the splitter between two parts: all that could be known is that everything was sent."""
    rig = rigs()

    def three_sent(db: Database) -> None:
        row = outbox.put(db, notice("ab"), OutboxState.READY, 0)
        for number in range(3):
            outbox.sent(db, row, f"m{number}", 1, last=False)

    await rig.before(three_sent)
    await rig.start()
    assert (rig.chat.texts(), await rig.states()) == ([], ["sent"])


@pytest.mark.parametrize("seed", range(12))
async def test_random_faults_between_parts_lose_nothing_and_keep_the_order(rigs: Rigs, seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    rig = await limited(rigs, letters(count))
    rig.chat.retry_after = 5.0
    passing = [None, None, Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.RATE_LIMIT]
    rig.chat.faults.extend(rng.choice(passing) for _ in range(12))  # type: ignore[misc]
    await rig.ask("go")
    for _ in range(6):
        await rig.advance(rng.choice([0.5, 3, 10]))
        if rng.random() < 0.4:
            await (rig.cut() if rng.random() < 0.5 else rig.stop())
            await rig.start()
    rig.chat.faults.clear()
    await rig.advance(200)
    seen = shown(rig).lower()
    assert "".join(dict.fromkeys(seen)) == "abcde"[:count]
    assert seen == "".join(sorted(seen)), "in order, a repeat right after the first"
    assert await rig.states() == ["sent"]


async def test_a_preview_shows_the_first_part_and_becomes_it(rigs: Rigs) -> None:
    rig: Rig

    async def tick() -> None:
        await rig.clock.sleep(2)

    from gateway.agents.protocol import Done, TextDelta

    text = letters(3)
    steps = [step for letter in (text[:50], text[50:150], text[150:]) for step in (TextDelta(letter), tick)]
    rig = rigs(ScriptedAgent([*steps, Done()]), memory={"main": {"streaming": True}})
    rig.chat.limit = LIMIT
    await rig.start()
    await rig.ask("go")
    await rig.advance(3.9)
    assert rig.chat.texts() == ["a" * LIMIT]
    await rig.advance(10)
    assert "".join(rig.chat.texts()) == text
    assert [call.verb for call in rig.chat.log].count("send") == 3
    assert [(row.kind, row.state, row.part) for row in await rig.outbox()] == [(OutboxKind.FINAL, OutboxState.SENT, 3)]
