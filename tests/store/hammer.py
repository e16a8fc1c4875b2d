"""A program to be killed: 16 callers append messages and print the id of each one as soon as it is stored."""

import asyncio
import os
import sqlite3
import sys
from functools import partial
from pathlib import Path

from routing.keys import PeerKind, SessionKey
from store import messages, sessions
from store.content import Text
from store.database import Store
from store.ids import new_id, now
from store.records import NewMessage, Role

KEY = SessionKey("main", "memory", "test", PeerKind.GROUP, "hammered")


def append(db: sqlite3.Connection, public_id: str) -> None:
    session = sessions.get_or_create(db, KEY.agent_id, KEY, now())
    messages.append(db, session.id, [NewMessage(role=Role.USER, content=Text("hit"), public_id=public_id)], now())


async def main(data_dir: Path) -> None:
    store = await Store.open(data_dir)

    async def caller() -> None:
        while True:
            public_id = new_id()
            await store.write(partial(append, public_id=public_id))
            os.write(1, f"{public_id}\n".encode())

    await asyncio.gather(*(caller() for _ in range(16)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
