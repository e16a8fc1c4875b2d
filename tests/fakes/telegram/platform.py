"""Everything there is on the platform, and the ways of a test to change it and to wait for changes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from tests.fakes.telegram.world import Bot, Chat, Json, Message, User

#: Far more than anything here takes; it only keeps a broken test from hanging.
PATIENCE = 20.0


class Platform:
    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        self._bots: list[Bot] = []
        self._chats: list[Chat] = []
        self._numbers = itertools.count(1)
        self._changed = asyncio.Event()

    def bot(self, username: str = "trunk_bot", *, token: str | None = None, first_update: int = 1000) -> Bot:
        number = int(token.partition(":")[0]) if token else 5_000_000 + next(self._numbers)
        token = token or f"{number}:{username:-<35.35}"
        bot = Bot(User(number, username.title(), username, is_bot=True), token, self.poke, first_update)
        self._bots.append(bot)
        return bot

    def user(self, name: str = "Alice", **more: Any) -> User:
        return User(more.pop("id", 1000 + next(self._numbers)), name, **more)

    def dm(self, bot: Bot, user: User) -> Chat:
        for chat in self._chats:
            if chat.person == user and bot in chat.bots:
                return chat
        return self._add(Chat(user.id, "private", "", [bot], person=user))

    def group(self, *bots: Bot, title: str = "Team", type: str = "supergroup", forum: bool = False) -> Chat:
        """Also a basic group or a channel, by `type`."""
        number = next(self._numbers)
        chat_id = -4_000_000 - number if type == "group" else -1_001_000_000_000 - number
        return self._add(Chat(chat_id, type, title, list(bots), forum=forum))

    def migrate(self, old: Chat) -> Chat:
        """A basic group becomes a supergroup; both chats say so."""
        new = self.group(*old.bots, title=old.title)
        old.post(migrate_to_chat_id=new.id)
        new.post(migrate_from_chat_id=old.id)
        old.moved_to = new.id
        return new

    def file(self, name: str, data: bytes) -> Json:
        """Put a file on the server; the fields that every kind of file has."""
        file_id = f"file{next(self._numbers)}"
        self.files[file_id] = (f"documents/{file_id}-{name}", data)
        return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data)}

    def album(self, chat: Chat, user: User | None = None, *captions: str | None) -> list[Message]:
        """Photos sent together."""
        group = f"album{next(self._numbers)}"
        sizes = [{**self.file("a.jpg", b"jpg"), "width": 90, "height": 90}]
        fields: list[Json] = [{"caption": one} if one else {} for one in captions]
        return [chat.post(user, photo=sizes, media_group_id=group, **one) for one in fields]

    def find_chat(self, bot: Bot, chat_id: int) -> Chat | None:
        return next((chat for chat in self._chats if chat.id == chat_id and bot in chat.bots), None)

    def poke(self) -> None:
        """Something changed: wake everybody who waits for it."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def change(self) -> None:
        await self._changed.wait()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.change()

    def find_bot(self, token: str) -> Bot | None:
        return next((bot for bot in self._bots if bot.token == token), None)

    def _add(self, chat: Chat) -> Chat:
        self._chats.append(chat)
        return chat
