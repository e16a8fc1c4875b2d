"""The schema as explicit SQL: what each migration does and undoes, and the triggers in one list."""

from __future__ import annotations

from dataclasses import dataclass

from store import (
    acp_schema,
    compaction_schema,
    model_schema,
    platform_schema,
    question_schema,
    repo_schema,
    search_schema,
)

#: What stands where a forgotten person's words stood.
REMOVED = "[removed]"

#: The statuses in which a session takes messages. Written out wherever the partial index has to be used.
LIVE = "status IN ('active', 'idle', 'compacted')"

_NOW = "(CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER))"


@dataclass(frozen=True, slots=True)
class Step:
    """One migration: explicit statements there and back."""

    name: str
    up: tuple[str, ...]
    down: tuple[str, ...]


_SPINE = (
    # People are never deleted: ended turns refer to them. A forgotten person is a row without name and identities.
    """
    CREATE TABLE people (
        id          INTEGER PRIMARY KEY,
        public_id   TEXT    NOT NULL UNIQUE,
        name        TEXT    NOT NULL DEFAULT '',
        config_name TEXT    UNIQUE,
        owner       INTEGER NOT NULL DEFAULT 0 CHECK (owner IN (0, 1)),
        known       INTEGER NOT NULL DEFAULT 0 CHECK (known IN (0, 1)),
        merged_into INTEGER REFERENCES people (id),
        created_at  INTEGER NOT NULL DEFAULT NOW
    )
    """,
    "CREATE UNIQUE INDEX people_one_owner ON people (owner) WHERE owner = 1",
    """
    CREATE TABLE identities (
        channel TEXT    NOT NULL,
        user_id TEXT    NOT NULL,
        person  INTEGER NOT NULL REFERENCES people (id),
        PRIMARY KEY (channel, user_id)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX identities_person ON identities (person)",
    # AUTOINCREMENT: a deleted session's number never comes back, because messages and turns carry it in their ids.
    f"""
    CREATE TABLE sessions (
        id                  INTEGER PRIMARY KEY AUTOINCREMENT,
        public_id           TEXT    NOT NULL UNIQUE,
        key                 TEXT    NOT NULL,
        agent_id            TEXT    NOT NULL,
        channel             TEXT    NOT NULL,
        account_id          TEXT    NOT NULL,
        peer_kind           TEXT    NOT NULL CHECK (peer_kind IN ('dm', 'group', 'channel')),
        peer_id             TEXT    NOT NULL,
        status              TEXT    NOT NULL DEFAULT 'active' CHECK (status IN
                            ('active', 'idle', 'compacted', 'completed', 'cancelled', 'error', 'archived')),
        person              INTEGER REFERENCES people (id),
        predecessor         INTEGER REFERENCES sessions (id) ON DELETE SET NULL,
        title               TEXT,
        last_model          TEXT,
        last_seq            INTEGER NOT NULL DEFAULT 0,
        message_count       INTEGER NOT NULL DEFAULT 0,
        turn_count          INTEGER NOT NULL DEFAULT 0,
        total_input_tokens  INTEGER NOT NULL DEFAULT 0,
        total_output_tokens INTEGER NOT NULL DEFAULT 0,
        compaction_count    INTEGER NOT NULL DEFAULT 0,
        last_compaction_at  INTEGER,
        reason              TEXT,
        metadata            TEXT    NOT NULL DEFAULT '{{}}' CHECK (json_valid(metadata)),
        created_at          INTEGER NOT NULL DEFAULT {_NOW},
        updated_at          INTEGER NOT NULL DEFAULT {_NOW}
    )
    """,
    f"CREATE UNIQUE INDEX sessions_live_key ON sessions (key) WHERE {LIVE}",
    "CREATE INDEX sessions_status ON sessions (status)",
    "CREATE INDEX sessions_agent ON sessions (agent_id, created_at)",
    "CREATE INDEX sessions_created ON sessions (created_at)",
    "CREATE INDEX sessions_key ON sessions (key)",
    "CREATE INDEX sessions_person ON sessions (person)",
    "CREATE INDEX sessions_predecessor ON sessions (predecessor)",
    """
    CREATE TABLE turns (
        id                   INTEGER PRIMARY KEY,
        session              INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL
                             REFERENCES sessions (id) ON DELETE CASCADE,
        public_id            TEXT    NOT NULL UNIQUE,
        status               TEXT    NOT NULL DEFAULT 'pending'
                             CHECK (status IN ('pending', 'completed', 'failed')),
        mode                 TEXT    NOT NULL DEFAULT 'ask',
        conversation_id      TEXT    NOT NULL,
        created_by           INTEGER REFERENCES people (id),
        attempts             INTEGER NOT NULL DEFAULT 1,
        first_message        INTEGER NOT NULL,
        last_message         INTEGER NOT NULL,
        instruction_summary  TEXT    NOT NULL,
        answer_summary       TEXT,
        model                TEXT,
        input_tokens         INTEGER CHECK (input_tokens >= 0),
        output_tokens        INTEGER CHECK (output_tokens >= 0),
        usage_source         TEXT    CHECK (usage_source IN ('provider', 'estimated')),
        warnings             TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(warnings)),
        errors               TEXT    NOT NULL DEFAULT '[]' CHECK (json_valid(errors)),
        created_at           INTEGER NOT NULL,
        response_received_at INTEGER,
        status_at            INTEGER NOT NULL
    )
    """,
    "CREATE INDEX turns_session ON turns (session)",
    "CREATE INDEX people_merged_into ON people (merged_into)",
    "CREATE UNIQUE INDEX turns_one_pending ON turns (session) WHERE status = 'pending'",
    f"""
    CREATE TABLE messages (
        id           INTEGER PRIMARY KEY,
        session      INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL
                     REFERENCES sessions (id) ON DELETE CASCADE,
        public_id    TEXT    NOT NULL UNIQUE,
        turn         INTEGER,
        role         TEXT    NOT NULL CHECK (role IN ('user', 'agent', 'system')),
        content      TEXT    NOT NULL CHECK (json_valid(content)),
        tool_calls   TEXT    CHECK (tool_calls IS NULL OR json_valid(tool_calls)),
        tool_call_id TEXT,
        token_count  INTEGER CHECK (token_count >= 0),
        metadata     TEXT    NOT NULL DEFAULT '{{}}' CHECK (json_valid(metadata)),
        timestamp    INTEGER NOT NULL DEFAULT {_NOW},
        changed_at   INTEGER NOT NULL DEFAULT {_NOW}
    )
    """,
    "CREATE INDEX messages_changed ON messages (session, changed_at)",
    """
    CREATE TABLE compactions (
        id             INTEGER PRIMARY KEY,
        session        INTEGER NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
        strategy       TEXT    NOT NULL,
        through_seq    INTEGER NOT NULL,
        summary        TEXT    NOT NULL,
        tokens_before  INTEGER NOT NULL,
        tokens_after   INTEGER NOT NULL CHECK (tokens_after < tokens_before),
        created_at     INTEGER NOT NULL,
        undone_at      INTEGER
    )
    """,
    "CREATE INDEX compactions_session ON compactions (session, id)",
    """
    CREATE TABLE inbox (
        id          INTEGER PRIMARY KEY AUTOINCREMENT,
        channel     TEXT    NOT NULL,
        external_id TEXT    NOT NULL,
        key         TEXT    NOT NULL,
        session     INTEGER REFERENCES sessions (id) ON DELETE CASCADE,
        address     TEXT    NOT NULL CHECK (json_valid(address)),
        person      INTEGER REFERENCES people (id),
        sender_name TEXT    NOT NULL DEFAULT '',
        message_id  TEXT    NOT NULL,
        text        TEXT    NOT NULL,
        state       TEXT    NOT NULL DEFAULT 'waiting'
                    CHECK (state IN ('waiting', 'running', 'done', 'cancelled')),
        turn        INTEGER REFERENCES turns (id) ON DELETE SET NULL,
        received_at INTEGER NOT NULL,
        UNIQUE (channel, external_id)
    )
    """,
    "CREATE INDEX inbox_waiting ON inbox (key, id) WHERE state = 'waiting'",
    "CREATE INDEX inbox_turn ON inbox (turn) WHERE turn IS NOT NULL",
    "CREATE INDEX inbox_session ON inbox (session) WHERE session IS NOT NULL",
    """
    CREATE TABLE outbox (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        place      TEXT    NOT NULL,
        address    TEXT    NOT NULL CHECK (json_valid(address)),
        turn       INTEGER REFERENCES turns (id) ON DELETE CASCADE,
        kind       TEXT    NOT NULL CHECK (kind IN ('preview', 'final', 'notice')),
        text       TEXT    NOT NULL,
        state      TEXT    NOT NULL CHECK (state IN ('held', 'ready', 'sending', 'sent', 'parked', 'dropped')),
        sent_id    TEXT,
        uncertain  INTEGER NOT NULL DEFAULT 0,
        attempts   INTEGER NOT NULL DEFAULT 0,
        next_at    INTEGER NOT NULL DEFAULT 0,
        error      TEXT,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL
    )
    """,
    "CREATE INDEX outbox_open ON outbox (place, id) WHERE state IN ('ready', 'sending')",
    "CREATE INDEX outbox_unsettled ON outbox (state, id) WHERE state IN ('held', 'sending', 'parked')",
    "CREATE INDEX outbox_turn ON outbox (turn) WHERE turn IS NOT NULL",
    """
    CREATE TABLE aliases (
        channel  TEXT    NOT NULL,
        account  TEXT    NOT NULL,
        old_chat TEXT    NOT NULL,
        new_chat TEXT    NOT NULL,
        made_at  INTEGER NOT NULL,
        PRIMARY KEY (channel, account, old_chat)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE refusals (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        channel    TEXT    NOT NULL,
        account    TEXT    NOT NULL,
        chat       TEXT    NOT NULL,
        thread     TEXT,
        sender     TEXT    NOT NULL,
        message_id TEXT,
        reason     TEXT    NOT NULL,
        at         INTEGER NOT NULL
    )
    """,
)

_SPINE_TABLES = (
    "refusals",
    "aliases",
    "outbox",
    "inbox",
    "compactions",
    "messages",
    "turns",
    "sessions",
    "identities",
    "people",
)

STEPS = (
    Step(
        "m001_spine",
        up=tuple(statement.replace("DEFAULT NOW", f"DEFAULT {_NOW}") for statement in _SPINE),
        down=tuple(f"DROP TABLE {table}" for table in _SPINE_TABLES),
    ),
    Step("m002_search", up=search_schema.UP, down=search_schema.DOWN),
    Step("m003_platforms", up=platform_schema.UP, down=platform_schema.DOWN),
    Step("m004_models", up=model_schema.UP, down=model_schema.DOWN),
    Step("m005_compaction", up=compaction_schema.UP, down=compaction_schema.DOWN),
    Step("m006_questions", up=question_schema.UP, down=question_schema.DOWN),
    Step("m007_repos", up=repo_schema.UP, down=repo_schema.DOWN),
    Step("m008_agent_processes", up=acp_schema.UP, down=acp_schema.DOWN),
)


def _other_columns(row: str) -> str:
    """All of a turn but what was asked."""
    later = ", ".join(f"{row}.{name}" for name in model_schema.TURN_COLUMNS)
    return (
        f"({row}.id, {row}.public_id, {row}.status, {row}.mode, {row}.conversation_id, {row}.created_by, "
        f"{row}.attempts, {row}.first_message, {row}.last_message, {row}.answer_summary, {row}.model, "
        f"{row}.input_tokens, {row}.output_tokens, {row}.usage_source, {row}.warnings, {row}.errors, "
        f"{row}.created_at, {row}.response_received_at, {row}.status_at, {later})"
    )


#: The one change that an ended turn takes: what a forgotten person asked goes, and nothing else of it.
_FORGETS = (
    f"NEW.instruction_summary IS '{REMOVED}' AND OLD.instruction_summary <> '{REMOVED}'"
    f" AND {_other_columns('NEW')} IS {_other_columns('OLD')}"
)

#: Every way a session's status may change (the readings call it one status machine); nothing else.
_ALLOWED = f"""
    (OLD.status IN ('active', 'compacted') AND NEW.status = 'idle')
    OR (OLD.status = 'active' AND NEW.status = 'compacted')
    OR (OLD.status IN ('idle', 'compacted') AND NEW.status = 'active')
    OR (OLD.{LIVE} AND NEW.status IN ('completed', 'cancelled', 'error'))
    OR (OLD.status <> 'archived' AND NEW.status = 'archived')
"""

TRIGGERS = {
    "turns_start_pending": """
        CREATE TRIGGER turns_start_pending BEFORE INSERT ON turns WHEN NEW.status <> 'pending'
        BEGIN SELECT RAISE(ABORT, 'a turn starts as pending'); END
    """,
    "turns_ended_is_final": f"""
        CREATE TRIGGER turns_ended_is_final BEFORE UPDATE ON turns WHEN OLD.status <> 'pending' AND NOT ({_FORGETS})
        BEGIN SELECT RAISE(ABORT, 'an ended turn never changes'); END
    """,
    "sessions_status": f"""
        CREATE TRIGGER sessions_status BEFORE UPDATE OF status ON sessions
        WHEN NEW.status <> OLD.status AND NOT ({_ALLOWED})
        BEGIN SELECT RAISE(ABORT, 'forbidden change of session status'); END
    """,
    "sessions_repo": """
        CREATE TRIGGER sessions_repo BEFORE UPDATE OF repo ON sessions
        WHEN OLD.repo IS NOT NULL AND NEW.repo IS NOT OLD.repo
        BEGIN SELECT RAISE(ABORT, 'a session keeps its repository'); END
    """,
    "sessions_touched": f"""
        CREATE TRIGGER sessions_touched AFTER UPDATE ON sessions WHEN NEW.updated_at = OLD.updated_at
        BEGIN UPDATE sessions SET updated_at = max({_NOW}, OLD.updated_at + 1) WHERE id = NEW.id; END
    """,
}
