"""discord.Message → Inbound. Pure: no calls, no state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import discord

from channels.discord.places import Place
from routing.messages import Addressed, Attachment, AttachmentKind, Inbound, Quote, Sender

#: Discord's clients cut a paste at 2000; the next part is on its way.
_CUT_AT = 1950
_PEOPLE_SAY = frozenset({discord.MessageType.default, discord.MessageType.reply})

_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)
_QUOTED_LINE = re.compile(r"^> .*$", re.MULTILINE)
_QUOTED_REST = re.compile(r"^>>> .*\Z", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"/[a-z][a-z0-9_-]*(?=\s|$)")
_MENTION = re.compile(r"<(@!?|@&|#)(\d{1,20})>")
_EMOJI = re.compile(r"<a?(:\w{1,32}:)\d{1,20}>")


@dataclass(frozen=True, slots=True)
class Me:
    """Who we are where the message stands."""

    id: int
    #: The roles that came with the bot: mentioning one mentions it.
    roles: frozenset[int] = frozenset()

    @classmethod
    def in_guild(cls, bot: int, guild: discord.Guild | None) -> Me:
        roles = guild.roles if guild is not None else ()
        return cls(bot, frozenset(one.id for one in roles if one.tags is not None and one.tags.bot_id == bot))

    def is_named(self, sign: str, number: int) -> bool:
        return number == self.id if sign in ("@", "@!") else sign == "@&" and number in self.roles


def external_id(bot: int, message: int) -> str:
    return f"{bot}:{message}"


def inbound(
    message: discord.Message, *, account: str, me: Me, place: Place, author: discord.abc.User | None = None
) -> Inbound | None:
    """None if nobody said anything: our own messages, joins and pins, blank ones. `author`: if more is known."""
    if message.author.id == me.id or message.type not in _PEOPLE_SAY:
        return None
    forwarded = bool(message.message_snapshots)
    text = _forwarded_text(message, me) if forwarded else _text(message, me)
    attachments = _attachments(message)
    addressed = Addressed.NOT if forwarded else _addressed(message, me, text)
    quote = _quote(message, me)
    if not text and not attachments and addressed is Addressed.NOT and quote is None:
        return None
    room = str(message.channel.id)
    return Inbound(
        external_id=external_id(me.id, message.id),
        address=place.address(account, str(message.id)),
        peer_kind=place.kind,
        sender=_sender(message),
        text=text,
        guild=place.guild,
        roles=roles_of(author or message.author),
        addressed=addressed,
        attachments=attachments,
        quote=quote,
        forwarded_from=_origin(message) if forwarded else None,
        open=forwarded or len(message.content) >= _CUT_AT,
        seen=(room, str(message.id)),
    )


def is_blank(message: discord.Message) -> bool:
    """A person in a server said nothing at all: so it looks if we may not read what people say."""
    said = (message.content, message.attachments, message.embeds, message.stickers, message.components)
    more = (message.message_snapshots, message.poll)
    person = not message.author.bot and message.webhook_id is None and message.type in _PEOPLE_SAY
    return person and message.guild is not None and not any(said) and not any(more)


def roles_of(author: discord.abc.User) -> frozenset[str]:
    if not isinstance(author, discord.Member):
        return frozenset()
    return frozenset(str(role.id) for role in author.roles if not role.is_default())


def one_line(name: str) -> str:
    """A name as it may stand inside a text."""
    return " ".join("".join(char if char.isprintable() else " " for char in name).split())


def _sender(message: discord.Message) -> Sender:
    author = message.author
    is_bot = author.bot or message.webhook_id is not None
    return Sender(id=str(author.id), name=one_line(author.display_name), is_bot=is_bot)


def _addressed(message: discord.Message, me: Me, text: str) -> Addressed:
    if _COMMAND.match(text):
        return Addressed.COMMAND
    own_words = _QUOTED_REST.sub("", _QUOTED_LINE.sub("", _CODE.sub("", message.content)))
    if any(me.is_named(sign, int(number)) for sign, number in _MENTION.findall(own_words)):
        return Addressed.MENTION
    origin = _replied_to(message)
    return Addressed.REPLY if origin is not None and origin.author.id == me.id else Addressed.NOT


def _replied_to(message: discord.Message) -> discord.Message | None:
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    origin = message.reference.resolved
    return origin if isinstance(origin, discord.Message) else None


def _quote(message: discord.Message, me: Me) -> Quote | None:
    origin = _replied_to(message)
    return None if origin is None else Quote(text=_text(origin, me, own=False), sender=_sender(origin))


def _text(message: discord.Message, me: Me, *, own: bool = True) -> str:
    """The words, names in place of mentions. `own`: our own mention at either end only calls us, and goes."""
    content = _strip_own(message.content, me) if own else message.content
    names = _names(message)
    content = _MENTION.sub(lambda found: names.get((found[1].replace("!", ""), int(found[2])), found[0]), content)
    extras = [f"(sticker: {one_line(sticker.name)})" for sticker in message.stickers]
    if message.poll is not None:
        extras.append(f"(poll: {one_line(message.poll.question)})")
    if not content:
        extras.extend(_of_embed(embed) for embed in message.embeds)
    return "\n".join(part for part in (_EMOJI.sub(r"\1", content).strip(), *extras) if part)


def _of_embed(embed: discord.Embed) -> str:
    return "\n".join(part for part in (embed.title, embed.description) if part)


def _strip_own(content: str, me: Me) -> str:
    content = content.strip()
    while (found := _MENTION.match(content)) and me.is_named(found[1], int(found[2])):
        content = content[found.end() :].lstrip(" \t\n,:")
    while content.endswith(">") and (found := _MENTION.fullmatch(content, content.rfind("<"))):
        if not me.is_named(found[1], int(found[2])):
            break
        content = content[: found.start()].rstrip()
    return content


def _names(message: discord.Message) -> dict[tuple[str, int], str]:
    """(sign, id) → the mention as plain text with its id."""
    found = {("@", user.id): f"@{one_line(user.display_name)} ({user.id})" for user in message.mentions}
    found |= {("@&", role.id): f"@{one_line(role.name)} ({role.id})" for role in message.role_mentions}
    return found | {("#", one.id): f"#{one_line(one.name)} ({one.id})" for one in message.channel_mentions}


def _forwarded_text(message: discord.Message, me: Me) -> str:
    parts = [_text(message, me), *(_EMOJI.sub(r"\1", each.content).strip() for each in message.message_snapshots)]
    return "\n".join(part for part in parts if part)


def _origin(message: discord.Message) -> str:
    """Discord shows where a forward comes from, not from whom."""
    reference = message.reference
    if reference is None:
        return "unknown"
    channel: Any = message.guild.get_channel_or_thread(reference.channel_id) if message.guild else None
    return f"#{one_line(channel.name)} ({channel.id})" if channel else f"channel {reference.channel_id}"


def _attachments(message: discord.Message) -> tuple[Attachment, ...]:
    files = [*message.attachments, *(file for each in message.message_snapshots for file in each.attachments)]
    return tuple(
        Attachment(
            kind=_kind(file.content_type or ""),
            ref=file.url,
            name=file.filename,
            mime=(file.content_type or "").partition(";")[0],
            size=file.size,
        )
        for file in files
    )


def _kind(mime: str) -> AttachmentKind:
    match mime.partition("/")[0]:
        case "image":
            return AttachmentKind.IMAGE
        case "audio":
            return AttachmentKind.AUDIO
        case "video":
            return AttachmentKind.VIDEO
        case _:
            return AttachmentKind.DOCUMENT
