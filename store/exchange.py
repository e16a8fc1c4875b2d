"""Export and import of one session: exact, all or nothing, and suspicious of what it is given."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from routing.errors import SessionExists
from routing.keys import SessionKey
from store import compactions, messages, sessions, turns
from store import exchange_lines as lines
from store.content import Json, clean, to_json
from store.exchange_lines import Header, MessageLine, Person, TurnLine
from store.exchange_reader import Package
from store.ids import Micros, new_id, pack
from store.records import Session, Status, TurnStatus
from store.turns import Ending

#: What a history says of a turn that ran when it was exported.
NOTE_INTERRUPTED = "This was being answered when the session was exported. The request above was not finished."
INTERRUPTED = "exported before it was answered"
#: Why an imported session is archived: the conversation goes on in another one.
REPLACED = "imported beside a live session"


# Out


def export(db: sqlite3.Connection, public_id: str) -> list[bytes]:
    """The lines of a session, each with its end."""
    session = sessions.get(db, public_id)
    rest = [*_lines(db, session)]
    kinds = [line["type"] for line in rest]
    header = Header(
        people=kinds.count("person"),
        turns=kinds.count("turn"),
        messages=kinds.count("message"),
        compactions=kinds.count("compaction"),
    )
    return [f"{to_json(line)}\n".encode() for line in (header.model_dump(), *rest)]


def _lines(db: sqlite3.Connection, session: Session) -> Iterator[dict[str, Json]]:
    rows = turns.of_session(db, session.id)
    took_part = db.execute(
        "SELECT person, channel, account FROM participants WHERE session = ? ORDER BY 2, 3, 1", (session.id,)
    ).fetchall()
    numbers = {session.person, *(turn.created_by for turn in rows), *(person for person, _, _ in took_part)}
    names = _people(db, numbers)
    yield lines.of_session(session, names, took_part)
    for public_id, name in sorted(names.values()):
        yield Person(id=public_id, name=name).model_dump()
    for turn in rows:
        yield lines.of_turn(turn, names)
    for message in messages.every(db, session.id):
        yield lines.of_message(message)
    for compaction in compactions.of_session(db, session.id):
        yield lines.of_compaction(compaction)


def _people(db: sqlite3.Connection, numbers: set[int | None]) -> lines.People:
    rows = db.execute(
        "SELECT id, public_id, name FROM people WHERE id IN (SELECT value FROM json_each(?))",
        (to_json([number for number in numbers if number]),),
    ).fetchall()
    return {number: (public_id, name) for number, public_id, name in rows}


# In


def take_in(db: sqlite3.Connection, package: Package, now: Micros, *, new_ids: bool = False) -> Session:
    """Store a session as it was, with its ids or with new ones.

    Where its conversation already goes on in another live session it is archived. A turn that was running is closed:
    whoever was to answer it is not here.
    """
    line = package.session
    public_id = new_id() if new_ids else line.id
    try:
        people = {person.id: _person(db, person, now) for person in package.people}
        session = _insert_session(db, package, public_id, people)
        for turn in package.turns:
            conversation = public_id if turn.conversationId == line.id else turn.conversationId
            _insert_turn(db, session, turn, new_id() if new_ids else turn.id, conversation, people)
        _insert_messages(db, session, package.messages, new_ids)
    except sqlite3.IntegrityError as exc:
        raise SessionExists(session=line.id) from exc
    db.executemany(
        "INSERT INTO compactions (session, strategy, through_seq, summary, tokens_before, tokens_after, created_at,"
        " undone_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (session, one.strategy, one.throughSeq, one.summary, one.tokensBefore, one.tokensAfter, one.createdAt)
            + (one.undoneAt,)
            for one in package.compactions
        ],
    )
    if package.turns and package.turns[-1].status is TurnStatus.PENDING:
        running = pack(session, len(package.turns))
        turns.fail(db, running, NOTE_INTERRUPTED, Ending(errors=(INTERRUPTED,)), now)
    return sessions.by_number(db, session)


def _person(db: sqlite3.Connection, person: Person, now: Micros) -> int:
    """Found again by the id; else a stranger who has only a name."""
    row = db.execute("SELECT id FROM people WHERE public_id = ?", (person.id,)).fetchone()
    if row is None:
        row = db.execute(
            "INSERT INTO people (public_id, name, created_at) VALUES (?, ?, ?) RETURNING id",
            (person.id, clean(person.name), now),
        ).fetchone()
    return int(row[0])


def _insert_session(db: sqlite3.Connection, package: Package, public_id: str, people: dict[str, int]) -> int:
    line = package.session
    key = SessionKey.parse(line.key)
    status, reason = line.status, line.reason
    if status.live and sessions.live(db, key) is not None:
        status, reason = Status.ARCHIVED, REPLACED
    values = {
        "public_id": public_id,
        "key": line.key,
        "agent_id": key.agent_id,
        "channel": key.channel,
        "account_id": key.account_id,
        "peer_kind": key.peer_kind,
        "peer_id": key.peer_id,
        "status": status,
        "reason": reason,
        "person": None if line.person is None else people[line.person],
        "title": line.title,
        "last_model": line.lastModel,
        "last_seq": len(package.messages),
        "message_count": len(package.messages),
        "turn_count": len(package.turns),
        "total_input_tokens": line.totalInputTokens,
        "total_output_tokens": line.totalOutputTokens,
        "compaction_count": len(package.compactions),
        "last_compaction_at": line.lastCompactionAt,
        "metadata": to_json(line.metadata),
        "created_at": line.createdAt,
        "updated_at": line.updatedAt,
    }
    (session,) = db.execute(
        f"INSERT INTO sessions ({', '.join(values)}) VALUES ({', '.join('?' * len(values))}) RETURNING id",
        tuple(values.values()),
    ).fetchone()
    db.executemany(
        "INSERT OR IGNORE INTO participants (session, person, channel, account) VALUES (?, ?, ?, ?)",
        [(session, 0 if who is None else people[who], channel, account) for who, channel, account in line.participants],
    )
    return int(session)


def _insert_turn(
    db: sqlite3.Connection,
    session: int,
    line: TurnLine,
    public_id: str,
    conversation: str,
    people: dict[str, int],
) -> None:
    """As every turn: pending first, then ended, once."""
    number = pack(session, line.seq)
    db.execute(
        "INSERT INTO turns (id, public_id, mode, conversation_id, created_by, attempts, first_message, last_message,"
        " instruction_summary, answer_summary, model, input_tokens, output_tokens, usage_source, warnings, errors,"
        " created_at, response_received_at, status_at, agent, chat, cached_tokens, reasoning_tokens, cost, response_id,"
        " previous_response_id, chain_expires_at, reserved_tokens, reserved_cost)"
        f" VALUES ({', '.join('?' * 29)})",
        (
            number,
            public_id,
            line.mode,
            conversation,
            None if line.createdBy is None else people[line.createdBy],
            line.attempts,
            line.firstMessage,
            line.lastMessage,
            line.instructionSummary,
            line.answerSummary,
            line.model,
            line.inputTokens,
            line.outputTokens,
            line.usageSource,
            to_json(line.warnings),
            to_json(line.errors),
            line.createdAt,
            line.responseReceivedAt,
            line.statusAt,
            line.agent,
            line.chat,
            line.cachedTokens,
            line.reasoningTokens,
            line.cost,
            line.responseId,
            line.previousResponseId,
            line.chainExpiresAt,
            line.reservedTokens,
            line.reservedCost,
        ),
    )
    if line.status is not TurnStatus.PENDING:
        db.execute("UPDATE turns SET status = ? WHERE id = ?", (line.status, number))


def _insert_messages(db: sqlite3.Connection, session: int, said: tuple[MessageLine, ...], new_ids: bool) -> None:
    db.executemany(
        "INSERT INTO messages (id, public_id, turn, role, content, tool_calls, tool_call_id, token_count, metadata,"
        " timestamp, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                pack(session, line.seq),
                new_id() if new_ids else line.id,
                None if line.turn is None else pack(session, line.turn),
                line.role,
                to_json(line.content),
                None if line.toolCalls is None else to_json(line.toolCalls),
                line.toolCallId,
                line.tokenCount,
                to_json(line.metadata),
                line.timestamp,
                line.changedAt,
            )
            for line in said
        ),
    )
