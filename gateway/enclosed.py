"""What goes out with an answer as files: what was changed, and what was thought where people want to know."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway import changes
from gateway.agents.protocol import Diff
from gateway.answer import Answer
from gateway.steps import Started
from store.outbox import Draft
from store.records import OutboxKind

#: Characters of thoughts; of more, the last.
_THOUGHTS = 200_000
#: Characters that are compared at once.
_QUICK = 5_000


async def files(answer: Answer, started: Started) -> list[Draft]:
    """One of each kind at most."""
    found: list[Draft] = []
    if diffs := answer.progress.diffs:
        found.append(_file(started, "changes", "diff", await _compared(diffs)))
    if thoughts := answer.thoughts.strip():
        found.append(_file(started, "thoughts", "md", thoughts[-_THOUGHTS:]))
    return found


async def _compared(diffs: Sequence[Diff]) -> str:
    """Comparing much takes time, and nobody else shall wait for it."""
    if sum(len(diff.old or "") + len(diff.new) for diff in diffs) <= _QUICK:
        return changes.unified(diffs)
    return await asyncio.to_thread(changes.unified, diffs)


def _file(started: Started, name: str, kind: str, content: str) -> Draft:
    return Draft(
        address=started.address,
        text=content,
        kind=OutboxKind.NOTICE,
        turn=started.turn.id,
        filename=f"{name}-{started.turn.seq}.{kind}",
    )
