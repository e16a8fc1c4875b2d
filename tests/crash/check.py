"""What must be true after any number of crashes, read from the database file alone."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

from tests.crash.load import Sent


def check(database: Path, accepted: list[Sent]) -> Counter[str]:
    """Raises AssertionError, else returns how the turns ended."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        assert _open_rows(db) == {}
        answered_once(db, accepted)
        return Counter(dict(db.execute("SELECT status, count(*) FROM turns GROUP BY status").fetchall()))
    finally:
        db.close()


def _open_rows(db: sqlite3.Connection) -> dict[str, int]:
    """Anything that still waits for something."""
    counts = {
        "inbox": "SELECT count(*) FROM inbox WHERE state IN ('waiting', 'running')",
        "outbox": "SELECT count(*) FROM outbox WHERE state NOT IN ('sent', 'dropped')",
        "turns": "SELECT count(*) FROM turns WHERE status = 'pending'",
        "partial": "SELECT count(*) FROM messages WHERE json_extract(content, '$.partial')",
    }
    found = {name: db.execute(sql).fetchone()[0] for name, sql in counts.items()}
    return {name: count for name, count in found.items() if count}


def answered_once(db: sqlite3.Connection, accepted: list[Sent]) -> None:
    """Every accepted message is in one turn, which has one answer or one visible failure, delivered once."""
    asked: dict[str, tuple[int, str]] = {}
    for message_id, turn, content in db.execute("SELECT public_id, turn, content FROM messages WHERE role = 'user'"):
        asked[message_id] = (turn, json.loads(content)["text"])
    statuses = dict(db.execute("SELECT id, status FROM turns").fetchall())
    finals = Counter(
        turn for (turn,) in db.execute("SELECT turn FROM outbox WHERE kind = 'final' AND state = 'sent'").fetchall()
    )
    for sent in accepted:
        assert sent.message_id in asked, f"accepted and lost: {sent}"
        turn, text = asked[sent.message_id]
        assert text == sent.text
        assert finals[turn] == 1, f"delivered {finals[turn]} times: {sent}"
        answers = _texts(db, turn, "agent")
        if statuses[turn] == "completed":
            assert answers == [expected(sent.text)], f"answered {answers}: {sent}"
        else:
            assert statuses[turn] == "failed"
            assert _texts(db, turn, "system"), f"failed without a word: {sent}"
    assert Counter(turn for turn, _ in asked.values()).most_common(1)[0][1] == 1
    # A message whose 202 was lost in a crash was sent again; greetings carry a number of their own.
    greetings = Counter(text for _, text in asked.values() if text.startswith("hello"))
    assert greetings.most_common(1)[0][1] == 1, "a message was taken twice"
    assert len(asked) >= len({sent.message_id for sent in accepted}) == len(accepted)


def expected(text: str) -> str:
    """What the built-in agent answers."""
    if text.startswith("count "):
        return "".join(f"{number} " for number in range(1, int(text.split()[1]) + 1)) + "done."
    return f"You said: {text}"


def _texts(db: sqlite3.Connection, turn: int, role: str) -> list[str]:
    rows = db.execute("SELECT content FROM messages WHERE turn = ? AND role = ? ORDER BY id", (turn, role)).fetchall()
    return [json.loads(content)["text"] for (content,) in rows]
