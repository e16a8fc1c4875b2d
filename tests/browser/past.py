"""What was said before a test begins: written by the store's own functions while the daemon is down."""

from collections.abc import Callable
from pathlib import Path

from routing.keys import PeerKind, SessionKey
from store import messages, migrations, sessions, turns
from store.content import Content, Plan, Text, Tool
from store.database import Database, on_file, prepare
from store.ids import Micros, now
from store.records import NewMessage, Role, Session, Usage
from store.turns import Ending, Instruction
from tests.browser.surfing import Served


def remember(daemon: Served, work: Callable[[Database], Session]) -> str:
    """Do it in one transaction on the daemon's database; returns the session's public id."""

    def whole(db: Database, path: Path) -> str:
        migrations.migrate(db, path)
        db.execute("BEGIN")
        session = work(db)
        db.execute("COMMIT")
        return session.public_id

    return on_file(prepare(daemon.directory / "data"), whole)


def begin(db: Database, name: str, agent: str = "main", when: Micros | None = None) -> Session:
    return sessions.create(db, SessionKey(agent, "api", "owner", PeerKind.DM, name), when or now())


def long(daemon: Served, count: int) -> str:
    """A session of many short messages, some of several lines."""

    def work(db: Database) -> Session:
        session = begin(db, "long")
        rows = [
            NewMessage(
                role=Role.USER if number % 2 else Role.AGENT,
                content=Text(f"Message {number}. " + "and more words " * (number % 30)),
            )
            for number in range(1, count + 1)
        ]
        messages.append(db, session.id, rows, now())
        return session

    return remember(daemon, work)


def turn(
    db: Database,
    session: Session,
    asked: str,
    *answer: Content,
    model: str = "builtin",
    when: Micros | None = None,
) -> None:
    """A whole turn: what was asked, and plans, tool calls and texts in answer to it."""
    when = when or now()
    question = Instruction(messages=(NewMessage(role=Role.USER, content=Text(asked)),), summary=asked, model=model)
    row = turns.add(db, session.id, question, when)
    *steps, last = answer
    for step in steps:
        role = Role.AGENT if isinstance(step, Text) else Role.SYSTEM
        turns.progress(db, row.id, None, role, step, when)
    final = NewMessage(role=Role.AGENT, content=last)
    summary = last.text if isinstance(last, Text) else ""
    ending = Ending(answer_summary=summary, model=model, usage=Usage(input=412, output=268, source="provider"))
    turns.complete(db, row.id, None, final, ending, when)


def tool(name: str, result: str, **args: str) -> Tool:
    return Tool(name, args, {"output": result})


def plan(*steps: tuple[str, str]) -> Plan:
    return Plan(tuple({"content": content, "status": status} for content, status in steps))


def titled(db: Database, session: Session, title: str) -> Session:
    return sessions.patch(db, session.key.agent_id, session.key, sessions.SessionPatch(title=title))
