"""A migration: repositories in which agents work, and the one to which a session is bound."""

from __future__ import annotations

UP = (
    # A row stays for ever, because sessions refer to it; what is not listed any more is as good as unknown.
    # `gone`: the last scan did not find it. `removed`: by an operator, and no scan brings it back.
    """
    CREATE TABLE repos (
        id         INTEGER PRIMARY KEY,
        public_id  TEXT    NOT NULL UNIQUE,
        name       TEXT    NOT NULL,
        path       TEXT    NOT NULL UNIQUE,
        state      TEXT    NOT NULL DEFAULT 'listed' CHECK (state IN ('listed', 'gone', 'removed')),
        created_at INTEGER NOT NULL,
        scanned_at INTEGER NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX repos_name ON repos (name) WHERE state = 'listed'",
    "ALTER TABLE sessions ADD COLUMN repo INTEGER REFERENCES repos (id)",
    "CREATE INDEX sessions_repo ON sessions (repo) WHERE repo IS NOT NULL",
)

DOWN = (
    "DROP INDEX sessions_repo",
    "ALTER TABLE sessions DROP COLUMN repo",
    "DROP INDEX repos_name",
    "DROP TABLE repos",
)
