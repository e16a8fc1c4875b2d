"""Records as the API shows them: camelCase, times in ISO 8601 UTC."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.budgets import MILLION, Standing
from gateway.explain import Explanation
from gateway.operations import Forgetting, Status
from gateway.version import __version__
from routing.access import Allowed, Refused
from store.content import encode
from store.ids import Micros, from_datetime, to_datetime
from store.inbox import Accepted
from store.moving import Move
from store.pairings import Pairing
from store.records import Compaction, Delivery, InboxItem, Message, Session, Turn
from store.refusals import Refusal
from store.reports import Somebody, Tokens, Usage
from store.repos import Repo
from store.search import Hit

Json = dict[str, Any]


def iso(moment: Micros) -> str:
    return to_datetime(moment).isoformat(timespec="microseconds").replace("+00:00", "Z")


def maybe_iso(moment: Micros | None) -> str | None:
    return None if moment is None else iso(moment)


def parse_time(text: str) -> Micros:
    """An ISO 8601 time; without a zone it is UTC. A `+` that became a space on the way is forgiven."""
    moment = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text)
    return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def session(row: Session) -> Json:
    metadata = dict(row.custom) if isinstance(row.custom, dict) else {"custom": row.custom}
    if row.reason is not None:
        metadata["reason"] = row.reason
    return {
        "id": row.public_id,
        "repoId": row.repo_id,
        "key": str(row.key),
        "agentId": row.key.agent_id,
        "channel": row.key.channel,
        "accountId": row.key.account_id,
        "peerKind": row.key.peer_kind,
        "peerId": row.key.peer_id,
        "status": row.status,
        "recoverable": row.status.live,
        "title": row.title,
        "lastModel": row.last_model,
        "messageCount": row.message_count,
        "turnCount": row.turn_count,
        "totalInputTokens": row.total_input_tokens,
        "totalOutputTokens": row.total_output_tokens,
        "compactionCount": row.compaction_count,
        "lastCompactionAt": maybe_iso(row.last_compaction_at),
        "metadata": metadata,
        "createdAt": iso(row.created_at),
        "updatedAt": iso(row.updated_at),
    }


def repo(row: Repo) -> Json:
    return {
        "id": row.public_id,
        "name": row.name,
        "path": str(row.path),
        "createdAt": iso(row.created_at),
        "scannedAt": iso(row.scanned_at),
    }


def compaction(row: Compaction) -> Json:
    return {
        "strategy": row.strategy,
        "throughSeq": row.through_seq,
        "summary": row.summary,
        "tokensBefore": row.tokens_before,
        "tokensAfter": row.tokens_after,
        "createdAt": iso(row.created_at),
        "undoneAt": maybe_iso(row.undone_at),
    }


def message(row: Message, session_id: str) -> Json:
    metadata = dict(row.metadata)
    if isinstance(metadata.get("receivedAt"), int):
        metadata["receivedAt"] = iso(metadata["receivedAt"])
    return {
        "id": row.public_id,
        "sessionId": session_id,
        "seq": row.seq,
        "turn": None if row.turn is None else row.turn & 0xFFFFFFFF,
        "role": row.role,
        "content": json.loads(encode(row.content)),
        "toolCalls": row.tool_calls,
        "toolCallId": row.tool_call_id,
        "tokenCount": row.token_count,
        "metadata": metadata,
        "timestamp": iso(row.timestamp),
        "changedAt": iso(row.changed_at),
        "state": "stored",
    }


def queued(row: InboxItem, session_id: str) -> Json:
    """An accepted message before its turn: it has its id already, but no place in the history yet."""
    return {
        "id": row.message_id,
        "sessionId": session_id,
        "seq": None,
        "turn": None,
        "role": "user",
        "content": {"type": "text", "text": row.text},
        "toolCalls": None,
        "toolCallId": None,
        "tokenCount": None,
        "metadata": {"receivedAt": iso(row.received_at)},
        "timestamp": iso(row.received_at),
        "changedAt": iso(row.received_at),
        "state": "queued",
    }


def accepted(taken: Accepted, session_id: str) -> Json:
    """A prompt that was stored; the message keeps the id that is named here."""
    message_id = taken.item.message_id
    return {"sessionId": session_id, "messageId": message_id, "status": "queued", "duplicate": taken.duplicate}


def turn(row: Turn, session_id: str) -> Json:
    here = f"/api/sessions/{session_id}/turns/{row.public_id}"
    answered = row.answer_summary is not None
    return {
        "id": row.public_id,
        "sessionId": session_id,
        "sequenceNumber": row.seq,
        "status": row.status,
        "mode": row.mode,
        "conversationId": row.conversation_id,
        "attempts": row.attempts,
        "instructionSummary": row.instruction_summary,
        "fullInstructionUrl": f"{here}/instruction",
        "agentAnswerSummary": row.answer_summary,
        "fullAgentAnswerUrl": f"{here}/answer" if answered else None,
        "openAIModel": row.model,
        "openAIResponseId": row.response_id,
        "previousOpenAIResponseId": row.previous_response_id,
        "openAIChainExpiresDate": maybe_iso(row.chain_expires_at),
        "inputTokens": row.usage.input,
        "cachedTokens": row.usage.cached,
        "outputTokens": row.usage.output,
        "reasoningTokens": row.usage.reasoning,
        "usageSource": row.usage.source,
        "costUsd": money(row.cost),
        "warnings": list(row.warnings),
        "errors": list(row.errors),
        "creationDate": iso(row.created_at),
        "openAIResponseReceivedDate": maybe_iso(row.response_received_at),
        "statusTimeStamp": iso(row.status_at),
    }


def delivery(row: Delivery) -> Json:
    address = row.address
    return {
        "id": row.id,
        "state": row.state,
        "kind": row.kind,
        "channel": address.channel,
        "account": address.account,
        "chat": address.chat,
        "thread": address.thread,
        "text": row.text,
        "attempts": row.attempts,
        "error": row.error,
        "createdAt": iso(row.created_at),
    }


def refusal(row: Refusal) -> Json:
    return {
        "channel": row.channel,
        "account": row.account,
        "chat": row.chat,
        "thread": row.thread,
        "sender": row.sender,
        "messageId": row.message_id,
        "reason": row.reason,
        "at": iso(row.at),
    }


def explanation(explained: Explanation) -> Json:
    judged, key = explained.judged, explained.key
    decision = judged.decision
    return {
        "agent": None if judged.route is None else judged.route.agent,
        "matchedBy": None if judged.route is None else judged.route.matched_by,
        "key": None if key is None else str(key),
        "person": None if judged.person is None else judged.person.public_id,
        "allowed": isinstance(decision, Allowed),
        "rule": decision.rule if isinstance(decision, Allowed) else None,
        "reason": decision.reason if isinstance(decision, Refused) else None,
        "explanation": decision.reason.sentence if isinstance(decision, Refused) else None,
    }


def messages(rows: Sequence[Message], waiting: Sequence[InboxItem], session_id: str) -> list[Json]:
    """A history, with what still waits at its end."""
    stored = [message(row, session_id) for row in rows]
    return stored + [queued(item, session_id) for item in waiting]


def hit(found: Hit) -> Json:
    """`marks` are where the words stand in the snippet, counted in characters; the snippet is plain text."""
    return {
        "sessionId": found.session_id,
        "agentId": found.agent_id,
        "messageId": found.message_id,
        "seq": found.seq,
        "role": found.role,
        "snippet": found.snippet,
        "marks": [list(mark) for mark in found.marks],
        "timestamp": iso(found.timestamp),
    }


def tokens(sums: Tokens) -> Json:
    return {
        "turns": sums.turns,
        "inputTokens": sums.input,
        "cachedTokens": sums.cached,
        "outputTokens": sums.output,
        "reasoningTokens": sums.reasoning,
        "estimatedTokens": sums.estimated,
        "estimatedShare": round(sums.share, 4),
        "unknownTurns": sums.unknown,
        "costUsd": money(sums.cost),
        "unpricedTurns": sums.unpriced,
    }


def money(cost: int | None) -> float | None:
    """US dollars; null where there is no price."""
    return None if cost is None else cost / MILLION


def standing(row: Standing) -> Json:
    return {
        "name": row.budget.name,
        "scope": row.scope,
        "per": row.budget.per,
        "since": iso(row.period),
        "tokens": row.tokens,
        "spentTokens": row.spent.tokens,
        "money": money(row.cost),
        "spentMoney": money(row.spent.cost),
        "share": round(row.share, 4),
    }


def usage(row: Usage) -> Json:
    return {"key": row.key, "name": row.name, **tokens(row.tokens)}


def person(somebody: Somebody) -> Json:
    row = somebody.row
    return {
        "id": row.public_id,
        "name": row.name,
        "configName": row.config_name,
        "owner": row.owner,
        "known": row.known,
        "identities": [{"channel": channel, "userId": user} for channel, user in somebody.identities],
        "sessions": somebody.sessions,
        "createdAt": iso(somebody.created_at),
    }


def status(now: Status) -> Json:
    counts = now.counts
    return {
        "version": __version__,
        "uptimeSeconds": round(now.uptime, 3),
        "pid": now.pid,
        "url": now.url,
        "dataDir": str(now.data_dir),
        "databaseBytes": counts.size,
        "schema": list(counts.schema),
        "sessions": counts.sessions,
        "running": counts.running,
        "waiting": counts.waiting,
        "outbox": counts.outbox,
        "components": {name: {"ok": one.ok, "detail": one.detail} for name, one in now.components.items()},
    }


def pairing(one: Pairing) -> Json:
    return {
        "code": one.code,
        "channel": one.channel,
        "account": one.account,
        "sender": one.sender,
        "name": one.name,
        "text": one.message.text[:200],
        "createdAt": iso(one.created_at),
        "expiresAt": iso(one.expires_at),
    }


def moves(found: Sequence[Move], to: str, *, dry_run: bool) -> Json:
    rows = [
        {
            "id": move.session_id,
            "fromKey": None if move.old is None else str(move.old),
            "toKey": None if move.new is None else str(move.new),
            "movable": move.obstacle is None,
            "moved": move.obstacle is None and not dry_run,
            "joins": move.joins if move.obstacle is None else None,
            "reason": move.obstacle,
            "explanation": None if move.obstacle is None else move.obstacle.sentence,
        }
        for move in found
    ]
    return {"to": to, "dryRun": dry_run, "sessions": rows, "moved": sum(row["moved"] is True for row in rows)}


def forgetting(result: Forgetting) -> Json:
    done = result.done
    return {
        "person": done.person,
        "removed": {
            "sessions": done.sessions,
            "messages": done.messages,
            "turns": done.turns,
            "summaries": done.summaries,
            "inbox": done.inbox,
            "outbox": done.outbox,
            "refusals": done.refusals,
            "identities": done.identities,
        },
        "scrubbed": result.scrubbed,
        "copies": list(result.copies),
        "configured": result.configured,
        "remains": "Answers in conversations with others may quote this person: that cannot be known. Backups and the"
        " copies of the database named in `copies` were not touched.",
    }
