"""What commands tell about a conversation. Everything is asked by the key of the message that asks."""

from __future__ import annotations

from datetime import UTC, datetime

from gateway import phrases
from routing.access import Reason
from routing.errors import UnknownTurn
from routing.keys import PeerKind, SessionKey
from routing.messages import Address, Inbound
from store import inbox, messages, refusals, sessions, turns
from store.content import Text
from store.database import Database
from store.filters import Order
from store.ids import Micros, to_datetime
from store.messages import HistoryOptions
from store.people import PersonRow
from store.records import Message, Role, Session, Turn, TurnStatus
from store.sessions import SessionFilter

_SHOWN = 10
_LINE = 160


def status(db: Database, key: SessionKey) -> str:
    session = sessions.live(db, key)
    waiting = inbox.waiting_count(db, key)
    count = 0 if session is None else session.message_count
    running = session is not None and turns.pending_of(db, session.id) is not None
    text = phrases.STATUS.format(agent=key.agent_id, messages=count, waiting=waiting)
    return f"{text} {phrases.STATUS_RUNNING if running else phrases.STATUS_IDLE}"


def history(db: Database, key: SessionKey) -> str:
    session = sessions.live(db, key)
    if session is None or not session.message_count:
        return phrases.NO_HISTORY
    said = [row for row in messages.page(db, session.id, HistoryOptions(limit=3 * _SHOWN)) if _counts(row)]
    lines = [f"{phrases.SPEAKERS[row.role]}: {_line(_text(row))}" for row in said[-_SHOWN:]]
    return "\n\n".join([phrases.HISTORY.format(count=session.message_count), *lines])


def conversations(db: Database, key: SessionKey, person: PersonRow, now: Micros) -> str:
    """In a direct chat a person's own ones, in a group those of this group; never anybody else's."""
    if key.peer_kind is PeerKind.DM:
        which = SessionFilter(agent_id=key.agent_id, peer_kind=PeerKind.DM, person=person.public_id)
    else:
        which = SessionFilter(
            agent_id=key.agent_id,
            channel=key.channel,
            account_id=key.account_id,
            peer_kind=key.peer_kind,
            peer_id=key.peer_id,
        )
    found, total = sessions.list_all(db, which, _SHOWN, 0, order=Order.UPDATED)
    if not found:
        return phrases.NO_SESSIONS
    return "\n".join([phrases.SESSIONS.format(total=total), *(_session_line(one, now) for one in found)])


def transcript(db: Database, key: SessionKey) -> str | None:
    """The whole conversation as a document; None if there is none."""
    session = sessions.live(db, key)
    if session is None or not session.message_count:
        return None
    said = [row for row in messages.every(db, session.id) if _counts(row)]
    title = session.title or phrases.UNTITLED
    blocks = [f"**{phrases.SPEAKERS[row.role]}** · {_when(row.timestamp)}\n\n{_text(row)}" for row in said]
    return "\n\n---\n\n".join([f"# {title}", *blocks]) + "\n"


def why(db: Database, address: Address, key: SessionKey, matched_by: str, now: Micros) -> str:
    """Why the newest unanswered message of this chat was not answered, and who answers here."""
    here = phrases.WHY_HERE.format(agent=key.agent_id, matched_by=matched_by)
    refused = refusals.newest_at(db, address)
    if refused is None:
        return f"{here} {phrases.WHY_NOTHING}"
    minutes = max(0, (now - refused.at) // 60_000_000)
    reason = Reason(refused.reason)
    return f"{here} {phrases.WHY_REFUSED.format(minutes=minutes, sentence=reason.sentence, reason=reason)}"


def whoami(message: Inbound, person: PersonRow, *, known: bool) -> str:
    """Ids as the configuration takes them: of the person, and of the chat for `groups` and bindings."""
    role = "owner" if person.owner else "known" if known else "unknown"
    user = f"{message.address.channel}:{message.sender.id}"
    address = message.address
    chat = address.chat if address.thread is None else f"{address.chat}, thread {address.thread}"
    return phrases.WHOAMI.format(user=user, role=phrases.ROLES[role], chat=chat)


def last_turn(db: Database, key: SessionKey) -> Turn | None:
    session = sessions.live(db, key)
    if session is None:
        return None
    try:
        return turns.find(db, session.id, "last")
    except UnknownTurn:
        return None


def instruction(db: Database, turn: Turn) -> str:
    rows = messages.between(db, turn.session, turn.first_message, turn.last_message)
    return "\n".join(_text(row) for row in rows if row.role is Role.USER)


def last_answer(db: Database, key: SessionKey) -> str | None:
    """What the newest completed turn said."""
    session = sessions.live(db, key)
    newest = [] if session is None else reversed(turns.of_session(db, session.id))
    done = next((turn for turn in newest if turn.status is TurnStatus.COMPLETED), None)
    if done is None:
        return None
    rows = messages.between(db, done.session, done.first_message, done.last_message)
    return "\n\n".join(_text(row) for row in rows if row.role is Role.AGENT and _counts(row))


def _text(row: Message) -> str:
    return row.content.text.strip() if isinstance(row.content, Text) else ""


def _counts(row: Message) -> bool:
    return bool(_text(row)) and not row.superseded


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


def _session_line(session: Session, now: Micros) -> str:
    title = _line(session.title or phrases.UNTITLED)
    age = _when(session.updated_at)
    return f"- {title} · {session.status} · {session.message_count} · {age}"


def _when(micros: Micros) -> str:
    moment: datetime = to_datetime(micros).astimezone(UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")
