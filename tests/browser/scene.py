"""A morning's work, as the screenshots show it."""

from collections.abc import Sequence

from store import sessions
from store.content import Content, Text
from store.database import Database
from store.ids import now
from store.records import Session
from tests.browser import past
from tests.browser.surfing import Served

AGENTS = """
[agents.main]
kind = "builtin"
name = "Ada"

[agents.grace]
kind = "builtin"
name = "Grace"
"""

MINUTE = 60_000_000
#: Minutes ago, agent, title, what was asked.
OTHERS = (
    (60 * 24 * 9, "grace", "Names for the new printer"),
    (60 * 24 * 4, "main", "Translate the warranty letter"),
    (60 * 24 * 3, "grace", "Which tests are flaky?"),
    (60 * 27, "main", "Packing list for Lisbon"),
    (60 * 4, "grace", "Review: retry with backoff"),
    (52, "main", "Why is the sky dark at night?"),
)
TITLE = "Nightly backup fails since Sunday"
ANSWER = """The backup itself is fine. It is **the disk that is full**: `/var/backups` has 312 MB left, and \
last night's archive needed 1.4 GB.

| day | archive | result |
|:--|--:|:--|
| Sat | 1.3 GB | ok |
| Sun | 1.4 GB | no space left |

Old archives are never removed, because the clean-up runs *after* the copy and is skipped when that fails. \
Turn the two around:

```sh
find /var/backups -name '*.tar.zst' -mtime +14 -delete
tar --zstd -cf "/var/backups/$(date +%F).tar.zst" /srv
```

That frees 9.8 GB today. Shall I change the timer as well?"""
DIALOGUE: Sequence[tuple[str, Sequence[Content]]] = (
    (
        "The nightly backup fails since Sunday. Can you find out why?",
        (
            past.plan(("Read the log of the timer", "completed"), ("Look at the disk", "completed")),
            past.tool("journalctl", "tar: write error: No space left on device", unit="backup.service", since="Sunday"),
            Text(ANSWER, partial=False),
        ),
    ),
    (
        "Yes please, and show me what it says now.",
        (
            Text(
                "Done: the clean-up runs first, and the copy after it. I will look at the log again tomorrow.",
                partial=False,
            ),
        ),
    ),
)


def paint(daemon: Served) -> str:
    """Store the scene; returns the session to look at."""
    daemon.configure(AGENTS)

    def work(db: Database) -> Session:
        for ago, agent, title in OTHERS:
            when = now() - ago * MINUTE
            other = past.begin(db, title, agent, when)
            past.turn(db, other, title, Text("Gladly.", partial=False), when=when)
            past.titled(db, other, title)
        session = past.begin(db, TITLE, "main", now() - 12 * MINUTE)
        for place, (asked, answer) in enumerate(DIALOGUE):
            past.turn(db, session, asked, *answer, when=now() - (11 - 5 * place) * MINUTE)
        past.titled(db, session, TITLE)
        return sessions.by_number(db, session.id)

    return past.remember(daemon, work)
