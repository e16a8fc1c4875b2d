"""Updates → what the gateway takes in. Pure functions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from telegram import Message, Update

from channels.telegram.addressing import Me, address_of, addressed, bare, peer_kind, sender_of
from channels.telegram.content import attachments_of, forwarded_from, quote_of, text_of, written
from channels.telegram.service import is_service
from routing.messages import Edited, Inbound, Incoming, Moved

_log = logging.getLogger(__name__)

#: What the bot asks Telegram for.
KINDS = [
    Update.MESSAGE,
    Update.EDITED_MESSAGE,
    Update.CHANNEL_POST,
    Update.EDITED_CHANNEL_POST,
    Update.MY_CHAT_MEMBER,
    Update.CALLBACK_QUERY,
]
#: Apps cut a longer text into messages of about this many UTF-16 units, at a line's or word's end before it.
_PASTE = 4000


def incoming(updates: Sequence[Update], me: Me) -> Iterator[Incoming]:
    """In order. An update that breaks this code is logged and left out; it must not stop those behind it."""
    for number, update in enumerate(updates):
        try:
            found = _convert(update, updates[number + 1 :], me)
        except Exception:
            _log.exception("telegram: update %s is left out", update.update_id)
            continue
        if found is not None:
            yield found


def _convert(update: Update, later: Sequence[Update], me: Me) -> Incoming | None:
    edited = update.edited_message or update.edited_channel_post
    if edited:
        return Edited(message=_inbound(update, edited, me)) if written(edited) else None
    message = _new(update)
    if message is None:
        _note_membership(update, me)
        return None
    if moved := _moved(message, me):
        return moved
    if is_service(message) or (message.from_user and message.from_user.id == me.id):
        return None
    return _inbound(update, message, me, more=_more(message, later))


def _inbound(update: Update, message: Message, me: Me, *, more: bool = False) -> Inbound:
    return Inbound(
        external_id=f"{me.id}:{update.update_id}",
        address=address_of(message, me),
        peer_kind=peer_kind(message.chat),
        sender=sender_of(message),
        text=bare(text_of(message), message, me),
        addressed=addressed(message, me),
        attachments=attachments_of(message),
        quote=quote_of(message),
        forwarded_from=forwarded_from(message),
        open=more,
    )


def _new(update: Update) -> Message | None:
    return update.message or update.channel_post


def _moved(message: Message, me: Me) -> Moved | None:
    here = message.chat.id
    if message.migrate_to_chat_id:
        old, new = here, message.migrate_to_chat_id
    elif message.migrate_from_chat_id:
        old, new = message.migrate_from_chat_id, here
    else:
        return None
    return Moved(channel="telegram", account=me.account, old=str(old), new=str(new))


def _more(message: Message, later: Sequence[Update]) -> bool:
    """Whether more of the same thought may follow: by its kind, or because a forward of its author comes next."""
    return _is_part(message) or _is_cut(message) or _is_comment(message, later)


def _is_part(message: Message) -> bool:
    forwarded = message.forward_origin is not None and not message.is_automatic_forward
    return forwarded or message.media_group_id is not None


def _is_cut(message: Message) -> bool:
    return len((message.text or "").encode("utf-16-le", "surrogatepass")) // 2 >= _PASTE


def _is_comment(message: Message, later: Sequence[Update]) -> bool:
    place = _place(message)
    following = (new for update in later if (new := _new(update)) and _place(new) == place)
    first = next(following, None)
    return first is not None and _is_part(first) and sender_of(first) == sender_of(message)


def _place(message: Message) -> tuple[int, int | None]:
    return message.chat.id, message.message_thread_id if message.is_topic_message else None


def _note_membership(update: Update, me: Me) -> None:
    change = update.my_chat_member
    if change:
        status, chat = change.new_chat_member.status, change.chat.id
        _log.info("telegram: account %s is now %r in chat %s", me.account, status, chat)
