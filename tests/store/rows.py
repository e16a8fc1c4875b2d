"""What the tests of the store's functions share: the writer's way to run one operation, and short builders."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from routing.keys import PeerKind, SessionKey
from routing.messages import Address
from store import inbox, migrations, turns
from store.content import Text
from store.records import InboxItem, Message, NewMessage, Role, Session, Turn

P = ParamSpec("P")
T = TypeVar("T")


def connect(where: Path | str = ":memory:") -> sqlite3.Connection:
    """A connection as the writer's, in autocommit mode; without fsync, on which no test here depends."""
    db = sqlite3.connect(where, isolation_level=None, cached_statements=256)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA synchronous = OFF")
    return db


@cache
def image() -> bytes:
    """A migrated, empty database, made once."""
    db = connect()
    migrations.migrate(db, Path("unused"))
    data = db.serialize()
    db.close()
    return data


@contextmanager
def fresh() -> Iterator[sqlite3.Connection]:
    """A database of its own for each example of a property test."""
    db = connect()
    db.deserialize(image())
    try:
        yield db
    finally:
        db.close()


def run(
    db: sqlite3.Connection,
    operation: Callable[Concatenate[sqlite3.Connection, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """One operation as the writer runs it: a savepoint inside a transaction; undone alone if it raises."""
    db.execute("BEGIN IMMEDIATE")
    db.execute("SAVEPOINT operation")
    try:
        return operation(db, *args, **kwargs)
    except BaseException:
        db.execute("ROLLBACK TO operation")
        raise
    finally:
        db.execute("RELEASE operation")
        db.execute("COMMIT")


def dump(db: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""
    return {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in tables(db)}


def tables(db: sqlite3.Connection) -> list[str]:
    """The tables that hold rows of their own."""
    rows = db.execute(
        "SELECT name FROM sqlite_master"
        " WHERE type = 'table' AND name <> 'sqlite_sequence' AND sql NOT LIKE '%VIRTUAL TABLE%'"
    ).fetchall()
    return [name for (name,) in rows]


def count(db: sqlite3.Connection, table: str, where: str = "1") -> int:
    return int(db.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[0])


def make_key(agent: str = "ada", peer: str = "1", kind: PeerKind = PeerKind.GROUP) -> SessionKey:
    return SessionKey(agent, "telegram", "main", kind, peer)


def make_address(chat: str = "1", **more: str) -> Address:
    return Address(channel="telegram", account="main", chat=chat, **more)


def say(text: str, role: Role = Role.USER) -> NewMessage:
    return NewMessage(role=role, content=Text(text))


def ask(text: str = "question", **more: Any) -> turns.Instruction:
    return turns.Instruction(messages=(say(text),), summary=text, **more)


def text_of(message: Message) -> str:
    assert isinstance(message.content, Text)
    return message.content.text


def arrive(
    db: sqlite3.Connection, external_id: str, key: SessionKey | None = None, *, now: int = 10, **more: Any
) -> InboxItem:
    """Accept one message; its text is its external id unless another is given."""
    fields = {"text": external_id, "address": make_address(), "key": key or make_key(), **more}
    return run(db, inbox.accept, inbox.Arrival(external_id=external_id, **fields), now).item


def begin(db: sqlite3.Connection, *items: InboxItem, now: int = 20) -> tuple[Session, Turn]:
    """Start the turn of some waiting messages, as the lane does."""
    return run(db, turns.begin, items[0].key.agent_id, items, instruct(*items), now)


def instruct(*items: InboxItem) -> turns.Instruction:
    return turns.Instruction(
        messages=tuple(NewMessage(role=Role.USER, content=Text(i.text), public_id=i.message_id) for i in items),
        summary=items[0].text,
        created_by=items[0].person,
    )
