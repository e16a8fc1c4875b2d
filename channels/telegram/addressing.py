"""Who speaks, where, and whether they mean this bot. Numeric ids decide; names are only shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from telegram import Chat, Message, MessageEntity, User
from telegram.constants import ChatType

from routing.keys import PeerKind
from routing.messages import Address, Addressed, Sender

#: The topic that is no topic: whoever writes there writes to the chat itself.
_GENERAL = 1
_QUOTING = (MessageEntity.BLOCKQUOTE, MessageEntity.EXPANDABLE_BLOCKQUOTE)
_KINDS = {ChatType.PRIVATE: PeerKind.DM, ChatType.CHANNEL: PeerKind.CHANNEL}


@dataclass(frozen=True, slots=True)
class Me:
    """This bot, and the name of its account in the configuration."""

    id: int
    username: str
    account: str


class _Command(StrEnum):
    NONE = "none"
    OURS = "ours"
    OTHERS = "others"


def address_of(message: Message, me: Me) -> Address:
    thread = message.message_thread_id if message.is_topic_message else None
    return Address(
        channel="telegram",
        account=me.account,
        chat=str(message.chat.id),
        thread=None if thread in (None, _GENERAL) else str(thread),
        reply_to=str(message.message_id),
    )


def peer_kind(chat: Chat) -> PeerKind:
    return _KINDS.get(ChatType(chat.type), PeerKind.GROUP)


def sender_of(message: Message) -> Sender:
    """An anonymous administrator, a channel or a forwarded post speaks as a chat: a negative id, never a person's."""
    if message.sender_chat:
        return sender_chat(message.sender_chat)
    if message.from_user:
        return sender_user(message.from_user)
    return sender_chat(message.chat)


def sender_user(user: User) -> Sender:
    return Sender(id=str(user.id), name=user.full_name, is_bot=user.is_bot)


def sender_chat(chat: Chat) -> Sender:
    return Sender(id=str(chat.id), name=chat.title or "")


def addressed(message: Message, me: Me) -> Addressed:
    command = _command(message, me)
    if command is _Command.OURS:
        return Addressed.COMMAND
    if _mentioned(message, me):
        return Addressed.MENTION
    if command is _Command.OTHERS:
        return Addressed.NOT
    replied = replied_to(message)
    if replied and not replied.sender_chat and replied.from_user and replied.from_user.id == me.id:
        return Addressed.REPLY
    return Addressed.NOT


def replied_to(message: Message) -> Message | None:
    """The message that a person chose to answer. In a topic, Telegram makes all answer the one that opened it."""
    replied = message.reply_to_message
    if replied is None or replied.forum_topic_created:
        return None
    if message.is_topic_message and replied.message_id == message.message_thread_id:
        return None
    return replied


def bare(text: str, message: Message, me: Me) -> str:
    """The text without this bot's name behind its first command."""
    first = _first_command(message)
    if first and _command(message, me) is _Command.OURS and "@" in first:
        return text.replace(first, first.partition("@")[0], 1)
    return text


def _command(message: Message, me: Me) -> _Command:
    first = _first_command(message)
    if first is None:
        return _Command.NONE
    name = first.partition("@")[2]
    return _Command.OTHERS if name and name.casefold() != me.username.casefold() else _Command.OURS


def _first_command(message: Message) -> str | None:
    """The command that the text begins with."""
    text, entities = _marked(message)
    for one in entities:
        if one.type == MessageEntity.BOT_COMMAND and one.offset == 0:
            return cut(text, one)
    return None


def _mentioned(message: Message, me: Me) -> bool:
    text, entities = _marked(message)
    quotes = [one for one in entities if one.type in _QUOTING]
    return any(_means(text, one, me) and not any(_inside(one, quote) for quote in quotes) for one in entities)


def _means(text: str, entity: MessageEntity, me: Me) -> bool:
    if entity.type == MessageEntity.MENTION:
        return cut(text, entity).casefold() == f"@{me.username}".casefold()
    return entity.type == MessageEntity.TEXT_MENTION and entity.user is not None and entity.user.id == me.id


def _inside(entity: MessageEntity, outer: MessageEntity) -> bool:
    return outer.offset <= entity.offset and entity.offset + entity.length <= outer.offset + outer.length


def _marked(message: Message) -> tuple[str, tuple[MessageEntity, ...]]:
    if message.text is not None:
        return message.text, message.entities
    return message.caption or "", message.caption_entities


def cut(text: str, entity: MessageEntity) -> str:
    """Offsets count UTF-16 units."""
    data = text.encode("utf-16-le", "surrogatepass")
    return data[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le", "replace")
