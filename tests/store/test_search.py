"""Full-text search: what is found, what is never indexed, and an index that is in step whatever happens."""

import sqlite3
import string
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import SearchDisabled
from store import migrations, search, sessions, turns
from store.content import Content, Plan, Text, Tool
from store.database import Store
from store.messages import append, every, replace
from store.migrations import ensure_triggers
from store.records import NewMessage, Role, Session, Status
from store.search import Hit
from store.search_schema import EVERYTHING
from store.search_schema import TRIGGERS as SEARCH_TRIGGERS
from store.turns import Ending
from tests.store.golden.make import dump as golden
from tests.store.rows import ask, fresh, make_key, run, say
from tests.store.scale import AGENT, build


def make(db: sqlite3.Connection, peer: str = "1", agent: str = "ada") -> Session:
    return run(db, sessions.get_or_create, agent, make_key(agent, peer), 1)


def write(db: sqlite3.Connection, session: Session, *texts: str, now: int = 10) -> list[int]:
    return [row.id for row in run(db, append, session.id, [say(text) for text in texts], now)]


def found(db: sqlite3.Connection, text: str, **how: object) -> list[int]:
    """The sequence numbers of the hits."""
    return [hit.seq for hit in search.find(db, text, **how).hits]  # type: ignore[arg-type]


def check(db: sqlite3.Connection) -> None:
    """Raises unless the index holds exactly the texts that are final."""
    db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")


def index(db: sqlite3.Connection) -> list[tuple[object, ...]]:
    return db.execute("SELECT * FROM search_data ORDER BY 1").fetchall()


# What is found


def test_words_are_found_wherever_they_stand(db: sqlite3.Connection) -> None:
    session = make(db)
    write(db, session, "The quick brown fox", "a brown dog", "Über naïve Füße", "42 is the answer")
    assert found(db, "brown") == [2, 1]
    assert found(db, "BROWN  fox") == [1]
    assert found(db, "uber") == [3]
    assert found(db, "NAIVE füße") == [3]
    assert found(db, "42") == [4]
    assert found(db, "brow") == []
    assert found(db, "brown cat") == []


def test_words_in_quotes_stand_together(db: sqlite3.Connection) -> None:
    write(db, make(db), "the quick brown fox", "brown and quick")
    assert found(db, "quick brown") == [2, 1]
    assert found(db, '"quick brown"') == [1]
    assert found(db, '"quick brown" fox') == [1]
    assert found(db, '"quick brown') == [2, 1]


def test_only_what_people_read_is_searched(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = run(db, turns.add, session.id, ask("hello"), 5)
    contents: list[Content] = [
        Plan(({"content": "secretstep"},)),
        Tool("grep", {"for": "secretarg"}, {"x": "secretout"}),
    ]
    for content in contents:
        run(db, turns.progress, turn.id, None, Role.SYSTEM, content, 6)
    for word in ("secretstep", "secretarg", "secretout", "grep", "type", "text", "partial", "content"):
        assert found(db, word) == []
    assert found(db, "hello") == [1]


def test_a_hit_says_where_it_stands(db: sqlite3.Connection) -> None:
    session = make(db)
    [number] = write(db, session, "say hello to the world", now=77)
    [row] = every(db, session.id)
    [hit] = search.find(db, "world").hits
    assert hit == Hit(
        session_id=session.public_id,
        agent_id="ada",
        message_id=row.public_id,
        seq=1,
        role="user",
        timestamp=77,
        snippet="say hello to the world",
        marks=((17, 22),),
    )
    assert number == row.id


def test_filters_and_limit(db: sqlite3.Connection) -> None:
    one, two = make(db, "1", "ada"), make(db, "2", "bob")
    write(db, one, "apple", "apple", now=10)
    write(db, two, "apple", now=20)

    def places(**how: object) -> list[tuple[str, int]]:
        return [(hit.session_id, hit.seq) for hit in search.find(db, "apple", **how).hits]  # type: ignore[arg-type]

    first, second = one.public_id, two.public_id
    assert places() == [(second, 1), (first, 2), (first, 1)]
    assert places(limit=2) == [(second, 1), (first, 2)]
    assert places(limit=0) == []
    assert places(agent="ada") == [(first, 2), (first, 1)]
    assert places(agent="nobody") == []
    assert places(session=two.id) == [(second, 1)]
    assert places(session=one.id, agent="bob") == []


def test_the_newest_comes_first_whichever_session_is_older(db: sqlite3.Connection) -> None:
    old, young = make(db, "1"), make(db, "2")
    write(db, young, "apple", now=100)
    write(db, old, "apple", now=200)
    assert [hit.session_id for hit in search.find(db, "apple").hits] == [old.public_id, young.public_id]


# Any text is a legal query

#: Letters that stay themselves: the index folds case and diacritics.
WORDS = st.text(string.ascii_lowercase + string.digits + "ж漢", min_size=1, max_size=6)
ANYTHING = st.text(st.characters(exclude_categories=[]), max_size=60)
SYNTAX = st.lists(
    st.sampled_from(
        ['"', "*", "^", ":", "-", "(", ")", "{", "}", "+", " ", "AND", "OR", "NOT", "NEAR", "text", "a", "\0"]
    )
)


@settings(deadline=None, max_examples=200)
@given(query=ANYTHING | SYNTAX.map("".join) | SYNTAX.map(" ".join))
def test_any_text_is_a_legal_query(query: str) -> None:
    with fresh() as db:
        session = make(db)
        write(db, session, "a text", query)
        assert set(found(db, query)) <= {1, 2}
        check(db)


def test_a_very_long_query_is_legal(db: sqlite3.Connection) -> None:
    write(db, make(db), "word " * 10)
    assert found(db, "word " * 5000) == [1]
    assert found(db, "x" * 100_000) == []


@settings(deadline=None, max_examples=100)
@given(texts=st.lists(st.lists(WORDS, max_size=8), max_size=8), query=st.lists(WORDS, min_size=1, max_size=3))
def test_words_are_found_as_a_naive_search_finds_them(texts: list[list[str]], query: list[str]) -> None:
    with fresh() as db:
        session = make(db)
        write(db, session, *(" ".join(words) for words in texts))
        expected = [at for at, words in enumerate(texts, 1) if set(query) <= set(words)]
        assert found(db, " ".join(query), limit=50) == expected[::-1]


# Snippets


def marked(hit: Hit) -> list[str]:
    return [hit.snippet[start:end] for start, end in hit.marks]


def test_a_snippet_is_plain_text_with_marks_beside_it(db: sqlite3.Connection) -> None:
    write(db, make(db), "<b>Fire</b> & [fire] \x02\x03 " + "und so weiter " * 50 + "fire 😀 fire")
    [hit] = search.find(db, "fire").hits
    assert set(marked(hit)) <= {"Fire", "fire"}
    assert marked(hit)
    assert "<b>Fire</b> & [fire] \x02\x03" in hit.snippet or "fire 😀 fire" in hit.snippet
    assert len(hit.snippet) <= 400


#: SQLite's JSON reads a text up to a NUL, which no platform sends.
NO_NUL = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@settings(deadline=None)
@given(before=NO_NUL, size=st.integers(0, 3000), after=NO_NUL)
def test_a_snippet_shows_the_word_however_long_its_neighbours_are(before: str, size: int, after: str) -> None:
    with fresh() as db:
        write(db, make(db), f"{before} {'x' * size} needle {'y' * size} {after}")
        hit = search.find(db, "needle").hits[0]
        assert "needle" in [mark.lower() for mark in marked(hit)]
        assert len(hit.snippet) <= 400


@settings(deadline=None, max_examples=60)
@given(
    texts=st.lists(st.lists(WORDS, min_size=1, max_size=60).map(" ".join), min_size=1, max_size=5),
    query=st.lists(WORDS, min_size=1, max_size=3),
    phrase=st.booleans(),
)
def test_a_snippet_is_the_one_that_the_whole_index_would_give(texts: list[str], query: list[str], phrase: bool) -> None:
    with fresh() as db:
        session = make(db)
        words = " ".join(query)
        write(db, session, *texts, f"{words} {texts[0]} {words}")
        text = f'"{words}"' if phrase else words
        wanted = db.execute(
            "SELECT snippet(search, 0, '', '', '…', 24) FROM search WHERE search MATCH ? ORDER BY rowid DESC",
            (search.match(text),),
        ).fetchall()
        hits = search.find(db, text).hits
        assert [hit.snippet for hit in hits] == [piece[:400] for (piece,) in wanted]
        assert all({mark.lower() for mark in marked(hit)} & {words, *query} for hit in hits)


def test_snippets_take_words_apart_as_the_index_does(db: sqlite3.Connection) -> None:
    (made,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'search'").fetchone()
    assert f"tokenize='{search._TOKENS}'" in made


# In step with the messages


def test_a_growing_answer_is_indexed_once_when_it_is_whole(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = run(db, turns.add, session.id, ask("question"), 5)
    row = run(db, turns.progress, turn.id, None, Role.AGENT, Text("Hel", partial=True), 6)
    before = index(db)
    for text in ("Hello", "Hello there", "Hello there, friend"):
        run(db, turns.progress, turn.id, row, Role.AGENT, Text(text, partial=True), 7)
        assert found(db, "hello") == []
    assert index(db) == before
    answer = NewMessage(role=Role.AGENT, content=Text("Hello there, friend.", partial=False))
    run(db, turns.complete, turn.id, row, answer, Ending(), 8)
    assert found(db, "hello") == [2]
    check(db)


def test_a_failed_turn_leaves_what_was_said_searchable(db: sqlite3.Connection) -> None:
    session = make(db)
    turn = run(db, turns.add, session.id, ask("question"), 5)
    run(db, turns.progress, turn.id, None, Role.AGENT, Text("half an answer", partial=True), 6)
    run(db, turns.fail, turn.id, "It broke.", Ending(), 8)
    assert (found(db, "half"), found(db, "broke")) == ([2], [3])
    check(db)


@pytest.mark.req("S001-69")
def test_what_is_removed_is_not_found(db: sqlite3.Connection) -> None:
    gone, stays = make(db, "1"), make(db, "2")
    write(db, gone, "apple pie", "apple")
    write(db, stays, "apple tree")
    run(db, sessions.remove, gone.id)
    assert [hit.session_id for hit in search.find(db, "apple").hits] == [stays.public_id]
    check(db)


def test_a_text_is_stored_once(db: sqlite3.Connection) -> None:
    write(db, make(db), "supercalifragilistic")
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE name LIKE 'search%'")}
    assert "search_content" not in tables
    [[content]] = db.execute("SELECT count(*) FROM messages WHERE content LIKE '%supercalifragilistic%'").fetchall()
    assert content == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.text("ab ", max_size=5)),
        st.tuples(st.just("grow"), st.integers(0, 2), st.text("ab ", max_size=5)),
        st.tuples(st.just("replace"), st.integers(0, 30), st.text("ab ", max_size=5)),
        st.tuples(st.just("remove"), st.integers(0, 2), st.just("")),
        st.tuples(st.just("index"), st.integers(1, 4), st.just("")),
        st.tuples(st.just("switch"), st.integers(0, 1), st.just("")),
        st.tuples(st.just("start"), st.integers(0, 1), st.just("")),
    ),
    max_size=40,
)


def take(db: sqlite3.Connection, step: str, number: int, text: str) -> None:
    rows = [row for (row,) in db.execute("SELECT id FROM messages ORDER BY id").fetchall()]
    match step:
        case "append":
            write(db, make(db, str(number)), text)
        case "grow":
            message = NewMessage(role=Role.AGENT, content=Text(text, partial=True))
            run(db, append, make(db, str(number)).id, [message], 10)
        case "replace" if rows:
            run(db, replace, rows[number % len(rows)], Text(text, partial=text.startswith("a") or None), 20)
        case "remove":
            run(db, sessions.remove, make(db, str(number)).id)
        case "index":
            run(db, search.index_more, number)
        case "switch":
            ensure_triggers(db, bool(number))
        case "start":
            ensure_triggers(db)


@settings(deadline=None, max_examples=150)
@given(steps=STEPS)
def test_the_index_is_in_step_while_it_is_made_and_messages_come_change_and_go(
    steps: list[tuple[str, int, str]],
) -> None:
    """Below the mark every final text is indexed and nothing else, whatever happens between two batches."""
    with fresh() as db:
        for step in steps:
            take(db, *step)
        if search.enabled(db):
            while run(db, search.index_more, 3):
                pass
            assert search.complete(db)
            check(db)
            expected = db.execute("SELECT count(*) FROM said WHERE ' ' || text || ' ' LIKE '% aa %'").fetchone()[0]
            assert len(search.find(db, "aa", limit=100).hits) == expected
        else:
            assert db.execute("SELECT count(*) FROM search_idx").fetchone() == (0,)


# On and off


def triggers(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()}


async def test_switching_off_empties_the_index_and_on_makes_it_anew(data_dir: Path) -> None:
    store = await Store.open(data_dir)

    def fill(db: sqlite3.Connection) -> None:
        session = sessions.create(db, make_key(), 1)
        append(db, session.id, [say(f"apple {number}") for number in range(20)], 5)

    await store.write(fill)
    assert len((await store.read(lambda db: search.find(db, "apple"))).hits) == 20
    await store.close()

    store = await Store.open(data_dir, searchable=False)
    with pytest.raises(SearchDisabled):
        await store.read(lambda db: search.find(db, "apple"))
    assert SEARCH_TRIGGERS.keys().isdisjoint(await store.read(triggers))
    assert await store.read(lambda db: db.execute("SELECT count(*) FROM search_idx").fetchone()) == (0,)
    await store.write(lambda db: append(db, 1, [say("apple while it was off")], 6))
    await store.close()

    store = await Store.open(data_dir)  # as it was
    assert not await store.read(search.enabled)
    await store.close()

    store = await Store.open(data_dir, searchable=True)
    assert SEARCH_TRIGGERS.keys() <= await store.read(triggers)
    first = await store.read(lambda db: search.find(db, "apple"))
    assert (first.hits, first.complete) == ((), False)
    batches = 0
    while await store.write(lambda db: search.index_more(db, 4)):
        batches += 1
    assert batches == 6
    last = await store.read(lambda db: search.find(db, "apple", limit=50))
    assert (len(last.hits), last.complete) == (21, True)
    await store.close()


def test_an_index_that_lost_a_trigger_is_not_trusted(db: sqlite3.Connection) -> None:
    session = make(db)
    write(db, session, "apple")
    db.execute("DROP TRIGGER search_removed")
    db.execute("DELETE FROM messages")
    write(db, make(db, "2"), "apple pie")
    migrations.migrate(db, Path("unused"))
    assert not search.complete(db)
    while run(db, search.index_more):
        pass
    check(db)
    assert [hit.snippet for hit in search.find(db, "apple").hits] == ["apple pie"]


def test_another_trigger_that_changes_leaves_the_index_alone(db: sqlite3.Connection) -> None:
    write(db, make(db), "apple")
    db.execute("DROP TRIGGER sessions_touched")
    migrations.migrate(db, Path("unused"))
    assert search.complete(db)
    assert found(db, "apple") == [1]


def test_an_older_database_is_indexed_after_it_is_open(tmp_path: Path) -> None:
    file = Path(__file__).parent / "golden" / "m001.sql"
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as db:
        db.executescript(file.read_text(encoding="utf-8"))
        migrations.migrate(db, tmp_path / "old.db")
        assert not search.complete(db)
        while run(db, search.index_more, 2):
            pass
        check(db)
        assert found(db, "golden") == [4]
        assert found(db, "grep") == []


def test_the_golden_database_has_its_index() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.executescript(golden())
        check(db)
        assert found(db, "golden") == [4]


# Cost


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """A thousand and thirty thousand messages that all have the same word, indexed."""
    folder = tmp_path_factory.mktemp("search")
    paths = {size: folder / f"{size}.db" for size in (2_000, 30_000)}
    for size, path in paths.items():
        build(path, messages=size, sessions=size // 100)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            while run(db, search.index_more, 5_000):
                pass
            search.merge(db)
    return paths


def steps(path: Path, work: Callable[[sqlite3.Connection], object]) -> int:
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("SELECT * FROM search WHERE search MATCH 'nothing'").fetchall()  # reads the schema
        db.set_progress_handler(count, 1)
        work(db)
    return counted


@pytest.mark.parametrize("how", [{}, {"session": 3}, {"agent": AGENT}], ids=["all", "one session", "one agent"])
def test_a_common_word_costs_the_same_in_a_large_database(sizes: dict[int, Path], how: dict[str, int | str]) -> None:
    small, large = (
        steps(path, lambda db: search.find(db, "x" * 40, **how))  # type: ignore[arg-type]
        for path in sizes.values()
    )
    assert large == pytest.approx(small, rel=0.1)


@pytest.mark.parametrize("theirs", [0, 1, search._FEW])
def test_an_agent_of_few_sessions_is_found_without_walking_through_the_others(
    sizes: dict[int, Path], theirs: int
) -> None:
    """A word that everybody says, and an agent that has hardly said it."""
    word = "x" * 40
    with closing(sqlite3.connect(sizes[30_000], isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("UPDATE sessions SET agent_id = 'rare' WHERE id <= ?", (theirs,))
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 1

        db.set_progress_handler(count, 1)
        hits = search.find(db, word, agent="rare", limit=50).hits
        db.set_progress_handler(None, 0)
        db.execute("ROLLBACK")
    assert len(hits) == min(50, theirs * 100)
    assert counted < 30_000  # one step for each message would be more


def test_agents_of_few_and_of_many_sessions_are_told_apart(db: sqlite3.Connection) -> None:
    for number in range(search._FEW + 1):
        write(db, make(db, str(number), "many"), "apple", now=1000 - number)
    for number in range(3):
        write(db, make(db, str(number), "few"), "apple", now=500 + number)
    many = search.find(db, "apple", agent="many", limit=100).hits
    few = search.find(db, "apple", agent="few", limit=100).hits
    assert ([hit.agent_id for hit in many], [hit.agent_id for hit in few]) == (["many"] * 33, ["few"] * 3)
    # By time, whichever session it stands in.
    assert [hit.timestamp for hit in many] == list(range(1000, 967, -1))
    assert [hit.timestamp for hit in few] == [502, 501, 500]
    assert len(search.find(db, "apple", limit=100).hits) == 36


def test_a_batch_looks_at_no_more_than_its_share(sizes: dict[int, Path]) -> None:
    with closing(sqlite3.connect(sizes[30_000], isolation_level=None)) as db:
        run(db, search.start_anew, True)
        for expected in (500, 1000):
            run(db, search.index_more)
            (through,) = db.execute("SELECT through FROM search_state").fetchone()
            indexed = db.execute("SELECT count(*) FROM said WHERE id <= ?", (through,)).fetchone()
            assert indexed == (expected,)
        assert through < EVERYTHING


def test_searching_scans_no_table(db: sqlite3.Connection) -> None:
    said: list[str] = []
    write(db, make(db), "apple")
    db.set_trace_callback(said.append)
    search.find(db, "apple")
    db.set_trace_callback(None)
    for sql in said:
        if "MATCH" in sql and not sql.startswith("--"):
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()]
            assert not any(line.startswith("SCAN") and "VIRTUAL" not in line for line in plan), plan
            assert not any("TEMP B-TREE" in line for line in plan), plan


def test_ended_sessions_are_searched_too(db: sqlite3.Connection) -> None:
    session = make(db)
    write(db, session, "apple")
    run(db, sessions.end, session, Status.COMPLETED, "x", 50)
    assert found(db, "apple") == [1]
