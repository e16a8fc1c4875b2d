"""The fifth migration: what compaction by a model costs, and indexes by which pins and compactions are found."""

from __future__ import annotations

#: The compactions that decide what an agent is given: the newest in force that trims, that leaves out, and from which
#: the next summary starts. Without them a session of many windows would be searched for a summary that it never had.
_KINDS = {
    "compactions_trim": "strategy = 'trim_tools'",
    "compactions_leave_out": "strategy <> 'trim_tools'",
    "compactions_base": "strategy NOT IN ('window', 'trim_tools')",
}

UP = (
    "CREATE INDEX messages_pinned ON messages (session) WHERE json_extract(metadata, '$.pinned') = 1",
    *(
        f"CREATE INDEX {name} ON compactions (session, id) WHERE undone_at IS NULL AND {kind}"
        for name, kind in _KINDS.items()
    ),
    # Whether anything was compacted, or taken back, since a moment.
    "CREATE INDEX compactions_created ON compactions (session, created_at)",
    "CREATE INDEX compactions_undone ON compactions (session, undone_at) WHERE undone_at IS NOT NULL",
    # Tokens that were spent for a session outside of its turns. Whose they are is frozen, as with turns.
    """
    CREATE TABLE outlays (
        id               INTEGER PRIMARY KEY,
        session          INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        created_at       INTEGER NOT NULL,
        created_by       INTEGER REFERENCES people (id) ON DELETE SET NULL,
        agent            TEXT,
        chat             TEXT,
        model            TEXT,
        input_tokens     INTEGER CHECK (input_tokens >= 0),
        cached_tokens    INTEGER CHECK (cached_tokens >= 0),
        output_tokens    INTEGER CHECK (output_tokens >= 0),
        reasoning_tokens INTEGER CHECK (reasoning_tokens >= 0),
        usage_source     TEXT    NOT NULL,
        cost             INTEGER CHECK (cost >= 0)
    )
    """,
    "CREATE INDEX outlays_session ON outlays (session)",
    "CREATE INDEX outlays_created ON outlays (created_at)",
)

DOWN = (
    "DROP TABLE outlays",
    "DROP INDEX compactions_undone",
    "DROP INDEX compactions_created",
    *(f"DROP INDEX {name}" for name in reversed(_KINDS)),
    "DROP INDEX messages_pinned",
)
