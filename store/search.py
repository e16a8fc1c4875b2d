"""Full-text search over what was said. The index follows the messages; it is filled in batches when it starts anew."""

from __future__ import annotations

import contextlib
import re
import secrets
import sqlite3
from dataclasses import dataclass

from routing.errors import SearchDisabled
from store.content import clean
from store.ids import Micros, seq_of, span
from store.search_schema import EVERYTHING

#: Messages that one batch looks at; the writer serves others in between.
BATCH = 500

#: A word with all its neighbours in quotes, or a word.
_TERM = re.compile(r'"([^"]*)"|([^\s"]+)')
_MOST_TERMS = 32
#: Hits that are put into the order of time. More would make the cost of a common word grow with the database.
_LOOKED_AT = 1000
#: An agent with so few sessions is searched session by session: else all that others said would be walked through.
_FEW = 32
_WORDS_SHOWN = 24
_LONGEST_SNIPPET = 400
#: How the index takes words apart (`search_schema`).
_TOKENS = "unicode61 remove_diacritics 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    session_id: str
    agent_id: str
    message_id: str
    seq: int
    role: str
    timestamp: Micros
    #: A piece of the text, and where in it the words stand, in characters.
    snippet: str
    marks: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    hits: tuple[Hit, ...]
    #: False while older messages are still being indexed.
    complete: bool


def enabled(db: sqlite3.Connection) -> bool:
    """Whether the index is switched on; before its migration there is none."""
    return _state(db)[0]


def complete(db: sqlite3.Connection) -> bool:
    return _state(db)[1] == EVERYTHING


def start_anew(db: sqlite3.Connection, switched_on: bool) -> None:
    """Empty the index. Where there is nothing to index it is complete at once."""
    db.execute("INSERT INTO search (search) VALUES ('delete-all')")
    empty = db.execute("SELECT 1 FROM messages LIMIT 1").fetchone() is None
    db.execute(
        "UPDATE search_state SET enabled = ?, through = ? WHERE id = 1",
        (switched_on, EVERYTHING if switched_on and empty else 0),
    )


def index_more(db: sqlite3.Connection, most: int = BATCH) -> bool:
    """Index the next messages; true while there are more."""
    on, through = _state(db)
    if not on or through == EVERYTHING:
        return False
    (last,) = db.execute(
        "SELECT max(id) FROM (SELECT id FROM messages WHERE id > ? ORDER BY id LIMIT ?)", (through, most)
    ).fetchone()
    if last is not None:
        db.execute(
            "INSERT INTO search (rowid, text) SELECT id, text FROM said WHERE id > ? AND id <= ? ORDER BY id",
            (through, last),
        )
    db.execute("UPDATE search_state SET through = ? WHERE id = 1", (EVERYTHING if last is None else last,))
    return last is not None


def merge(db: sqlite3.Connection) -> None:
    """Leave nothing in the index of texts that are gone: until its parts are merged it only marks them as deleted."""
    db.execute("INSERT INTO search (search) VALUES ('optimize')")


def find(
    db: sqlite3.Connection, text: str, *, agent: str | None = None, session: int | None = None, limit: int = 20
) -> Found:
    """Messages that have all the words, newest first; words in double quotes must stand together."""
    on, through = _state(db)
    if not on:
        raise SearchDisabled
    query, most = match(text), max(_LOOKED_AT, limit)
    rows: list[tuple[int, Micros]] = []
    for first, last in _ranges(db, agent, session):
        rows += db.execute(
            "SELECT m.id, m.timestamp FROM search CROSS JOIN messages m ON m.id = search.rowid"
            " WHERE search MATCH ?1 AND search.rowid BETWEEN ?2 AND ?3"
            " AND (?4 IS NULL OR ?4 = (SELECT agent_id FROM sessions WHERE id = search.rowid >> 32))"
            " ORDER BY search.rowid DESC LIMIT ?5",
            (query, first, last, agent, most - len(rows)),
        ).fetchall()
        if len(rows) == most:
            break
    newest = sorted(rows, key=lambda row: (row[1], row[0]), reverse=True)[:limit]
    return Found(hits=_hits(db, query, [number for number, _ in newest]), complete=through == EVERYTHING)


def match(text: str) -> str:
    """Any text as a legal query: every word and every phrase is quoted, so that none of it is syntax."""
    terms = [phrase or word for phrase, word in _TERM.findall(clean(text).replace("\0", " "))]
    return " ".join(f'"{term}"' for term in terms[:_MOST_TERMS]) or '""'


def _state(db: sqlite3.Connection) -> tuple[bool, int]:
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'search_state'").fetchone() is None:
        return False, 0
    on, through = db.execute("SELECT enabled, through FROM search_state WHERE id = 1").fetchone()
    return bool(on), through


def _ranges(db: sqlite3.Connection, agent: str | None, session: int | None) -> list[tuple[int, int]]:
    """The numbers among which the hits are, the newest first."""
    if session is not None:
        return [span(session)]
    if agent is not None:
        theirs = db.execute("SELECT id FROM sessions WHERE agent_id = ? LIMIT ?", (agent, _FEW + 1)).fetchall()
        if len(theirs) <= _FEW:
            return [span(number) for (number,) in sorted(theirs, reverse=True)]
    return [(0, EVERYTHING)]


def _hits(db: sqlite3.Connection, query: str, numbers: list[int]) -> tuple[Hit, ...]:
    rows = [
        db.execute(
            "SELECT m.id, m.public_id, m.role, m.timestamp, s.public_id, s.agent_id, said.text FROM messages m"
            " JOIN sessions s ON s.id = m.id >> 32 JOIN said ON said.id = m.id WHERE m.id = ?",
            (number,),
        ).fetchone()
        for number in numbers
    ]
    pieces = _pieces(query, {row[0]: row[6] for row in rows})
    return tuple(_hit(row, pieces[row[0]]) for row in rows)


def _hit(row: tuple[int, str, str, Micros, str, str, str], parts: list[str]) -> Hit:
    snippet, marks = _cut(parts)
    return Hit(
        session_id=row[4],
        agent_id=row[5],
        message_id=row[1],
        seq=seq_of(row[0]),
        role=row[2],
        timestamp=row[3],
        snippet=snippet,
        marks=marks,
    )


def _pieces(query: str, texts: dict[int, str]) -> dict[int, list[str]]:
    """Of each text a piece with the words, split where these begin and end.

    It is made in a small index of the hits alone: the large one would be searched again for each of them, at a cost
    that grows with it.
    """
    if not texts:
        return {}
    # Marks that no text holds, because nobody knew them when it was written.
    mark = f"\x02{secrets.token_hex(8)}\x03"
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"CREATE VIRTUAL TABLE hits USING fts5(text, tokenize='{_TOKENS}')")
        db.executemany("INSERT INTO hits (rowid, text) VALUES (?, ?)", texts.items())
        shown = db.execute(
            "SELECT rowid, snippet(hits, 0, ?1, ?1, '…', ?2) FROM hits WHERE hits MATCH ?3", (mark, _WORDS_SHOWN, query)
        ).fetchall()
    return {number: piece.split(mark) for number, piece in shown}


def _cut(parts: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The plain text of what stands by turns outside and inside of marks, and where the marks are.

    A word can be of any length; the text is cut around the first mark.
    """
    text = "".join(parts)
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    marks = [(ends[at], ends[at + 1]) for at in range(1, len(parts), 2)]
    start = 0
    if len(text) > _LONGEST_SNIPPET and marks:
        start = max(min(marks[0][0] - _LONGEST_SNIPPET // 4, len(text) - _LONGEST_SNIPPET), 0)
    end = min(start + _LONGEST_SNIPPET, len(text))
    inside = [(max(a, start) - start, min(b, end) - start) for a, b in marks if a < end and b > start]
    return text[start:end], tuple(inside)
