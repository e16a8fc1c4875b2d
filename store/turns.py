"""Turns: pending, then completed or failed, once. Each function is one transaction's worth of a turn's life."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace

from routing.errors import SessionEnded, TurnEnded, TurnRunning, UnknownTurn, WrongAgent
from store import inbox, messages, sessions
from store.content import Content, Json, Text, Tool, clean, to_json
from store.ids import Micros, new_id, pack, seq_of, session_of, span
from store.records import InboxItem, Message, NewMessage, Role, Session, Status, Turn, TurnStatus, Usage

_COLUMNS = (
    "id, public_id, status, mode, conversation_id, created_by, attempts, first_message, last_message,"
    " instruction_summary, answer_summary, model, input_tokens, output_tokens, usage_source, warnings, errors,"
    " created_at, response_received_at, status_at, agent, chat, cached_tokens, reasoning_tokens, cost, response_id,"
    " previous_response_id, chain_expires_at, reserved_tokens, reserved_cost"
)

#: What is said of a tool call while it runs.
_UNDER_WAY = ("pending", "in_progress")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What a person asked, as the turn keeps it; summaries are made above the store."""

    messages: tuple[NewMessage, ...]
    summary: str
    created_by: int | None = None
    mode: str = "ask"
    conversation_id: str | None = None
    model: str | None = None
    warnings: tuple[str, ...] = ()
    #: The group or channel in which it was asked.
    chat: str | None = None
    #: What a budget holds back until the turn has ended.
    reserved_tokens: int | None = None
    reserved_cost: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a turn ended. `answer_summary` is for completed turns only, `errors` for failed ones."""

    answer_summary: str | None = None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    model: str | None = None
    usage: Usage = Usage()
    #: Millionths of a US dollar.
    cost: int | None = None
    response_id: str | None = None
    previous_response_id: str | None = None
    chain_expires_at: Micros | None = None


def begin(
    db: sqlite3.Connection, agent: str, items: Sequence[InboxItem], instruction: Instruction, now: Micros
) -> tuple[Session, Turn]:
    """Find or create the session now, and start a turn for messages that waited."""
    first = items[0]
    if first.session is not None:
        session = sessions.by_number(db, first.session)
        if session.key.agent_id != agent:
            raise WrongAgent(session=session.key, agent=agent)
        if not session.status.live:
            raise SessionEnded(session=session.public_id, status=session.status)
    else:
        session = sessions.get_or_create(db, agent, first.key, now, person=first.person)
    if session.status is not Status.ACTIVE:
        sessions.activate(db, session.id)
    turn = add(db, session.id, instruction, now)
    inbox.start(db, items, turn.id)
    for person, channel, account in {(item.person or 0, item.address.channel, item.address.account) for item in items}:
        db.execute("INSERT OR IGNORE INTO participants VALUES (?, ?, ?, ?)", (session.id, person, channel, account))
    return session, turn


def add(db: sqlite3.Connection, session: int, instruction: Instruction, now: Micros) -> Turn:
    """A new pending turn with the user's messages as its first rows."""
    if db.execute("SELECT 1 FROM turns WHERE session = ? AND status = 'pending'", (session,)).fetchone() is not None:
        raise TurnRunning(session=session)
    count = len(instruction.messages)
    seq, last_seq, when, conversation = sessions.start_turn(db, session, count, now)
    turn = pack(session, seq)
    row = db.execute(
        "INSERT INTO turns (id, public_id, mode, conversation_id, created_by, first_message, last_message,"
        " instruction_summary, model, warnings, created_at, status_at, agent, chat, reserved_tokens, reserved_cost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT agent_id FROM sessions WHERE id = ?), ?, ?, ?)"
        f" RETURNING {_COLUMNS}",
        (
            turn,
            new_id(),
            instruction.mode,
            instruction.conversation_id or conversation,
            instruction.created_by,
            last_seq - count + 1,
            last_seq,
            clean(instruction.summary),
            instruction.model,
            to_json(instruction.warnings),
            when,
            when,
            session,
            None if instruction.chat is None else clean(instruction.chat),
            instruction.reserved_tokens,
            instruction.reserved_cost,
        ),
    ).fetchone()
    messages.insert(db, session, instruction.messages, last_seq, when, turn)
    return _turn(row)


def progress(
    db: sqlite3.Connection,
    turn: int,
    row: int | None,
    role: Role,
    content: Content,
    now: Micros,
    *,
    tool_call_id: str | None = None,
) -> int:
    """Write a message of a running turn: a new row, or the next state of one that grows. Returns the row."""
    require_pending(db, turn)
    session = session_of(turn)
    if row is None:
        new = NewMessage(role=role, content=content, tool_call_id=tool_call_id)
        return messages.append(db, session, [new], now, turn)[0].id
    _, when = sessions.advance(db, session, 0, now)
    messages.replace(db, row, content, when)
    return row


def complete(
    db: sqlite3.Connection, turn: int, row: int | None, answer: NewMessage | None, ending: Ending, now: Micros
) -> Turn:
    """Store the (rest of the) answer, in the row that grew or a new one, and end the turn."""
    before = require_pending(db, turn)
    if answer is None or row is None:
        return _end(db, before, TurnStatus.COMPLETED, ending, [] if answer is None else [answer], now)
    ended = _end(db, before, TurnStatus.COMPLETED, ending, [], now)
    when = ended.status_at
    messages.replace(db, row, answer.content, when, token_count=answer.token_count, metadata=answer.metadata)
    return ended


def fail(db: sqlite3.Connection, turn: int, note: str, ending: Ending, now: Micros) -> Turn:
    """Closed in the history with a system message, so that no later message revives the instruction."""
    before = require_pending(db, turn)
    session = session_of(turn)
    for message in growing(db, turn):
        _, when = sessions.advance(db, session, 0, now)
        text = Text(message.content.text if isinstance(message.content, Text) else "", partial=False)
        messages.replace(db, message.id, text, when, metadata={**message.metadata, "incomplete": True})
    _cancel_calls(db, turn, now)
    boundary = NewMessage(role=Role.SYSTEM, content=Text(note))
    return _end(db, before, TurnStatus.FAILED, ending, [boundary], now)


def _cancel_calls(db: sqlite3.Connection, turn: int, now: Micros) -> None:
    """Nobody will say any more what became of a call that was under way."""
    for row in _rows_of(db, turn):
        call = row.content
        if isinstance(call, Tool) and call.result.get("status") in _UNDER_WAY:
            _, when = sessions.advance(db, session_of(turn), 0, now)
            ended = replace(call, result={**call.result, "status": "cancelled"})
            messages.replace(db, row.id, ended, when, metadata=row.metadata)


def growing(db: sqlite3.Connection, turn: int) -> list[Message]:
    """The rows of a turn whose text is still partial."""
    return [row for row in _rows_of(db, turn) if isinstance(row.content, Text) and row.content.partial]


def _rows_of(db: sqlite3.Connection, turn: int) -> list[Message]:
    found = get(db, turn)
    session = sessions.by_number(db, found.session)
    rows = messages.between(db, found.session, found.first_message, session.last_seq)
    return [row for row in rows if row.turn == turn]


def start_again(db: sqlite3.Connection, turn: int) -> Turn:
    """The same pending turn runs once more; the attempt is counted before it begins."""
    before = require_pending(db, turn)
    db.execute("UPDATE turns SET attempts = attempts + 1 WHERE id = ?", (turn,))
    _supersede(db, before)
    return get(db, turn)


def _supersede(db: sqlite3.Connection, turn: Turn) -> None:
    """What a lost attempt had finished is said again by the next one: it stays, and counts no more."""
    session = sessions.by_number(db, turn.session)
    for row in messages.between(db, turn.session, turn.last_message + 1, session.last_seq):
        if row.turn == turn.id and not (isinstance(row.content, Text) and row.content.partial):
            _, when = sessions.advance(db, turn.session, 0, turn.created_at)
            messages.replace(db, row.id, row.content, when, metadata={**row.metadata, "superseded": True})


def forgive(db: sqlite3.Connection, turn: int) -> None:
    """The daemon stopped on purpose in the middle of this attempt: it does not count as a crash."""
    db.execute("UPDATE turns SET attempts = attempts - 1 WHERE id = ? AND status = 'pending'", (turn,))


def pending(db: sqlite3.Connection) -> list[Turn]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE status = 'pending'").fetchall()
    return [_turn(row) for row in rows]


def pending_of(db: sqlite3.Connection, session: int) -> Turn | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE session = ? AND status = 'pending'", (session,)).fetchone()
    return None if row is None else _turn(row)


def get(db: sqlite3.Connection, turn: int) -> Turn:
    row = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE id = ?", (turn,)).fetchone()
    if row is None:
        raise UnknownTurn(turn=turn)
    return _turn(row)


def by_seq(db: sqlite3.Connection, session: int, seq: int) -> Turn | None:
    row = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE id = ?", (pack(session, seq),)).fetchone()
    return None if row is None else _turn(row)


def said(db: sqlite3.Connection, turn: int) -> list[Message]:
    """What the agent wrote in a turn that runs, in this attempt."""
    found = get(db, turn)
    session = sessions.by_number(db, found.session)
    rows = messages.between(db, found.session, found.last_message + 1, session.last_seq)
    return [row for row in rows if row.turn == turn and row.role is Role.AGENT and not row.superseded]


def reported(db: sqlite3.Connection, whose: str, model: str, limit: int) -> list[Turn]:
    """The newest answers of a model whose tokens its provider counted, among an agent's last turns."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM (SELECT * FROM turns INDEXED BY turns_by_agent WHERE agent = ?"
        " ORDER BY created_at DESC LIMIT 100) WHERE model = ? AND usage_source = 'provider' AND status = 'completed'"
        " AND output_tokens > 0 LIMIT ?",
        (whose, model, limit),
    ).fetchall()
    return [_turn(row) for row in rows]


def find(db: sqlite3.Connection, session: int, name: str) -> Turn:
    """A turn of a session by its public id, its sequence number, or `last`."""
    first, last = span(session)
    if name == "last":
        where, value = "id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1", (first, last)
    elif name.isascii() and name.isdigit() and len(name) < 10:
        where, value = "id = ? AND session = ?", (pack(session, int(name)), session)
    else:
        row = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE public_id = ?", (name,)).fetchone()
        if row is None or session_of(row[0]) != session:
            raise UnknownTurn(turn=name)
        return _turn(row)
    row = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE {where}", value).fetchone()
    if row is None:
        raise UnknownTurn(turn=name)
    return _turn(row)


def of_session(db: sqlite3.Connection, session: int) -> list[Turn]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM turns WHERE id BETWEEN ? AND ? ORDER BY id", span(session))
    return [_turn(row) for row in rows.fetchall()]


def changed_since(db: sqlite3.Connection, session: int, since: Micros, newest: int = 50) -> list[Turn]:
    """Those of the newest turns that began or ended after `since`."""
    rows = db.execute(
        f"SELECT {_COLUMNS} FROM turns WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?", (*span(session), newest)
    ).fetchall()
    return [turn for row in reversed(rows) if (turn := _turn(row)).status_at > since]


def require_pending(db: sqlite3.Connection, turn: int) -> Turn:
    found = get(db, turn)
    if found.status is not TurnStatus.PENDING:
        raise TurnEnded(turn=found.seq, status=found.status)
    return found


def _end(
    db: sqlite3.Connection,
    before: Turn,
    status: TurnStatus,
    ending: Ending,
    last: Sequence[NewMessage],
    now: Micros,
) -> Turn:
    """The turn's last messages, its tokens and its status, at one moment."""
    ending = _counted_once(db, before, ending)
    usage = ending.usage
    answer = ending.answer_summary if status is TurnStatus.COMPLETED else None
    last_seq, when = sessions.close_turn(db, before.session, len(last), usage, ending.model, now)
    messages.insert(db, before.session, last, last_seq, when, before.id)
    row = db.execute(
        "UPDATE turns SET status = ?, answer_summary = ?, model = coalesce(?, model), input_tokens = ?,"
        " output_tokens = ?, cached_tokens = ?, reasoning_tokens = ?, usage_source = ?, cost = ?, response_id = ?,"
        " previous_response_id = ?, chain_expires_at = ?, warnings = ?, errors = ?, last_message = ?,"
        f" response_received_at = ?, status_at = ? WHERE id = ? RETURNING {_COLUMNS}",
        (
            status,
            None if answer is None else clean(answer),
            ending.model,
            usage.input,
            usage.output,
            usage.cached,
            usage.reasoning,
            usage.source,
            ending.cost,
            ending.response_id,
            ending.previous_response_id,
            ending.chain_expires_at,
            to_json(before.warnings + ending.warnings),
            to_json(before.errors + ending.errors),
            last_seq,
            when,
            when,
            before.id,
        ),
    ).fetchone()
    inbox.finish(db, before.id)
    return _turn(row)


def _counted_once(db: sqlite3.Connection, before: Turn, ending: Ending) -> Ending:
    """A report that came with an earlier turn of the session already costs nothing more.

    The id alone is no proof: some servers draw theirs from a thousand numbers. The same one with the same counts is.
    """
    usage = ending.usage
    if ending.response_id is None or usage.source != "provider":
        return ending
    again = db.execute(
        "SELECT 1 FROM turns WHERE response_id = ? AND id >> 32 = ? AND id <> ? AND status <> 'pending'"
        " AND (input_tokens, cached_tokens, output_tokens, reasoning_tokens) IS (?, ?, ?, ?)",
        (ending.response_id, before.session, before.id, usage.input, usage.cached, usage.output, usage.reasoning),
    ).fetchone()
    if again is None:
        return ending
    return replace(ending, usage=Usage(input=0, output=0, source=usage.source), cost=0)


def _turn(row: tuple[Json, ...]) -> Turn:
    return Turn(
        id=row[0],
        public_id=row[1],
        session=session_of(row[0]),
        seq=seq_of(row[0]),
        status=TurnStatus(row[2]),
        mode=row[3],
        conversation_id=row[4],
        created_by=row[5],
        attempts=row[6],
        first_message=row[7],
        last_message=row[8],
        instruction_summary=row[9],
        answer_summary=row[10],
        model=row[11],
        usage=Usage(input=row[12], cached=row[22], output=row[13], reasoning=row[23], source=row[14]),
        warnings=_list(row[15]),
        errors=_list(row[16]),
        created_at=row[17],
        response_received_at=row[18],
        status_at=row[19],
        agent=row[20],
        chat=row[21],
        cost=row[24],
        response_id=row[25],
        previous_response_id=row[26],
        chain_expires_at=row[27],
        reserved_tokens=row[28],
        reserved_cost=row[29],
    )


def _list(stored: str) -> tuple[str, ...]:
    return () if stored == "[]" else tuple(json.loads(stored))
