"""The third migration: what platforms add. Files and quotes, thoughts in several messages, pairings, limits, places."""

from __future__ import annotations

UP = (
    # Somebody whom the configuration named once has a past of their own: never merged with the page's next owner.
    "ALTER TABLE people ADD COLUMN configured_once INTEGER NOT NULL DEFAULT 0",
    "UPDATE people SET configured_once = 1 WHERE config_name IS NOT NULL",
    # `about`: files, quote and origin of a message. `thought`: the first message of the thought that this one belongs
    # to. `open_until`: until then more of the same thought may come.
    "ALTER TABLE inbox ADD COLUMN about TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(about))",
    "ALTER TABLE inbox ADD COLUMN thought INTEGER",
    "ALTER TABLE inbox ADD COLUMN open_until INTEGER NOT NULL DEFAULT 0",
    # With a file name the text is the content of a file. `blocked`: parked until somebody writes there again.
    "ALTER TABLE outbox ADD COLUMN filename TEXT",
    "ALTER TABLE outbox ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0",
    # Messages of this row that were sent: a long text needs several.
    "ALTER TABLE outbox ADD COLUMN part INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX outbox_blocked ON outbox (place) WHERE blocked = 1",
    # A platform said: nothing to this place before then.
    "CREATE TABLE holds (place TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID",
    # How far the platform's own history of a room was read.
    """
    CREATE TABLE seen (
        channel TEXT    NOT NULL,
        account TEXT    NOT NULL,
        room    TEXT    NOT NULL,
        last    INTEGER NOT NULL,
        PRIMARY KEY (channel, account, room)
    ) WITHOUT ROWID
    """,
    # What an account remembers over a restart, such as which commands its platform has.
    """
    CREATE TABLE account_facts (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        name    TEXT NOT NULL,
        value   TEXT NOT NULL,
        PRIMARY KEY (channel, account, name)
    ) WITHOUT ROWID
    """,
    # An unknown person who wrote: the first message waits here until somebody approves.
    """
    CREATE TABLE pairings (
        id         INTEGER PRIMARY KEY AUTOINCREMENT,
        code       TEXT    NOT NULL UNIQUE,
        channel    TEXT    NOT NULL,
        account    TEXT    NOT NULL,
        sender     TEXT    NOT NULL,
        name       TEXT    NOT NULL,
        message    TEXT    NOT NULL CHECK (json_valid(message)),
        created_at INTEGER NOT NULL,
        UNIQUE (channel, account, sender)
    )
    """,
    # What was said in a group and not to the agent, kept for its next turn there.
    """
    CREATE TABLE overheard (
        id     INTEGER PRIMARY KEY AUTOINCREMENT,
        key    TEXT    NOT NULL,
        sender TEXT    NOT NULL,
        name   TEXT    NOT NULL,
        text   TEXT    NOT NULL,
        at     INTEGER NOT NULL
    )
    """,
    "CREATE INDEX overheard_key ON overheard (key, id)",
    # An agent that the owner chose for one chat; it goes before the bindings.
    """
    CREATE TABLE chosen_agents (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        chat    TEXT NOT NULL,
        thread  TEXT NOT NULL,
        agent   TEXT NOT NULL,
        PRIMARY KEY (channel, account, chat, thread)
    ) WITHOUT ROWID
    """,
)

DOWN = (
    "DROP TABLE chosen_agents",
    "DROP TABLE overheard",
    "DROP TABLE pairings",
    "DROP TABLE account_facts",
    "DROP TABLE seen",
    "DROP TABLE holds",
    "DROP INDEX outbox_blocked",
    "ALTER TABLE outbox DROP COLUMN part",
    "ALTER TABLE outbox DROP COLUMN blocked",
    "ALTER TABLE outbox DROP COLUMN filename",
    "ALTER TABLE inbox DROP COLUMN open_until",
    "ALTER TABLE inbox DROP COLUMN thought",
    "ALTER TABLE inbox DROP COLUMN about",
    "ALTER TABLE people DROP COLUMN configured_once",
)
