"""Questions: what agents ask of people, the messages that carry it, and what each chat wants to see of a run."""

from __future__ import annotations

UP = (
    """
    CREATE TABLE questions (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        token      TEXT    NOT NULL UNIQUE,
        turn       INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        asker      INTEGER REFERENCES people (id),
        message    INTEGER,
        answerers  TEXT    NOT NULL,
        text       TEXT    NOT NULL,
        options    TEXT    NOT NULL,
        state      TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'chosen', 'timed_out', 'closed')),
        chosen     TEXT,
        decided_by INTEGER REFERENCES people (id),
        outcome    TEXT,
        expires_at INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL
    )
    """,
    "CREATE INDEX questions_turn ON questions (turn)",
    "CREATE INDEX questions_open ON questions (id) WHERE state = 'open'",
    # The messages of a question: one where it was asked, and one to everybody who may answer it elsewhere.
    "ALTER TABLE outbox ADD COLUMN question INTEGER",
    "CREATE INDEX outbox_question ON outbox (question) WHERE question IS NOT NULL",
    # Chats in which people want to see what the agent thinks.
    """
    CREATE TABLE thoughtful (
        place TEXT PRIMARY KEY
    ) WITHOUT ROWID
    """,
)

DOWN = (
    "DROP TABLE thoughtful",
    "DROP INDEX outbox_question",
    "ALTER TABLE outbox DROP COLUMN question",
    "DROP TABLE questions",
)
