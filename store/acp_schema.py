"""What agents with processes of their own add: how they call a session, and which processes run for it."""

from __future__ import annotations

UP = (
    # The agent's own id of a session, beside ours: with it the agent takes up where it was.
    """
    CREATE TABLE agent_sessions (
        session  INTEGER PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
        agent_id TEXT    NOT NULL,
        name     TEXT    NOT NULL,
        cwd      TEXT    NOT NULL,
        made_at  INTEGER NOT NULL,
        -- The session lives and ends with its process. Conversations outlive theirs.
        process  INTEGER NOT NULL DEFAULT 0
    )
    """,
    # Not tied to a session: a process has to be found also when its session is gone.
    """
    CREATE TABLE agent_processes (
        mark       TEXT    PRIMARY KEY,
        session_id TEXT    NOT NULL,
        agent_id   TEXT    NOT NULL,
        pid        INTEGER,
        started    INTEGER,
        made_at    INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)

DOWN = ("DROP TABLE agent_processes", "DROP TABLE agent_sessions")
