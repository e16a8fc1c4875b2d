"""What a Discord holds: people, guilds, channels, messages. Plain values, no network."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

_EPOCH_MS = 1_420_070_400_000
_USER = re.compile(r"<@!?(\d+)>")
_ROLE = re.compile(r"<@&(\d+)>")


class ChannelType(IntEnum):
    TEXT = 0
    DM = 1
    GROUP_DM = 3
    THREAD = 11
    FORUM = 15


class MessageType(IntEnum):
    DEFAULT = 0
    PINS_ADD = 6
    JOIN = 7
    REPLY = 19


#: The flag of a deferred answer that is still to come ("… is thinking").
LOADING = 1 << 7
HAS_SNAPSHOT = 1 << 14


@dataclass(slots=True, eq=False)
class User:
    id: int
    name: str
    bot: bool = False


@dataclass(slots=True, eq=False)
class Bot(User):
    token: str = ""
    application: int = 0
    bot: bool = True
    #: Whether the portal allows it to read every message.
    message_content: bool = True


@dataclass(slots=True, eq=False)
class Role:
    id: int
    name: str
    #: The bot it belongs to, if it came with one.
    of_bot: int | None = None


@dataclass(slots=True, eq=False)
class Guild:
    id: int
    name: str
    roles: dict[int, Role] = field(default_factory=dict)
    #: Member id → ids of their roles.
    members: dict[int, set[int]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Channel:
    id: int
    type: ChannelType
    name: str = ""
    guild: Guild | None = None
    parent: Channel | None = None
    recipients: tuple[User, ...] = ()
    archived: bool = False
    locked: bool = False
    gone: bool = False
    #: (status, code) that every post gets, such as (403, 50007).
    refuses: tuple[int, int] | None = None
    messages: dict[int, Message] = field(default_factory=dict)

    @property
    def last_message_id(self) -> int | None:
        return max(self.messages, default=None)


@dataclass(slots=True, eq=False)
class File:
    id: int
    name: str
    content: bytes
    mime: str = "application/octet-stream"


@dataclass(slots=True, eq=False)
class Snapshot:
    """The words of a forwarded message."""

    content: str
    files: tuple[File, ...] = ()


@dataclass(slots=True, eq=False)
class Message:
    id: int
    channel: Channel
    author: User
    content: str
    type: MessageType = MessageType.DEFAULT
    nonce: str | None = None
    reply_to: int | None = None
    files: tuple[File, ...] = ()
    snapshot: Snapshot | None = None
    webhook_id: int | None = None
    flags: int = 0
    #: Rows of buttons.
    components: list[dict[str, Any]] = field(default_factory=list)
    deleted: bool = False
    edited: bool = False
    #: Every text it ever had, the present one last.
    texts: list[str] = field(default_factory=list)
    #: Whom it made a sound for: user and role ids, and "everyone".
    pinged: set[int | str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.texts.append(self.content)

    @property
    def buttons(self) -> list[dict[str, Any]]:
        return [button for row in self.components for button in row["components"]]

    @property
    def thinking(self) -> bool:
        return bool(self.flags & LOADING)

    def mentioned_users(self) -> list[int]:
        return [int(found) for found in dict.fromkeys(_USER.findall(self.content))]

    def mentioned_roles(self) -> list[int]:
        return [int(found) for found in dict.fromkeys(_ROLE.findall(self.content))]


@dataclass(slots=True, eq=False)
class Pressed:
    """A slash command that somebody used, or a button."""

    id: int
    token: str
    bot: Bot
    user: User
    channel: Channel
    at: float
    acknowledged_after: float | None = None
    message: Message | None = None
    #: What the button carries.
    custom_id: str | None = None
    #: What only this user was told.
    whispers: list[str] = field(default_factory=list)


class Ids:
    """Snowflakes: they tell their time and only grow."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, int(self._clock() * 1000 - _EPOCH_MS) << 22)
        return self._last
