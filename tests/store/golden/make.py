"""Print a small database of today's schema as SQL, the same text every time.

A released schema keeps its file for ever: `tests/store/test_golden.py` opens it with the code of the day.
"""

import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from routing.keys import PeerKind, SessionKey
from routing.messages import Address, Addressed, Attachment, AttachmentKind, Inbound, Quote, Sender
from store import (
    accounts,
    agent_processes,
    agent_sessions,
    compactions,
    inbox,
    messages,
    outbox,
    overheard,
    pairings,
    people,
    pins,
    places,
    questions,
    refusals,
    repos,
    sessions,
    spending,
    turns,
)
from store.about import About
from store.content import Plan, Text, Tool
from store.inbox import Arrival
from store.outbox import Draft
from store.overheard import Line
from store.people import Configured
from store.questions import Choice, Decision, NewQuestion, QuestionState
from store.records import NewMessage, OutboxKind, OutboxState, Role, Session, Turn, Usage
from store.spending import Amount, Outlay
from store.turns import Ending, Instruction
from tests.store.helpers import in_memory

#: 2100-01-01. Later than any clock, so that no trigger takes the time from one.
NOW = 4_102_444_800_000_000

KEY = SessionKey("main", "telegram", "bot", PeerKind.GROUP, "-100")
ADDRESS = Address(channel="telegram", account="bot", chat="-100", thread="7", reply_to="41")

#: What `iterdump` says of the full-text index: tables that SQLite makes and fills by itself.
_OF_INDEX = re.compile(
    r"""(?:CREATE TABLE '|INSERT INTO ")search(?:_data|_idx|_config)?['"]"""
    r"|INSERT INTO sqlite_master|PRAGMA writable_schema"
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def fill(db: sqlite3.Connection) -> None:
    """One session with two turns, one answered and one failed; one message that waits; three deliveries."""
    people.sync(db, [Configured(name="ada", owner=True, identities={"telegram": "1001"})], NOW)
    person = people.meet(db, "telegram", "1001", "Ada", NOW)

    def ask(number: int, text: str) -> Arrival:
        return Arrival(
            external_id=f"bot:{number}",
            key=KEY,
            address=ADDRESS,
            text=text,
            person=person.id,
            sender_name="Ada",
        )

    def begin(number: int, text: str, now: int) -> Turn:
        item = inbox.accept(db, ask(number, text), now).item
        user = NewMessage(role=Role.USER, content=Text(text), public_id=item.message_id, metadata={"sender": "Ada"})
        instruction = Instruction(messages=(user,), summary=text, created_by=person.id)
        return turns.begin(db, KEY.agent_id, [item], instruction, now)[1]

    first = begin(1, "What is it? 😀", NOW + 1_000)
    turns.progress(db, first.id, None, Role.SYSTEM, Plan(({"content": "look", "status": "completed"},)), NOW + 2_000)
    turns.progress(db, first.id, None, Role.SYSTEM, Tool("grep", {"for": "it"}, {"found": 1}), NOW + 3_000)
    answer = NewMessage(
        role=Role.AGENT,
        content=Text("It's a\n'golden' database.", partial=False),
        tool_calls=[{"id": "call-1", "name": "grep"}],
        tool_call_id="call-1",
        token_count=9,
    )
    usage = Usage(input=120, output=9, source="provider")
    ending = Ending(answer_summary="A database", warnings=("slow",), model="small-1", usage=usage)
    turns.complete(db, first.id, None, answer, ending, NOW + 4_000)
    final = Draft(address=ADDRESS, text="It's a\n'golden' database.", turn=first.id)
    outbox.put_answer(db, final, OutboxState.READY, NOW + 4_000)
    claimed = outbox.claim(db, ADDRESS.place, NOW + 5_000)
    if claimed is not None:
        outbox.sent(db, claimed.id, "42", NOW + 5_000)
    compactions.record(
        db, first.session, strategy="summary", through_seq=2, summary="They met.", tokens=(120, 30), now=NOW + 6_000
    )

    second = begin(2, "And now?", NOW + 7_000)
    turns.fail(db, second.id, "The agent stopped.", Ending(errors=("agent_failed",)), NOW + 8_000)
    notice = Draft(address=ADDRESS, text="The agent stopped.", turn=second.id)
    parked = outbox.put(db, notice, OutboxState.READY, NOW + 8_000)
    outbox.park(db, parked, "chat not found", NOW + 9_000)

    inbox.accept(db, ask(3, "Hello?"), NOW + 10_000)
    outbox.put(db, Draft(address=ADDRESS, text="A moment."), OutboxState.READY, NOW + 10_000)
    places.set_alias(db, "telegram", "bot", "-5", "-100", NOW + 11_000)
    stranger = Inbound(
        external_id="bot:4",
        address=ADDRESS,
        peer_kind=PeerKind.GROUP,
        sender=Sender(id="666"),
        text="spam",
        addressed=Addressed.MENTION,
    )
    refusals.record(db, stranger, "unknown_sender", NOW + 12_000)
    _fill_platforms(db, stranger, person.id)
    _fill_models(db, person.id)
    _fill_compaction(db, sessions.by_number(db, 2))
    _fill_questions(db, first.id, person.id)
    _fill_repos(db)
    _fill_processes(db, sessions.by_number(db, 2))


def _fill_platforms(db: sqlite3.Connection, stranger: Inbound, person: int) -> None:
    """What came with the third step: a thought in two messages, a pairing, a hold, and what an account remembers."""
    picture = Attachment(kind=AttachmentKind.IMAGE, ref="file-1", name="../cat.png", mime="image/png", size=77)
    about = About(user="1001", attachments=(picture,), quote=Quote(text="Look", sender=Sender(id="7", name="Eve")))
    thread = replace(ADDRESS, thread="8")
    key = SessionKey(KEY.agent_id, KEY.channel, KEY.account_id, KEY.peer_kind, "-100/8")
    for number, text in ((5, "What is"), (6, "on it?")):
        arrival = Arrival(
            external_id=f"bot:{number}",
            key=key,
            address=thread,
            text=text,
            person=person,
            about=about,
            open_until=NOW + 14_000,
        )
        inbox.accept(db, arrival, NOW + 13_000)
    pairings.ask(db, replace(stranger, peer_kind=PeerKind.DM), "ABCD2345", NOW + 13_000)
    overheard.note(db, KEY, Line("telegram:7", "Eve", "not for you"), 10, NOW + 13_000)
    accounts.remember(db, "telegram", "bot", "menu", "v1")
    accounts.saw(db, "telegram", "bot", "-100", "41")
    accounts.choose(db, ADDRESS, "main")
    outbox.hold(db, ADDRESS.place, NOW + 60_000_000)
    export = Draft(address=thread, text="# All of it", kind=OutboxKind.NOTICE, filename="conversation.md")
    outbox.park(db, outbox.put(db, export, OutboxState.READY, NOW + 13_000), "blocked", NOW + 14_000, blocked=True)


def _fill_questions(db: sqlite3.Connection, turn: int, person: int) -> None:
    """What came with the sixth step: a question that was decided, one that waits, and a chat that wants thoughts."""
    new = NewQuestion(
        token="golden-1",
        turn=turn,
        asker=person,
        answerers=("bea", "telegram:7"),
        text="May I?",
        options=(Choice("yes", "Yes", "allow_once"), Choice("no", "No", "reject_once")),
        expires_at=NOW + 600_000_000,
    )
    decided = questions.ask(db, new, NOW + 20_000)
    draft = Draft(address=replace(ADDRESS, thread="9"), text="May I?", kind=OutboxKind.NOTICE)
    questions.attach(db, decided.id, outbox.put(db, draft, OutboxState.SENT, NOW + 20_000))
    chosen = Decision(state=QuestionState.CHOSEN, outcome="Yes, by ada.", chosen="yes", by=person)
    questions.decide(db, decided.id, chosen, NOW + 21_000)
    questions.ask(db, replace(new, token="golden-2"), NOW + 22_000)
    questions.set_thoughts(db, ADDRESS.place, wanted=True)


def _fill_processes(db: sqlite3.Connection, session: Session) -> None:
    """What came with the eighth step: what an agent calls a session, and a process that runs for it."""
    name, cwd = "agent's own", "/srv/repositories/website"
    agent_sessions.remember(db, session.public_id, "model", name, cwd, NOW + 50_000)
    agent_processes.take(db, "f00d", session.public_id, "model", NOW + 51_000)
    agent_processes.name(db, "f00d", 4711, 815)


def _fill_models(db: sqlite3.Connection, person: int) -> None:
    """What came with the fourth step: an answer with all that a provider tells, a turn that holds back, a budget."""
    session = sessions.create(db, SessionKey("model", "discord", "other", PeerKind.GROUP, "-200"), NOW + 20_000)

    def ask(text: str, now: int, **held: int) -> Turn:
        instruction = Instruction(
            messages=(NewMessage(role=Role.USER, content=Text(text)),),
            summary=text,
            created_by=person,
            chat="discord:-200",
            reserved_tokens=held.get("tokens"),
            reserved_cost=held.get("cost"),
        )
        return turns.add(db, session.id, instruction, now)

    first = ask("How much?", NOW + 21_000, tokens=2_000, cost=900)
    ending = Ending(
        answer_summary="That much",
        model="large-1",
        usage=Usage(input=700, cached=300, output=40, reasoning=160, source="provider"),
        cost=1_234,
        response_id="resp_2",
        previous_response_id="resp_1",
        chain_expires_at=NOW + 86_400_000_000,
    )
    answer = NewMessage(role=Role.AGENT, content=Text("That much.", partial=False), token_count=40)
    turns.complete(db, first.id, None, answer, ending, NOW + 22_000)
    ask("And more?", NOW + 23_000, tokens=3_000)
    spending.allow(db, "everybody", "person=x", Amount(tokens=500, cost=70), NOW + 24_000)
    spending.warn_once(db, "everybody", "person=x", NOW)


def _fill_compaction(db: sqlite3.Connection, session: Session) -> None:
    """What came with the fifth step: a pinned message, and a compaction of each kind."""
    pins.put(db, messages.between(db, session.id, 1, 1)[0], NOW + 25_000)
    for number, strategy in enumerate(("summary", "trim_tools", "window")):
        compactions.record(
            db,
            session.id,
            strategy=strategy,
            through_seq=2,
            summary="" if strategy == "trim_tools" else f"By {strategy}.",
            tokens=(100 - number, 50),
            now=NOW + 26_000 + number * 1_000,
        )
    used = Usage(input=50, cached=20, output=5, reasoning=4, source="provider")
    spending.spend(db, session.id, Outlay(model="small-1", usage=used, cost=12), NOW + 29_000)


def _fill_repos(db: sqlite3.Connection) -> None:
    """What came with the repositories: one of each state, and a session that is bound."""
    for name in ("group/project", "old", "private"):
        repos.add(db, name, Path("/srv/repositories", name), NOW + 30_000)
    repos.remove(db, "private")
    repos.record(db, {Path("/srv/repositories/group/project"): "group/project"}, NOW + 31_000)
    session = sessions.create(db, SessionKey("coder", "api", "owner", PeerKind.DM, "bound"), NOW + 32_000)
    sessions.bind(db, session.id, repos.find(db, "group/project").public_id)


def dump() -> str:
    """The database as SQL; ids that are new every time become numbers in the order in which they appear."""
    with closing(in_memory()) as db:
        fill(db)
        db.execute("UPDATE _sqlite_migrations SET applied_at = '2100-01-01 00:00:00'")
        text = "\n".join(_statements(db)) + "\n"
    numbers: dict[str, str] = {}
    return _UUID.sub(lambda found: numbers.setdefault(found[0], _numbered(len(numbers) + 1)), text)


def _statements(db: sqlite3.Connection) -> Iterator[str]:
    """The whole database, with the index made anew at the end: its own tables cannot be written."""
    for statement in db.iterdump():
        if statement == "COMMIT;":
            yield from (f"{sql};" for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE name = 'search'"))
            yield "INSERT INTO search (search) VALUES ('rebuild');"
        if not _OF_INDEX.match(statement):
            yield statement


def _numbered(number: int) -> str:
    return f"00000000-0000-7000-8000-{number:012}"


if __name__ == "__main__":
    sys.stdout.write(dump())
