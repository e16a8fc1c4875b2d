"""What a message holds: its text, its files, and a line of words for everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from telegram import (
    ChecklistTask,
    Message,
    MessageOrigin,
    MessageOriginChannel,
    MessageOriginChat,
    MessageOriginUser,
    PhotoSize,
    PollOption,
)
from telegram.constants import FileSizeLimit

from channels.telegram.addressing import replied_to, sender_chat, sender_of, sender_user
from routing.messages import Attachment, AttachmentKind, Quote, Sender

#: More than the gateway can get from Telegram.
_LARGEST = int(FileSizeLimit.FILESIZE_DOWNLOAD)

#: Content that is neither text nor a file, in words.
WORDS: Mapping[str, Callable[[Any], str]] = {
    "venue": lambda venue: f"venue {venue.title}, {venue.address}",
    "location": lambda place: f"location {place.latitude}, {place.longitude}",
    "contact": lambda person: f"contact {person.first_name} {person.last_name or ''} {person.phone_number}",
    "poll": lambda poll: f"poll: {_listed(poll.question, poll.options)}",
    "dice": lambda dice: f"dice {dice.emoji} {dice.value}",
    "game": lambda game: f"game {game.title}",
    "sticker": lambda sticker: f"sticker {sticker.emoji or ''}",
    "story": lambda _: "story",
    "checklist": lambda checklist: f"checklist: {_listed(checklist.title, checklist.tasks)}",
    "invoice": lambda invoice: f"invoice {invoice.title}",
    "giveaway": lambda _: "giveaway",
    "giveaway_winners": lambda _: "winners of a giveaway",
    "paid_media": lambda _: "paid media",
}
_UNKNOWN = "a message of a kind that this gateway does not know"


def written(message: Message) -> str:
    """The text or caption, as written."""
    return message.text or message.caption or ""


def text_of(message: Message) -> str:
    """The same, and in brackets what else there is. Only a message that is all files may be empty."""
    said = [one for one in (written(message), *_described(message)) if one]
    if not said and not attachments_of(message):
        said = [f"[{_UNKNOWN}]"]
    return "\n".join(said)


def attachments_of(message: Message) -> tuple[Attachment, ...]:
    live = message.live_photo.photo if message.live_photo else None
    found = _photo(message.photo or live or ()) or _sticker(message) or _file(message)
    return () if found is None else (found,)


def quote_of(message: Message) -> Quote | None:
    """The part that was quoted, else all of the message that was answered."""
    part = message.quote.text if message.quote else ""
    if replied := replied_to(message):
        return Quote(text=part or text_of(replied) or _kinds(replied), sender=sender_of(replied))
    if message.external_reply:
        return Quote(text=part or "[a message from another chat]", sender=_author(message.external_reply.origin))
    return Quote(text="[story]", sender=sender_chat(message.reply_to_story.chat)) if message.reply_to_story else None


def forwarded_from(message: Message) -> str | None:
    """Whose words these are, as Telegram shows it."""
    origin = message.forward_origin
    if origin is None:
        return None
    author = _author(origin)
    name = author.name if author else getattr(origin, "sender_user_name", "")
    return name or "somebody"


def _author(origin: MessageOrigin) -> Sender | None:
    match origin:
        case MessageOriginUser():
            return sender_user(origin.sender_user)
        case MessageOriginChat():
            return sender_chat(origin.sender_chat)
        case MessageOriginChannel():
            return sender_chat(origin.chat)
    return None


def _described(message: Message) -> list[str]:
    # A venue is a location too, and says more.
    names = [name for name in WORDS if getattr(message, name, None) and not (name == "location" and message.venue)]
    return [f"[{' '.join(WORDS[name](getattr(message, name)).split())}]" for name in names]


def _kinds(message: Message) -> str:
    return " ".join(f"[{one.kind}]" for one in attachments_of(message))


def _photo(sizes: Sequence[PhotoSize]) -> Attachment | None:
    fitting = [one for one in sizes if (one.file_size or 0) <= _LARGEST]
    if not fitting:
        return None
    best = max(fitting, key=lambda one: (one.width * one.height, one.file_size or 0))
    return Attachment(kind=AttachmentKind.IMAGE, ref=best.file_id, mime="image/jpeg", size=best.file_size)


def _sticker(message: Message) -> Attachment | None:
    sticker = message.sticker
    if sticker is None or sticker.is_animated or sticker.is_video:
        return None
    return Attachment(kind=AttachmentKind.IMAGE, ref=sticker.file_id, mime="image/webp", size=sticker.file_size)


def _file(message: Message) -> Attachment | None:
    # An animation is a document too, and says more.
    for kind, file, mime in (
        (AttachmentKind.VIDEO, message.animation, "video/mp4"),
        (AttachmentKind.VIDEO, message.video, "video/mp4"),
        (AttachmentKind.VIDEO, message.video_note, "video/mp4"),
        (AttachmentKind.VIDEO, message.live_photo, "video/mp4"),
        (AttachmentKind.AUDIO, message.voice, "audio/ogg"),
        (AttachmentKind.AUDIO, message.audio, "audio/mpeg"),
        (AttachmentKind.DOCUMENT, message.document, ""),
    ):
        if file is not None:
            mime = getattr(file, "mime_type", None) or mime
            # A picture that was sent as a file is still a picture.
            kind = AttachmentKind.IMAGE if mime.startswith("image/") else kind
            name = getattr(file, "file_name", None) or ""
            return Attachment(kind=kind, ref=file.file_id, name=name, mime=mime, size=file.file_size)
    return None


def _listed(title: str, items: Sequence[PollOption | ChecklistTask]) -> str:
    return " / ".join([title, *(one.text for one in items)])
