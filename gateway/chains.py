"""Response chains: which answer of the provider a turn can follow instead of sending everything again."""

from __future__ import annotations

from store import chains, turns
from store.database import Database
from store.ids import Micros
from store.records import Turn, TurnStatus

#: Characters of an instruction that a turn keeps; of a longer one it is not known whether all is the same.
_SUMMARY = 1024


def previous(db: Database, turn: Turn, now: Micros) -> str | None:
    """The response id of the turn before, if the provider has exactly the conversation that we have."""
    before = _followed(db, turn)
    if before is None or before.response_id is None or before.agent != turn.agent:
        return None
    if before.chain_expires_at is not None and before.chain_expires_at <= now:
        return None
    changed = chains.changed_since(db, turn.session, before.status_at, turn.first_message, before.last_message)
    return None if changed else before.response_id


def _followed(db: Database, turn: Turn) -> Turn | None:
    """The last completed turn. Between it and this one there may only be failed attempts at the same request."""
    for seq in range(turn.seq - 1, 0, -1):
        before = turns.by_seq(db, turn.session, seq)
        if before is None or before.status is TurnStatus.COMPLETED:
            return before
        same = before.instruction_summary == turn.instruction_summary and len(turn.instruction_summary) < _SUMMARY
        if not same:
            return None
    return None
