"""Databases of any size in seconds: rows made by SQL alone, in the order of their keys, as if they had been lived."""

from pathlib import Path

from store import migrations
from store.inbox import encode_address
from tests.store.rows import connect, make_address, make_key

#: When every session begins, in microseconds; its messages follow one second apart.
START = 1_700_000_000_000_000
SECOND = 1_000_000
AGENT = "ada"


def key_of(session: int) -> str:
    """The key of the nth session."""
    return str(make_key(AGENT, str(session)))


def build(path: Path, *, messages: int, sessions: int, biggest: int = 0, deliveries: int = 0, size: int = 40) -> None:
    """Make a database of `messages` over `sessions`, in questions and answers of `size` characters.

    The first session has `biggest` messages if that is given; the others share the rest evenly. Counters, turns and
    times agree with the messages. An odd last message belongs to no turn. Of the last `deliveries` turns, the rows
    that are done with in inbox and outbox are there as well.
    """
    db = connect(path)
    try:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA cache_size = -200000")
        migrations.migrate(db, path)
        # Ended turns are inserted as they are, which the triggers forbid; they come back below.
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute("BEGIN")
        facts = {
            "sessions": sessions,
            "first": biggest,
            "others": max(sessions - bool(biggest), 1),
            "rest": messages - biggest,
            "start": START,
            "second": SECOND,
            "agent": AGENT,
            "key": key_of(0)[:-1],
            "deliveries": deliveries,
            "address": encode_address(make_address()),
            "place": make_address().place,
            "text": "x" * size,
        }
        for statement in _STATEMENTS:
            db.execute(statement, facts)
        db.execute("COMMIT")
        migrations.ensure_triggers(db)
        db.execute("PRAGMA locking_mode = NORMAL")
        db.execute("PRAGMA journal_mode = WAL")
    finally:
        db.close()


_STATEMENTS = (
    "CREATE TEMP TABLE sizes (id INTEGER PRIMARY KEY, count INTEGER)",
    """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :sessions)
    INSERT INTO sizes SELECT i, CASE
        WHEN i = 1 AND :first > 0 THEN :first
        ELSE :rest / :others + (i - (:first > 0) <= :rest % :others)
    END FROM n
    """,
    "CREATE TEMP TABLE numbers (i INTEGER PRIMARY KEY)",
    """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < (SELECT max(count) FROM sizes))
    INSERT INTO numbers SELECT i FROM n
    """,
    """
    INSERT INTO sessions (id, public_id, key, agent_id, channel, account_id, peer_kind, peer_id, last_seq,
        message_count, turn_count, total_input_tokens, total_output_tokens, last_model, created_at, updated_at)
    SELECT id, printf('%08x-0000-7000-8000-000000000000', id), :key || id, :agent, 'telegram', 'main', 'group',
        id, count, count, count / 2, count / 2 * 10, count / 2 * 10, 'm', :start, :start + count * :second
    FROM sizes ORDER BY id
    """,
    """
    INSERT INTO turns (id, public_id, status, conversation_id, first_message, last_message, instruction_summary,
        answer_summary, model, input_tokens, output_tokens, usage_source, created_at, response_received_at, status_at)
    SELECT s.id << 32 | n.i, printf('%08x-0001-7000-8000-%012x', s.id, n.i), 'completed',
        printf('%08x-0000-7000-8000-000000000000', s.id), 2 * n.i - 1, 2 * n.i, :text, :text, 'm', 10, 10, 'provider',
        :start + (2 * n.i - 1) * :second, :start + 2 * n.i * :second, :start + 2 * n.i * :second
    FROM sizes s CROSS JOIN numbers n ON n.i <= s.count / 2 ORDER BY s.id, n.i
    """,
    """
    INSERT INTO messages (id, public_id, turn, role, content, token_count, timestamp, changed_at)
    SELECT s.id << 32 | n.i, printf('%08x-0002-7000-8000-%012x', s.id, n.i),
        CASE WHEN n.i <= s.count / 2 * 2 THEN s.id << 32 | (n.i + 1) / 2 END,
        CASE n.i % 2 WHEN 1 THEN 'user' ELSE 'agent' END,
        '{"type":"text","text":"' || :text || CASE n.i % 2 WHEN 1 THEN '"}' ELSE '","partial":false}' END, 10,
        :start + n.i * :second, :start + n.i * :second
    FROM sizes s CROSS JOIN numbers n ON n.i <= s.count ORDER BY s.id, n.i
    """,
    """
    INSERT INTO inbox (channel, external_id, key, address, message_id, text, state, turn, received_at)
    SELECT 'telegram', t.id, s.key, :address, printf('%08x-0002-7000-8000-%012x', t.session, t.first_message), '',
        'done', t.id, t.created_at
    FROM (SELECT * FROM turns ORDER BY id DESC LIMIT :deliveries) t JOIN sessions s ON s.id = t.session ORDER BY t.id
    """,
    """
    INSERT INTO outbox (place, address, turn, kind, text, state, sent_id, attempts, created_at, changed_at)
    SELECT :place, :address, id, 'final', :text, 'sent', id, 1, status_at, status_at
    FROM (SELECT * FROM turns ORDER BY id DESC LIMIT :deliveries) ORDER BY id
    """,
    "DROP TABLE sizes",
    "DROP TABLE numbers",
)
