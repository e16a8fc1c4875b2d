"""The fourth migration: what model agents add. Tokens in buckets, cost, response chains, reservations, budgets."""

from __future__ import annotations

#: What a turn gets, in this order. `agent` and `chat` are frozen, because a session can move to another agent and
#: sums must not. `chat` is a group's: a direct chat's id would name a person.
_COLUMNS = (
    "agent TEXT",
    "chat TEXT",
    "cached_tokens INTEGER CHECK (cached_tokens >= 0)",
    "reasoning_tokens INTEGER CHECK (reasoning_tokens >= 0)",
    # Millionths of a US dollar; NULL where there is no price.
    "cost INTEGER CHECK (cost >= 0)",
    "response_id TEXT",
    "previous_response_id TEXT",
    "chain_expires_at INTEGER",
    # What a budget holds back while the turn is pending.
    "reserved_tokens INTEGER CHECK (reserved_tokens >= 0)",
    "reserved_cost INTEGER CHECK (reserved_cost >= 0)",
)

#: The columns that came with this step, in the order of the table.
TURN_COLUMNS = tuple(column.split()[0] for column in _COLUMNS)

UP = (
    *(f"ALTER TABLE turns ADD COLUMN {column}" for column in _COLUMNS),
    # A budget is a sum over the turns of a period: of one person, in one chat, with one agent, or of all.
    "CREATE INDEX turns_by_person ON turns (created_by, created_at) WHERE created_by IS NOT NULL",
    "CREATE INDEX turns_by_chat ON turns (chat, created_at) WHERE chat IS NOT NULL",
    "CREATE INDEX turns_by_agent ON turns (agent, created_at) WHERE agent IS NOT NULL",
    "CREATE INDEX turns_created ON turns (created_at)",
    "CREATE INDEX turns_response ON turns (response_id) WHERE response_id IS NOT NULL",
    # What an administrator allowed on top of a budget, for the period in which it was allowed.
    """
    CREATE TABLE allowances (
        id     INTEGER PRIMARY KEY AUTOINCREMENT,
        budget TEXT    NOT NULL,
        scope  TEXT    NOT NULL,
        tokens INTEGER NOT NULL DEFAULT 0 CHECK (tokens >= 0),
        cost   INTEGER NOT NULL DEFAULT 0 CHECK (cost >= 0),
        at     INTEGER NOT NULL
    )
    """,
    "CREATE INDEX allowances_scope ON allowances (budget, scope, at)",
    # The beginning of the last period in which somebody was warned that a budget is nearly spent.
    """
    CREATE TABLE budget_warnings (
        budget TEXT    NOT NULL,
        scope  TEXT    NOT NULL,
        period INTEGER NOT NULL,
        PRIMARY KEY (budget, scope)
    ) WITHOUT ROWID
    """,
)

DOWN = (
    "DROP TABLE budget_warnings",
    "DROP TABLE allowances",
    "DROP INDEX turns_response",
    "DROP INDEX turns_created",
    "DROP INDEX turns_by_agent",
    "DROP INDEX turns_by_chat",
    "DROP INDEX turns_by_person",
    *(f"ALTER TABLE turns DROP COLUMN {name}" for name in reversed(TURN_COLUMNS)),
)
