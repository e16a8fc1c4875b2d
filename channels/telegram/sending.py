"""Messages out: Markdown as text with entities, and a way on from every refusal that has one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from telegram import Bot, InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity, ReplyParameters
from telegram.error import BadRequest

from channels.base import Outgoing
from channels.telegram.failures import markup_refused, thread_gone, too_long, unchanged
from channels.telegram.pressing import keyboard
from channels.text import plain
from channels.text import telegram as markup
from channels.text.characters import is_blank
from routing.errors import DeliveryFailed
from routing.messages import Address

#: Chat users see these.
TOPIC_GONE = "(The topic of this answer is gone, so it comes here.)"
BLANK = "…"
FILE = "message.md"

_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


@dataclass(frozen=True, slots=True)
class Where:
    chat: int
    thread: int | None
    reply_to: int | None

    @property
    def reply(self) -> ReplyParameters | None:
        if self.reply_to is None:
            return None
        return ReplyParameters(self.reply_to, allow_sending_without_reply=True)


@dataclass(frozen=True, slots=True)
class Body:
    text: str
    entities: tuple[MessageEntity, ...] = ()
    buttons: InlineKeyboardMarkup | None = None


def where(address: Address) -> Where:
    try:
        return Where(int(address.chat), _number(address.thread), _number(address.reply_to))
    except ValueError:
        raise DeliveryFailed("this is no Telegram address", retryable=False) from None


async def send(bot: Bot, item: Outgoing) -> int:
    place = where(item.address)
    try:
        return await _send(bot, place, item)
    except BadRequest as refusal:
        if place.thread is None or not thread_gone(refusal):
            raise
    # Once more in the same chat; never anywhere else.
    return await _send_without_topic(bot, replace(place, thread=None), item)


async def edit(bot: Bot, sent_id: str, item: Outgoing) -> None:
    place = where(item.address)
    number = _number(sent_id)
    try:
        await _edit(bot, place.chat, number, _body(item))
    except BadRequest as refusal:
        if unchanged(refusal):
            return
        if not markup_refused(refusal):
            raise
        await _edit_plainly(bot, place.chat, number, item)


def rendered(text: str) -> Body:
    shown = markup.render(text)
    if is_blank(shown.text):
        return unmarked(text)
    marks = (MessageEntity(one.type, one.offset, one.length, one.url, language=one.language) for one in shown.entities)
    return Body(_sendable(shown.text), tuple(marks))


def unmarked(text: str) -> Body:
    """Never blank, which Telegram would refuse."""
    return Body(_sendable(next((one for one in (plain(text), text) if not is_blank(one)), BLANK)))


def _sendable(text: str) -> str:
    """Halves of symbols, which models write now and then, cannot be sent; the length stays, so entities fit."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


async def _send_without_topic(bot: Bot, place: Where, item: Outgoing) -> int:
    noted = f"{TOPIC_GONE}\n\n{item.text}"
    if item.filename is None and len(markup.split(noted)) == 1:
        return await _send(bot, place, replace(item, text=noted))
    await _message(bot, place, Body(TOPIC_GONE))
    return await _send(bot, place, item)


async def _send(bot: Bot, place: Where, item: Outgoing) -> int:
    if item.filename is not None:
        return await _document(bot, place, item.text, item.filename)
    try:
        return await _send_text(bot, place, item)
    except BadRequest as refusal:
        if not too_long(refusal):
            raise
        return await _document(bot, place, item.text, FILE)


async def _send_text(bot: Bot, place: Where, item: Outgoing) -> int:
    try:
        return await _message(bot, place, _body(item))
    except BadRequest as refusal:
        if not markup_refused(refusal):
            raise
        return await _message(bot, place, _plain_body(item))


def _body(item: Outgoing) -> Body:
    return replace(rendered(item.text), buttons=keyboard(item.buttons))


def _plain_body(item: Outgoing) -> Body:
    return replace(unmarked(item.text), buttons=keyboard(item.buttons))


async def _message(bot: Bot, place: Where, body: Body) -> int:
    sent = await bot.send_message(
        place.chat,
        body.text,
        entities=body.entities,
        link_preview_options=_NO_PREVIEW,
        message_thread_id=place.thread,
        reply_parameters=place.reply,
        reply_markup=body.buttons,
    )
    return sent.message_id


async def _document(bot: Bot, place: Where, text: str, filename: str) -> int:
    sent = await bot.send_document(
        place.chat,
        _sendable(text or BLANK).encode(),
        filename=filename,
        message_thread_id=place.thread,
        reply_parameters=place.reply,
    )
    return sent.message_id


async def _edit_plainly(bot: Bot, chat: int, number: int | None, item: Outgoing) -> None:
    try:
        await _edit(bot, chat, number, _plain_body(item))
    except BadRequest as refusal:
        if not unchanged(refusal):
            raise


async def _edit(bot: Bot, chat: int, number: int | None, body: Body) -> None:
    await bot.edit_message_text(
        body.text,
        chat_id=chat,
        message_id=number,
        entities=body.entities,
        link_preview_options=_NO_PREVIEW,
        reply_markup=body.buttons,
    )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
