"""A database of every released schema opens with today's code, and all that it holds can be read."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from routing.messages import Quote, Sender
from store import (
    accounts,
    agent_processes,
    agent_sessions,
    compactions,
    inbox,
    messages,
    outbox,
    overheard,
    pairings,
    people,
    pins,
    places,
    questions,
    refusals,
    repos,
    search,
    sessions,
    spending,
    turns,
)
from store.about import About
from store.content import Plan, Text, Tool
from store.database import Store, prepare
from store.filters import SessionFilter
from store.ids import pack
from store.overheard import Line
from store.records import InboxState, OutboxState, Role, Status, Turn, TurnStatus, Usage
from store.schema import STEPS
from store.spending import Amount, Whose
from tests.store.golden.make import ADDRESS, KEY, NOW, dump
from tests.store.helpers import in_memory, integrity, schema

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("*.sql"))


def uuid(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012}"


def load(file: Path, data_dir: Path) -> None:
    with closing(sqlite3.connect(prepare(data_dir))) as db:
        db.executescript(file.read_text(encoding="utf-8"))


@pytest.fixture
async def m001(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m001.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


def test_every_step_has_its_golden_database() -> None:
    assert [file.stem for file in FILES] == [step.name.partition("_")[0] for step in STEPS]


@pytest.mark.req("S001-72")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_an_old_database_becomes_one_of_today(data_dir: Path, file: Path) -> None:
    load(file, data_dir)
    store = await Store.open(data_dir)
    migrated = await store.read(schema)
    broken = await store.read(lambda db: db.execute("PRAGMA foreign_key_check").fetchall())
    sound = await store.read(integrity)
    await store.close()
    with closing(in_memory()) as new:
        assert migrated == schema(new)
    assert (broken, sound) == ([], "ok")


def test_making_one_gives_the_same_text_every_time() -> None:
    assert dump() == dump()


# What m001.sql holds


@pytest.mark.req("S000-01", "S001-34")
async def test_the_session_reads_back(m001: Store) -> None:
    session = await m001.read(lambda db: sessions.get(db, uuid(9)))
    assert (session.id, session.key, session.status, session.custom) == (1, KEY, Status.ACTIVE, {})
    assert (session.message_count, session.last_seq, session.turn_count, session.compaction_count) == (6, 6, 2, 1)
    assert (session.total_input_tokens, session.total_output_tokens, session.last_model) == (120, 9, "small-1")
    assert (session.created_at, session.updated_at) == (NOW + 1_000, NOW + 8_000)


@pytest.mark.req("S000-06", "S000-07", "S000-84")
async def test_the_messages_read_back(m001: Store) -> None:
    rows = await m001.read(lambda db: messages.every(db, 1))
    assert [(row.seq, row.public_id, row.role, row.content) for row in rows] == [
        (1, uuid(1), Role.USER, Text("What is it? 😀")),
        (2, uuid(4), Role.SYSTEM, Plan(({"content": "look", "status": "completed"},))),
        (3, uuid(5), Role.SYSTEM, Tool("grep", {"for": "it"}, {"found": 1})),
        (4, uuid(6), Role.AGENT, Text("It's a\n'golden' database.", partial=False)),
        (5, uuid(2), Role.USER, Text("And now?")),
        (6, uuid(7), Role.SYSTEM, Text("The agent stopped.")),
    ]
    assert [row.timestamp - NOW for row in rows] == [1_001, 2_000, 3_000, 4_000, 7_000, 8_000]
    assert [row.turn for row in rows] == [pack(1, 1)] * 4 + [pack(1, 2)] * 2
    assert (rows[0].metadata, rows[1].metadata) == ({"sender": "Ada"}, {})
    assert (rows[3].tool_calls, rows[3].tool_call_id, rows[3].token_count) == (
        [{"id": "call-1", "name": "grep"}],
        "call-1",
        9,
    )


@pytest.mark.req("S004-51")
async def test_the_turns_read_back(m001: Store) -> None:
    first, second = await m001.read(lambda db: turns.of_session(db, 1))
    assert (first.seq, first.public_id, first.status, first.answer_summary) == (
        1,
        uuid(10),
        TurnStatus.COMPLETED,
        "A database",
    )
    assert (first.usage, first.warnings, first.errors) == (
        Usage(input=120, output=9, source="provider"),
        ("slow",),
        (),
    )
    assert (second.seq, second.status, second.answer_summary, second.errors) == (
        2,
        TurnStatus.FAILED,
        None,
        ("agent_failed",),
    )
    assert (second.usage, second.first_message, second.last_message) == (Usage(), 5, 6)
    assert {first.conversation_id, second.conversation_id} == {uuid(9)}
    assert (first.status_at, second.status_at) == (NOW + 4_000, NOW + 8_000)


async def test_the_inbox_reads_back(m001: Store) -> None:
    done = await m001.read(lambda db: inbox.of_turn(db, pack(1, 1)))
    assert [(item.id, item.state, item.text, item.message_id) for item in done] == [(1, InboxState.DONE, "", uuid(1))]
    [waiting] = await m001.read(inbox.all_waiting)
    assert (waiting.key, waiting.address, waiting.text, waiting.sender_name) == (KEY, ADDRESS, "Hello?", "Ada")
    assert (waiting.message_id, waiting.person, waiting.received_at) == (uuid(3), 1, NOW + 10_000)


async def test_the_outbox_reads_back(m001: Store) -> None:
    [sent] = await m001.read(lambda db: outbox.of_turn(db, pack(1, 1)))
    assert (sent.address, sent.text, sent.state, sent.sent_id, sent.attempts) == (
        ADDRESS,
        "It's a\n'golden' database.",
        OutboxState.SENT,
        "42",
        1,
    )
    [parked] = await m001.read(outbox.parked)
    assert (parked.turn, parked.text, parked.error) == (pack(1, 2), "The agent stopped.", "chat not found")
    assert await m001.read(outbox.open_places) == [ADDRESS.place]


async def test_the_rest_reads_back(m001: Store) -> None:
    compaction = await m001.read(lambda db: compactions.in_force(db, 1))
    assert compaction is not None
    assert (compaction.summary, compaction.through_seq, compaction.tokens_after) == ("They met.", 2, 30)
    owner = await m001.read(people.owner)
    assert owner is not None
    assert (owner.public_id, owner.name) == (uuid(8), "ada")
    assert await m001.read(lambda db: people.find(db, "telegram", "1001")) == owner
    assert await m001.read(lambda db: places.current(db, "telegram", "bot", "-5")) == "-100"
    assert [refusal.reason for refusal in await m001.read(refusals.newest)] == ["unknown_sender"]


async def test_life_goes_on(m001: Store) -> None:
    """Today's functions write to it: the waiting message gets its turn, with the next numbers."""

    def begin(db: sqlite3.Connection) -> Turn:
        items = inbox.all_waiting(db)
        instruction = turns.Instruction(messages=(), summary="Hello?")
        return turns.begin(db, KEY.agent_id, items, instruction, NOW + 20_000)[1]

    assert (await m001.write(begin)).id == pack(1, 3)


# What m002.sql holds beyond it


@pytest.fixture
async def m002(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m002.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


async def test_the_index_reads_back(m002: Store) -> None:
    found = await m002.read(lambda db: search.find(db, "golden database"))
    assert [(hit.session_id, hit.seq, hit.snippet) for hit in found.hits] == [
        (uuid(9), 4, "It's a\n'golden' database.")
    ]
    assert found.complete
    await m002.write(lambda db: db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_who_wrote_where_reads_back(data_dir: Path, file: Path) -> None:
    """Also from before it was recorded."""
    load(file, data_dir)
    store = await Store.open(data_dir)
    ada = await store.read(people.owner)
    assert ada is not None
    for which in (SessionFilter(person=ada.public_id), SessionFilter(channel="telegram", account_id="bot")):
        rows, total = await store.read(partial(sessions.list_all, which=which))
        assert ([row.id for row in rows], total) == ([1], 1)
    participants = await store.read(lambda db: db.execute("SELECT * FROM participants").fetchall())
    assert participants == [(1, 1, "telegram", "bot")]
    await store.close()


# What m003.sql holds beyond it


@pytest.fixture
async def m003(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m003.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


async def test_a_thought_reads_back(m003: Store) -> None:
    first, second = [item for item in await m003.read(inbox.all_waiting) if item.address.thread == "8"]
    assert (first.text, second.text) == ("What is", "on it?")
    assert (first.thought, second.thought, second.open_until) == (None, first.id, NOW + 14_000)
    about = first.about
    assert about.user == "1001"
    assert about.quote == Quote(text="Look", sender=Sender(id="7", name="Eve"))
    [picture] = about.attachments
    assert (picture.kind, picture.ref, picture.name, picture.size) == ("image", "file-1", "../cat.png", 77)


async def test_what_platforms_need_reads_back(m003: Store) -> None:
    [pairing] = await m003.read(lambda db: pairings.waiting(db, NOW + 14_000))
    assert (pairing.code, pairing.sender, pairing.message.text) == ("ABCD2345", "666", "spam")
    assert await m003.write(lambda db: overheard.take(db, KEY)) == [Line("telegram:7", "Eve", "not for you")]
    assert await m003.read(lambda db: accounts.recall(db, "telegram", "bot", "menu")) == "v1"
    assert await m003.read(lambda db: accounts.seen(db, "telegram", "bot")) == {"-100": "41"}
    assert await m003.read(lambda db: accounts.chosen(db, ADDRESS)) == "main"
    assert await m003.read(lambda db: outbox.held_until(db, ADDRESS.place)) == NOW + 60_000_000
    export = next(row for row in await m003.read(outbox.parked) if row.filename is not None)
    assert (export.filename, export.text, export.part) == ("conversation.md", "# All of it", 0)
    assert await m003.write(lambda db: outbox.unblock(db, ADDRESS.place, NOW)) == 1


async def test_before_platforms_a_message_was_a_thought_of_its_own(m001: Store) -> None:
    [item] = await m001.read(inbox.all_waiting)
    assert (item.about, item.thought, item.open_until) == (About(), None, 0)
    assert [row.part for row in await m001.read(lambda db: outbox.of_turn(db, pack(1, 1)))] == [0]


# What m004.sql holds beyond it


@pytest.fixture
async def m004(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m004.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


@pytest.mark.req("P27", "S004-48", "S004-56", "S004-95")
async def test_what_models_tell_reads_back(m004: Store) -> None:
    answered, running = await m004.read(lambda db: turns.of_session(db, 2))
    assert answered.usage == Usage(input=700, cached=300, output=40, reasoning=160, source="provider")
    assert (answered.agent, answered.chat, answered.cost) == ("model", "discord:-200", 1_234)
    assert (answered.response_id, answered.previous_response_id) == ("resp_2", "resp_1")
    assert answered.chain_expires_at == NOW + 86_400_000_000
    assert (running.reserved_tokens, running.reserved_cost, running.usage) == (3_000, None, Usage())
    session = await m004.read(lambda db: sessions.by_number(db, 2))
    assert (session.total_input_tokens, session.total_output_tokens) == (1_000, 200)


@pytest.mark.req("P28")
async def test_budgets_read_back(m004: Store) -> None:
    whose = Whose(people=(1,), agent="model", chat="discord:-200")
    assert await m004.read(lambda db: spending.amount(db, whose, NOW)) == Amount(tokens=4_200, cost=1_234)
    more = await m004.read(lambda db: spending.allowed(db, "everybody", "person=x", NOW))
    assert more == Amount(tokens=500, cost=70)
    assert not await m004.write(lambda db: spending.warn_once(db, "everybody", "person=x", NOW))


async def test_before_models_a_turn_had_no_agent(m001: Store) -> None:
    first = await m001.read(lambda db: turns.get(db, pack(1, 1)))
    assert (first.agent, first.chat, first.cost, first.response_id, first.reserved_tokens) == (None,) * 5


# What m005.sql holds beyond it


@pytest.mark.req("P28")
async def test_what_was_spent_outside_of_turns_reads_back(m005: Store) -> None:
    whose = Whose(people=(1,), agent="model", chat="discord:-200")
    assert await m005.read(lambda db: spending.amount(db, whose, NOW)) == Amount(tokens=4_279, cost=1_246)
    assert (await m005.read(lambda db: spending.of_session(db, 2))).turns == 2


@pytest.fixture
async def m005(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m005.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


async def test_pins_and_compactions_read_back(m005: Store) -> None:
    [pinned] = await m005.read(lambda db: pins.of_session(db, 2, 99))
    assert (pinned.seq, pinned.content) == (1, Text("How much?"))
    base = await m005.read(lambda db: compactions.base(db, 2))
    left_out = await m005.read(lambda db: compactions.in_force(db, 2, leaves_out=True))
    trimmed = await m005.read(lambda db: compactions.in_force(db, 2, leaves_out=False))
    assert [None if one is None else one.strategy for one in (base, left_out, trimmed)] == [
        "summary",
        "window",
        "trim_tools",
    ]


# What m006.sql holds beyond it


@pytest.fixture
async def m006(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m006.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


async def test_questions_read_back(m006: Store) -> None:
    decided = await m006.read(lambda db: questions.by_token(db, "golden-1"))
    assert decided is not None
    assert (decided.state, decided.chosen, decided.outcome) == ("chosen", "yes", "Yes, by ada.")
    assert decided.answerers == ("bea", "telegram:7")
    [waiting] = await m006.read(questions.all_open)
    assert (waiting.token, [option.label for option in waiting.options]) == ("golden-2", ["Yes", "No"])
    assert await m006.read(lambda db: questions.addresses(db, decided.id)) == [replace(ADDRESS, thread="9")]
    assert await m006.read(lambda db: questions.wants_thoughts(db, ADDRESS.place))


# What m007.sql holds beyond it


@pytest.fixture
async def m007(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m007.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


async def test_repositories_read_back(m007: Store) -> None:
    [repo] = await m007.read(repos.every)
    assert (repo.name, repo.path) == ("group/project", Path("/srv/repositories/group/project"))
    assert (repo.created_at, repo.scanned_at) == (NOW + 30_000, NOW + 31_000)
    bound = await m007.read(lambda db: sessions.list_all(db, SessionFilter(repo_id=repo.public_id), 10))
    assert [session.repo_id for session in bound[0]] == [repo.public_id]


async def test_before_repositories_no_session_was_bound(m001: Store) -> None:
    session = await m001.read(lambda db: sessions.by_number(db, 1))
    assert session.repo_id is None
    assert await m001.read(repos.every) == []


# What m008.sql holds beyond it


@pytest.fixture
async def m008(data_dir: Path) -> AsyncIterator[Store]:
    load(GOLDEN / "m008.sql", data_dir)
    store = await Store.open(data_dir)
    yield store
    await store.close()


async def test_processes_and_the_names_of_sessions_read_back(m008: Store) -> None:
    session = await m008.read(lambda db: sessions.by_number(db, 2))
    known = await m008.read(lambda db: agent_sessions.find(db, session.public_id, "model"))
    assert known is not None
    assert (known.name, known.cwd, known.inherited) == ("agent's own", "/srv/repositories/website", False)
    [lease] = await m008.read(agent_processes.every)
    assert (lease.mark, lease.session_id, lease.pid, lease.started) == ("f00d", session.public_id, 4711, 815)
