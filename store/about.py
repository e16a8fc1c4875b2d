"""What comes with a message besides its text, as JSON in its inbox row."""

from __future__ import annotations

import json
from dataclasses import dataclass

from routing.messages import Attachment, AttachmentKind, Inbound, Quote, Sender
from store.content import Json, clean, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    #: The sender's id on the platform.
    user: str = ""
    #: Others read along, so that it has to be said who speaks.
    group: bool = False
    attachments: tuple[Attachment, ...] = ()
    quote: Quote | None = None
    forwarded_from: str | None = None


def encode(about: About) -> str:
    """What is not there is left out: most messages have only a sender."""
    value: dict[str, Json] = {}
    if about.user:
        value["user"] = clean(about.user)
    if about.group:
        value["group"] = True
    if about.attachments:
        value["attachments"] = [_attachment(one) for one in about.attachments]
    if about.quote is not None:
        value["quote"] = _quote(about.quote)
    if about.forwarded_from is not None:
        value["forwarded_from"] = clean(about.forwarded_from)
    return to_json(value)


def decode(stored: str) -> About:
    if stored == "{}":
        return About()
    value = json.loads(stored)
    return About(
        user=value.get("user", ""),
        group=value.get("group", False),
        attachments=read_attachments(value.get("attachments", [])),
        quote=read_quote(value.get("quote")),
        forwarded_from=value.get("forwarded_from"),
    )


def of(message: Inbound, *, group: bool) -> About:
    return About(
        user=message.sender.id,
        group=group,
        attachments=message.attachments,
        quote=message.quote,
        forwarded_from=message.forwarded_from,
    )


def _attachment(one: Attachment) -> dict[str, Json]:
    return {
        "kind": one.kind,
        "ref": clean(one.ref),
        "name": clean(one.name),
        "mime": clean(one.mime),
        "size": one.size,
    }


def _quote(quote: Quote) -> dict[str, Json]:
    sender = quote.sender
    return {
        "text": clean(quote.text),
        "sender": None if sender is None else {"id": clean(sender.id), "name": clean(sender.name)},
    }


def read_quote(value: dict[str, Json] | None) -> Quote | None:
    if value is None:
        return None
    sender = value["sender"]
    return Quote(text=value["text"], sender=None if sender is None else Sender(**sender))


def read_attachments(values: list[dict[str, Json]]) -> tuple[Attachment, ...]:
    return tuple(Attachment(**{**one, "kind": AttachmentKind(one["kind"])}) for one in values)
