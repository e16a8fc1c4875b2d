"""Outgoing → Discord.

Every message carries a nonce, so that Discord itself refuses a repeat for some minutes. Later, whether a message
arrived is looked up (`find`): by its nonce where we heard the gateway say it, and else by author, text, and the message
it replies to, among what was said after that message. Two equal texts of ours that reply to nothing are told apart only
as long as this process remembers having sent them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Any

import discord

from channels.base import Outgoing
from channels.discord.failures import TOO_LONG, translated
from channels.discord.interactions import Answers, pressed_of
from channels.discord.places import Recent, room_of
from channels.discord.pressing import view_of
from channels.discord.settings import Timing
from channels.text import discord as markup
from routing.errors import DeliveryFailed
from routing.messages import Address

_MOST_CHARACTERS = 2000
_LONGEST_NONCE = 25
_LOOK_BACK = 200
#: What a text is called that Discord takes only as a file.
_AS_FILE = "message.md"

_NOBODY = discord.AllowedMentions.none()


class Sender:
    """Lives longer than a connection: it remembers what it sent."""

    def __init__(self, timing: Timing, now: Callable[[], float]) -> None:
        self.answers = Answers(timing, now)
        self._timing = timing
        self._now = now
        #: Message id → its text now.
        self._shown: Recent[str, str] = Recent(2000)
        #: Nonce → message id, and back.
        self._arrived: Recent[str, str] = Recent(2000)
        self._nonces: Recent[str, str] = Recent(2000)

    async def send(self, client: discord.Client, item: Outgoing) -> str:
        text = markup.render(item.text)
        pressed = pressed_of(item.address.reply_to)
        sent, shown = None, text
        async with translated(self._timing.call, creates=True):
            if pressed is not None and item.buttons is None and not _needs_file(item, text):
                sent = await self.answers.answer(client, pressed, nonce_of(item), text)
        if sent is None:
            async with translated(self._timing.call, creates=True):
                message = await self._post(client, item, text)
            # A nonce that Discord knows gives back the message of that time, with the text of that time.
            sent, shown = str(message.id), message.content
            if pressed is not None and item.buttons is None:
                await self.answers.drop(client, pressed)
        self._shown.put(sent, shown)
        self._remember(nonce_of(item), sent)
        return sent

    async def edit(self, client: discord.Client, sent_id: str, item: Outgoing) -> None:
        text = markup.render(item.text)
        if self._shown.get(sent_id) == text and item.filename is None and item.buttons is None:
            return
        message = client.get_partial_messageable(room_of(item.address)).get_partial_message(int(sent_id))
        self._shown.drop(sent_id)  # until it is known that this one arrived
        async with translated(self._timing.call, creates=False):
            if not _needs_file(item, text):
                try:
                    await message.edit(content=text, allowed_mentions=_NOBODY, **_buttons(item))
                except discord.HTTPException as exc:
                    if exc.code not in TOO_LONG:
                        raise
                else:
                    self._shown.put(sent_id, text)
                    return
            await message.edit(content=None, attachments=[_file(item)], allowed_mentions=_NOBODY)

    async def typing(self, client: discord.Client, address: Address) -> None:
        async with translated(self._timing.call, creates=False):
            await client.http.send_typing(room_of(address))

    async def find(self, client: discord.Client, item: Outgoing) -> str | None:
        if (sent := self._arrived.get(nonce_of(item))) is not None:
            return sent
        text = markup.render(item.text)
        pressed = pressed_of(item.address.reply_to)
        async with translated(self._timing.call, creates=False):
            if pressed is not None:
                sent = await self.answers.find(client, pressed, text)
            if sent is None:
                sent = await self._look(client, item, text)
        return sent

    def heard(self, message: discord.Message) -> None:
        """One of our own messages came back to us by the gateway, with its nonce."""
        if message.nonce is not None:
            self._remember(str(message.nonce), str(message.id))

    def _remember(self, nonce: str, sent: str) -> None:
        self._arrived.put(nonce, sent)
        self._nonces.put(sent, nonce)

    async def _post(self, client: discord.Client, item: Outgoing, text: str) -> discord.Message:
        room = client.get_partial_messageable(room_of(item.address))
        how: dict[str, Any] = {
            "nonce": nonce_of(item),
            "allowed_mentions": _NOBODY,
            "mention_author": False,
            "suppress_embeds": True,
            "reference": _reference(item.address),
        }
        if not _needs_file(item, text):
            view = view_of(item.buttons)
            if view is not None:
                how["view"] = view
            try:
                return await room.send(text, **how)
            except discord.HTTPException as exc:
                if exc.code not in TOO_LONG:
                    raise
        return await room.send(file=_file(item), **how)

    async def _look(self, client: discord.Client, item: Outgoing, text: str) -> str | None:
        room = client.get_partial_messageable(room_of(item.address))
        since = _trigger(item.address)
        after = None if since is None else discord.Object(since)
        me = client.user
        async for message in room.history(limit=_LOOK_BACK, after=after, oldest_first=after is not None):
            if me is not None and message.author.id == me.id and self._is(message, item, text):
                return str(message.id)
        return None

    def _is(self, message: discord.Message, item: Outgoing, text: str) -> bool:
        nonce = message.nonce or self._nonces.get(str(message.id))
        if nonce is not None:
            return str(nonce) == nonce_of(item)
        replied = message.reference.message_id if message.reference else None
        if replied is not None and str(replied) != item.address.reply_to:
            return False
        if message.attachments:
            names = [(file.filename, file.size) for file in message.attachments]
            return names == [(item.filename or _AS_FILE, len(item.text.encode()))]
        return message.content.strip() == text.strip()


def _buttons(item: Outgoing) -> dict[str, Any]:
    """Left alone where there never were any."""
    return {} if item.buttons is None else {"view": view_of(item.buttons)}


def nonce_of(item: Outgoing) -> str:
    """As Discord takes it: at most 25 characters."""
    if len(item.nonce) <= _LONGEST_NONCE:
        return item.nonce
    return hashlib.sha256(item.nonce.encode()).hexdigest()[:_LONGEST_NONCE]


def _needs_file(item: Outgoing, text: str) -> bool:
    return item.filename is not None or len(text) > _MOST_CHARACTERS


def _file(item: Outgoing) -> discord.File:
    return discord.File(io.BytesIO(item.text.encode()), item.filename or _AS_FILE)


def _reference(address: Address) -> discord.MessageReference | None:
    """A message that is gone by now is simply not shown as replied to."""
    if address.reply_to is None or not address.reply_to.isdecimal():
        return None
    return discord.MessageReference(
        message_id=int(address.reply_to), channel_id=room_of(address), fail_if_not_exists=False
    )


def _trigger(address: Address) -> int | None:
    """The snowflake that every answer to it is younger than."""
    if (pressed := pressed_of(address.reply_to)) is not None:
        return pressed.id
    return int(address.reply_to) if address.reply_to and address.reply_to.isdecimal() else None


def not_connected() -> DeliveryFailed:
    return DeliveryFailed("not connected to Discord", retryable=True)
