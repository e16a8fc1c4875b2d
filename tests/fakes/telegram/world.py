"""Who and what there is: people, bots, chats and what was said in them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.telegram.entities import Entity, detect

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class User:
    id: int
    name: str
    username: str | None = None
    is_bot: bool = False

    def json(self) -> Json:
        found: Json = {"id": self.id, "is_bot": self.is_bot, "first_name": self.name}
        return found | ({"username": self.username} if self.username else {})


#: Stand in as `from` where the real sender is a chat.
ANONYMOUS_ADMIN = User(1087968824, "Group", "GroupAnonymousBot", is_bot=True)
CHANNEL_BOT = User(136817688, "Channel", "Channel_Bot", is_bot=True)
TELEGRAM = User(777000, "Telegram")


@dataclass(slots=True)
class Message:
    """One message as the platform has it; a bot's has its versions, each with its time."""

    id: int
    data: Json
    bot: Bot | None = None
    versions: list[tuple[float, str]] = field(default_factory=list)
    #: What a sent document held.
    file: bytes | None = None

    @property
    def text(self) -> str:
        return str(self.data.get("text", self.data.get("caption", "")))

    @property
    def entities(self) -> list[Entity]:
        found: list[Entity] = self.data.get("entities", [])
        return found

    @property
    def buttons(self) -> list[Json]:
        """From top to bottom."""
        rows = self.data.get("reply_markup", {}).get("inline_keyboard", [])
        return [button for row in rows for button in row]

    @property
    def thread(self) -> int | None:
        return self.data.get("message_thread_id")

    @property
    def reply_to(self) -> int | None:
        answered = self.data.get("reply_to_message")
        return answered["message_id"] if answered else None


@dataclass(eq=False, slots=True)
class Bot:
    """One account: its token, and the updates that nobody confirmed yet."""

    user: User
    token: str
    poke: Callable[[], None]
    next_update: int = 1
    updates: list[Json] = field(default_factory=list)
    #: Ids that a poll's offset confirmed, in order.
    confirmed: list[int] = field(default_factory=list)
    allowed: frozenset[str] | None = None
    webhook: str = ""
    commands: list[Json] = field(default_factory=list)
    #: The number of the poll that holds the line, how many wait now, and how often one ended another.
    poll: int = 0
    polling: int = 0
    conflicts: int = 0
    #: Presses of buttons by id, and what each was answered: the words, and whether as an alert.
    presses: set[str] = field(default_factory=set)
    answers: dict[str, tuple[str, bool]] = field(default_factory=dict)

    def push(self, kind: str, content: Json) -> int | None:
        """Queue an update, if the bot wants this kind; its id."""
        if self.allowed is not None and kind not in self.allowed:
            return None
        update = self.next_update
        self.next_update += 1
        self.updates.append({"update_id": update, kind: content})
        self.poke()
        return update


@dataclass(eq=False, slots=True)
class Chat:
    """A place. `bots` hear what is said in it."""

    id: int
    type: str
    title: str
    bots: list[Bot]
    forum: bool = False
    person: User | None = None
    messages: dict[int, Message] = field(default_factory=dict)
    topics: dict[int, str] = field(default_factory=dict)
    #: What a bot that writes is told with 403: "bot was blocked by the user"; None if it may write.
    closed: str | None = None
    moved_to: int | None = None
    #: Bot, thread → how often it was said to be typing.
    actions: list[tuple[float, Bot, int | None]] = field(default_factory=list)
    #: The first message of every chat says that it was made.
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(2))

    def json(self) -> Json:
        if self.person:
            return {"id": self.id, "type": "private", "first_name": self.person.name}
        found: Json = {"id": self.id, "type": self.type, "title": self.title}
        return found | ({"is_forum": True} if self.forum else {})

    def new_message(self, fields: Mapping[str, Any], bot: Bot | None = None) -> Message:
        number = next(self._ids)
        data = {"message_id": number, "date": int(time.time()), "chat": self.json(), **fields}
        self.messages[number] = Message(number, data, bot)
        return self.messages[number]

    def post(
        self,
        user: User | None = None,
        *,
        thread: int | None = None,
        reply_to: Message | None = None,
        as_chat: Chat | None = None,
        **fields: Any,
    ) -> Message:
        """A person (in a direct chat: its person) writes something; every bot here gets the update."""
        user = user or self.person
        head: Json = {"from": user.json()} if user else {}
        if as_chat:
            head["sender_chat"] = as_chat.json()
        if thread is not None:
            # Telegram makes every message of a topic answer the one that opened it.
            root = self.messages[thread]
            head |= {"message_thread_id": thread, "is_topic_message": True, "reply_to_message": root.data}
        if reply_to:
            head["reply_to_message"] = {k: v for k, v in reply_to.data.items() if k != "reply_to_message"}
        message = self.new_message(head | fields)
        self._tell("channel_post" if self.type == "channel" else "message", message.data)
        return message

    def say(
        self, text: str, user: User | None = None, *, entities: Sequence[Entity] | None = None, **more: Any
    ) -> Message:
        """The same with text. Mentions and commands are found as the platform finds them, unless given."""
        marks = detect(text) if entities is None else list(entities)
        if marks:
            more["entities"] = marks
        return self.post(user, text=text, **more)

    def edit(self, message: Message, text: str | None = None, **fields: Any) -> None:
        """A person changes a message; without a text it is an edit of something else (a preview, a button)."""
        if text is not None:
            key = "text" if "text" in message.data else "caption"
            message.data |= {key: text, "entities" if key == "text" else "caption_entities": detect(text)}
        message.data |= {"edit_date": int(time.time()), **fields}
        self._tell("edited_channel_post" if self.type == "channel" else "edited_message", message.data)

    def press(self, message: Message, button: int | str, user: User | None = None) -> str:
        """Somebody presses a button, by its number, or forges the data; the id of the press."""
        who = user or self.person
        assert who is not None
        assert message.bot is not None
        data = button if isinstance(button, str) else message.buttons[button]["callback_data"]
        query = f"press{len(message.bot.presses) + 1}"
        message.bot.presses.add(query)
        content = {"id": query, "from": who.json(), "message": message.data, "chat_instance": "1", "data": data}
        message.bot.push("callback_query", content)
        return query

    def topic(self, name: str, user: User | None = None) -> Topic:
        """Open a forum topic; the message that says so is its id."""
        opened = self.new_message({"forum_topic_created": {"name": name, "icon_color": 7322096}})
        opened.data |= {"message_thread_id": opened.id, "is_topic_message": True}
        if user:
            opened.data["from"] = user.json()
        self.topics[opened.id] = name
        self._tell("message", opened.data)
        return Topic(self, opened.id)

    def close_to(self, why: str, status: str = "kicked") -> None:
        """Bots may not write here any more: "bot was blocked by the user"."""
        self.closed = why
        self._member(status)

    def open(self) -> None:
        self.closed = None
        self._member("member")

    @property
    def shown(self) -> list[Message]:
        """What bots have said here and people see."""
        return [message for message in self.messages.values() if message.bot]

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.shown]

    def _member(self, status: str) -> None:
        for bot in self.bots:
            member = {"user": bot.user.json(), "status": status} | ({"until_date": 0} if status == "kicked" else {})
            was = {"user": bot.user.json(), "status": "member"}
            who = (self.person or TELEGRAM).json()
            change = {"chat": self.json(), "from": who, "date": int(time.time())}
            bot.push("my_chat_member", change | {"old_chat_member": was, "new_chat_member": member})

    def _tell(self, kind: str, data: Json) -> None:
        for bot in self.bots:
            bot.push(kind, dict(data))


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a forum: what `Chat` does, there."""

    chat: Chat
    id: int

    def say(self, text: str, user: User | None = None, **more: Any) -> Message:
        return self.chat.say(text, user, thread=self.id, **more)

    def delete(self) -> None:
        del self.chat.topics[self.id]

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.chat.shown if message.thread == self.id]
