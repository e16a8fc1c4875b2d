"""The configuration: one TOML file, a few environment variables, and a frozen value made of them.

`tables` says what the file may hold, `fields` and `secrets` what a single value may be, `relations` what must
hold between tables; `problems` turns what is wrong into sentences; `loading` puts it together.
"""

from gateway.config.fields import Listen
from gateway.config.loading import Account, Config, KnownPerson, load
from gateway.config.tables import (
    AcpAgent,
    AgentConfig,
    BudgetTable,
    BuiltinAgent,
    Compaction,
    DiscordTable,
    Gateway,
    Http,
    ModelApi,
    OpenAIAgent,
    QueueMode,
    Retention,
    Search,
    Strategy,
    TelegramTable,
)

__all__ = [
    "Account",
    "AcpAgent",
    "AgentConfig",
    "BudgetTable",
    "BuiltinAgent",
    "Compaction",
    "Config",
    "DiscordTable",
    "Gateway",
    "Http",
    "KnownPerson",
    "Listen",
    "ModelApi",
    "OpenAIAgent",
    "QueueMode",
    "Retention",
    "Search",
    "Strategy",
    "TelegramTable",
    "load",
]
