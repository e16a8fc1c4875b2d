"""The second migration: who wrote where, the order of activity, and the full-text index with its own triggers.

A message is in the index if its text is final and its number is not above `search_state.through`. New indexes start
at 0 and are filled upwards in batches; the triggers keep what is below in step and leave the rest to the batches.
"""

from __future__ import annotations

#: Every message is indexed: no number is larger.
EVERYTHING = 2**63 - 1


def _final(row: str) -> str:
    """Text that no longer grows. What is not text (plans, tool calls) is not searched."""
    return f"json_extract({row}content, '$.type') = 'text' AND json_extract({row}content, '$.partial') IS NOT 1"


def _text(row: str) -> str:
    return f"json_extract({row}content, '$.text')"


_INDEXED = "<= (SELECT through FROM search_state WHERE id = 1)"

UP = (
    # Written when a turn begins, so that a list by person or channel needs neither turns nor messages. A collapsed key
    # has no channel of its own. People are never deleted; 0 is nobody.
    """
    CREATE TABLE participants (
        session INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        person  INTEGER NOT NULL,
        channel TEXT    NOT NULL,
        account TEXT    NOT NULL,
        PRIMARY KEY (session, person, channel, account)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX participants_person ON participants (person, session)",
    "CREATE INDEX participants_place ON participants (channel, account, session)",
    """
    INSERT OR IGNORE INTO participants
    SELECT turn >> 32, coalesce(person, 0), json_extract(address, '$.channel'), json_extract(address, '$.account')
    FROM inbox WHERE turn IS NOT NULL
    """,
    # Older than the inbox remembers: who is known, from where only as far as the key says it.
    """
    INSERT OR IGNORE INTO participants
    SELECT DISTINCT turns.id >> 32, turns.created_by, sessions.channel, sessions.account_id
    FROM turns JOIN sessions ON sessions.id = turns.id >> 32 WHERE turns.created_by IS NOT NULL
    """,
    "CREATE INDEX sessions_updated ON sessions (updated_at)",
    """
    CREATE INDEX sessions_ended ON sessions (updated_at, last_seq)
    WHERE status IN ('completed', 'cancelled', 'error', 'archived')
    """,
    """
    CREATE TABLE search_state (
        id      INTEGER PRIMARY KEY CHECK (id = 1),
        enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
        through INTEGER NOT NULL
    )
    """,
    "INSERT INTO search_state (id, enabled, through) VALUES (1, 1, 0)",
    f"CREATE VIEW said AS SELECT id, {_text('')} AS text FROM messages WHERE {_final('')}",
    # External content: the text stays in the messages alone. No column sizes: hits are not ranked, but newest first.
    "CREATE VIRTUAL TABLE search USING fts5("
    "text, content='said', content_rowid='id', columnsize=0, tokenize='unicode61 remove_diacritics 2')",
)

DOWN = (
    "DROP TABLE search",
    "DROP VIEW said",
    "DROP TABLE search_state",
    "DROP INDEX sessions_ended",
    "DROP INDEX sessions_updated",
    "DROP TABLE participants",
)

#: Only while the search is switched on. A text that is replaced must leave the index before the new one enters, and
#: the order of two triggers is not defined: so one trigger does both.
TRIGGERS = {
    "search_added": f"""
        CREATE TRIGGER search_added AFTER INSERT ON messages WHEN NEW.id {_INDEXED} AND {_final("NEW.")}
        BEGIN INSERT INTO search (rowid, text) VALUES (NEW.id, {_text("NEW.")}); END
    """,
    "search_changed": f"""
        CREATE TRIGGER search_changed AFTER UPDATE OF content ON messages
        WHEN OLD.id {_INDEXED} AND OLD.content <> NEW.content
        BEGIN
            INSERT INTO search (search, rowid, text) SELECT 'delete', OLD.id, {_text("OLD.")} WHERE {_final("OLD.")};
            INSERT INTO search (rowid, text) SELECT NEW.id, {_text("NEW.")} WHERE {_final("NEW.")};
        END
    """,
    "search_removed": f"""
        CREATE TRIGGER search_removed AFTER DELETE ON messages WHEN OLD.id {_INDEXED} AND {_final("OLD.")}
        BEGIN INSERT INTO search (search, rowid, text) VALUES ('delete', OLD.id, {_text("OLD.")}); END
    """,
}
