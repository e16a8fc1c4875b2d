"""People do things, and the bots hear of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.fakes.discord import payloads
from tests.fakes.discord.gateway import Gateway
from tests.fakes.discord.model import (
    Bot,
    Channel,
    ChannelType,
    File,
    Guild,
    Ids,
    Message,
    MessageType,
    Pressed,
    Role,
    Snapshot,
    User,
)
from tests.fakes.discord.watch import Watch


class World:
    """Everything here is immediate: what a person does is done, and on its way to the bots, when the call returns."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.ids = Ids(clock)
        self.watch = Watch()
        self.users: dict[int, User] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.pressed: dict[str, Pressed] = {}
        self.gateway = Gateway(self.watch, self.bot_of, self._guilds_of, payloads.user)
        #: Where REST and files are, once it serves.
        self.root = ""

    # Who and where

    def add_bot(self, name: str, token: str, *, message_content: bool = True) -> Bot:
        bot = Bot(
            self.ids.next(), name, token=token, application=self.ids.next(), message_content=message_content, bot=True
        )
        self.users[bot.id] = bot
        return bot

    def add_user(self, name: str, *, bot: bool = False) -> User:
        user = User(self.ids.next(), name, bot)
        self.users[user.id] = user
        return user

    def add_guild(self, name: str, *members: User) -> Guild:
        guild = Guild(self.ids.next(), name)
        guild.roles[guild.id] = Role(guild.id, "@everyone")
        self.guilds[guild.id] = guild
        for member in members:
            self.join(guild, member)
        return guild

    def join(self, guild: Guild, member: User, *roles: Role) -> None:
        guild.members.setdefault(member.id, set()).update(role.id for role in roles)
        if isinstance(member, Bot) and not any(role.of_bot == member.id for role in guild.roles.values()):
            own = self.add_role(guild, member.name, of_bot=member.id)
            guild.members[member.id].add(own.id)

    def add_role(self, guild: Guild, name: str, *, of_bot: int | None = None) -> Role:
        role = Role(self.ids.next(), name, of_bot)
        guild.roles[role.id] = role
        inside = [one for one in self.users.values() if isinstance(one, Bot) and one.id in guild.members]
        made = {"guild_id": str(guild.id), "role": payloads.role(role)}
        self.gateway.dispatch(inside, "GUILD_ROLE_CREATE", made)
        return role

    def add_channel(self, guild: Guild, name: str, *, forum: bool = False) -> Channel:
        channel = Channel(self.ids.next(), ChannelType.FORUM if forum else ChannelType.TEXT, name, guild)
        self.channels[channel.id] = channel
        self.gateway.dispatch(self._bots_in(channel), "CHANNEL_CREATE", payloads.channel(channel))
        return channel

    def add_thread(self, parent: Channel, name: str, *, announce: bool = True) -> Channel:
        """A thread, or a post of a forum. Not announced: as an old one that nobody told the bots of."""
        thread = Channel(self.ids.next(), ChannelType.THREAD, name, parent.guild, parent)
        thread.archived = not announce
        self.channels[thread.id] = thread
        if announce:
            made = payloads.channel(thread) | {"newly_created": True}
            self.gateway.dispatch(self._bots_in(thread), "THREAD_CREATE", made)
        return thread

    def dm(self, user: User, bot: Bot) -> Channel:
        for channel in self.channels.values():
            if channel.type is ChannelType.DM and set(channel.recipients) == {user, bot}:
                return channel
        channel = Channel(self.ids.next(), ChannelType.DM, recipients=(user, bot))
        self.channels[channel.id] = channel
        return channel

    # What happens

    def say(
        self,
        user: User,
        channel: Channel,
        text: str = "",
        *,
        reply_to: Message | None = None,
        files: Sequence[tuple[str, bytes, str]] = (),
        forward: Snapshot | None = None,
        type: MessageType = MessageType.DEFAULT,
        webhook: bool = False,
    ) -> Message:
        message = Message(
            self.ids.next(),
            channel,
            user,
            text,
            type=MessageType.REPLY if reply_to else type,
            reply_to=reply_to.id if reply_to else None,
            files=tuple(File(self.ids.next(), *file) for file in files),
            snapshot=forward,
            webhook_id=user.id if webhook else None,
        )
        self.put(message)
        return message

    def edit(self, message: Message, text: str) -> None:
        self.change(message, text)

    def unfurl(self, message: Message) -> None:
        """Discord adds a preview of a link by itself: an update without an edit."""
        self._tell(message.channel, "MESSAGE_UPDATE", payloads.event(message, self.root, self.users))

    def delete(self, *messages: Message) -> None:
        for message in messages:
            message.deleted = True
        place = messages[0].channel
        where = {"channel_id": str(place.id)} | ({"guild_id": str(place.guild.id)} if place.guild else {})
        if len(messages) == 1:
            self._tell(place, "MESSAGE_DELETE", {"id": str(messages[0].id), **where})
        else:
            self._tell(place, "MESSAGE_DELETE_BULK", {"ids": [str(each.id) for each in messages], **where})

    def press(
        self, user: User, channel: Channel, name: str, argument: tuple[str, str] | None = None, *, bot: Bot
    ) -> Pressed:
        """Use a slash command; `argument` is its name and value."""
        pressed = Pressed(self.ids.next(), "aW50" + secrets.token_hex(40), bot, user, channel, self.clock())
        self.pressed[pressed.token] = pressed
        self.gateway.dispatch([bot], "INTERACTION_CREATE", payloads.interaction(pressed, name, argument))
        return pressed

    def press_button(self, user: User, message: Message, button: int | str) -> Pressed:
        """Press a button by its number, or forge what it carries."""
        bot = message.author
        assert isinstance(bot, Bot)
        carries = button if isinstance(button, str) else message.buttons[button]["custom_id"]
        pressed = Pressed(self.ids.next(), "aW50" + secrets.token_hex(40), bot, user, message.channel, self.clock())
        pressed.message, pressed.custom_id = message, carries
        self.pressed[pressed.token] = pressed
        self.gateway.dispatch([bot], "INTERACTION_CREATE", payloads.component(pressed, self.root, self.users))
        return pressed

    # What REST does

    def put(self, message: Message) -> None:
        message.channel.messages[message.id] = message
        message.channel.archived = False
        shown = payloads.event(message, self.root, self.users)
        if message.nonce is not None:
            shown["nonce"] = message.nonce
        self._tell(message.channel, "MESSAGE_CREATE", shown)

    def change(self, message: Message, text: str, *, flags: int | None = None) -> None:
        message.content, message.edited = text, True
        message.texts.append(text)
        if flags is not None:
            message.flags = flags
        self._tell(message.channel, "MESSAGE_UPDATE", payloads.event(message, self.root, self.users))

    # What a test looks at

    def visible(self, channel: Channel) -> list[Message]:
        return [message for message in channel.messages.values() if not message.deleted]

    def texts(self, channel: Channel, author: User | None = None) -> list[str]:
        return [one.content for one in self.visible(channel) if author in (None, one.author)]

    def bot_of(self, token: str) -> Bot | None:
        return next((one for one in self.users.values() if isinstance(one, Bot) and one.token == token), None)

    def _tell(self, channel: Channel, name: str, data: dict[str, Any]) -> None:
        self.gateway.dispatch(self._bots_in(channel), name, data)

    def _bots_in(self, channel: Channel) -> list[Bot]:
        inside = channel.guild.members if channel.guild else {one.id for one in channel.recipients}
        return [one for one in self.users.values() if isinstance(one, Bot) and one.id in inside]

    def _guilds_of(self, bot: Bot) -> list[dict[str, Any]]:
        channels = list(self.channels.values())
        return [payloads.guild(one, channels, bot) for one in self.guilds.values() if bot.id in one.members]
