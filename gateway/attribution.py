"""Who said what, to whom: kept as data with a message, and given to agents as one line that nobody can forge."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.quoting import quote
from store.content import Json, Text
from store.overheard import Line
from store.people import PersonRow
from store.records import InboxItem, Message

#: Characters of a quoted message, and of a name, that an agent is given.
_QUOTED = 500
_NAME = 80


def metadata(item: InboxItem, person: PersonRow | None, heard: Sequence[Line]) -> dict[str, Json]:
    """What a message keeps of its circumstances."""
    about = item.about
    kept: dict[str, Json] = {"receivedAt": item.received_at}
    if person is not None:
        kept["sender"] = {"id": person.public_id, "name": item.sender_name or person.name}
        if about.user:
            kept["sender"]["user"] = f"{item.address.channel}:{about.user}"
        if about.group:
            kept["sender"]["group"] = True
    if about.quote is not None:
        sender = about.quote.sender
        kept["quote"] = {
            "text": about.quote.text[:_QUOTED],
            "name": "" if sender is None else sender.name,
            "user": None if sender is None else f"{item.address.channel}:{sender.id}",
        }
    if about.forwarded_from is not None:
        kept["forwardedFrom"] = about.forwarded_from
    if about.attachments:
        kept["attachments"] = [
            {"kind": one.kind, "name": one.name, "mime": one.mime, "size": one.size, "file": None, "error": None}
            for one in about.attachments
        ]
    if heard:
        kept["overheard"] = [{"user": line.sender, "name": line.name, "text": line.text} for line in heard]
    return kept


def prompt_text(message: Message) -> str:
    """A user's message as an agent reads it: circumstances as quoted data on lines of their own, then the words."""
    text = message.content.text if isinstance(message.content, Text) else ""
    if message.raw_metadata == "{}":
        return text
    about = message.metadata
    lines = [f"[overheard, not said to you] {_who(one)}: {quote(one['text'])}" for one in about.get("overheard", ())]
    head = _head(about)
    if head:
        lines.append(f"[{head}]")
    lines += [f"[file: {_file(one)}]" for one in about.get("attachments", ())]
    return "\n".join([*lines, text] if text else lines)


def _head(about: dict[str, Json]) -> str:
    sender, quoted = about.get("sender") or {}, about.get("quote")
    parts = [f"from {_who(sender)}"] if sender.get("group") else []
    if about.get("forwardedFrom") is not None:
        parts.append(f"forwarding what {quote(about['forwardedFrom'][:_NAME])} wrote")
    if quoted is not None:
        parts.append(f"replying to {_who(quoted)}: {quote(quoted['text'])}")
    return ", ".join(parts)


def _who(one: dict[str, Json]) -> str:
    return f"{quote((one.get('name') or '')[:_NAME])} ({one.get('user') or 'unknown'})"


def _file(one: dict[str, Json]) -> str:
    what = f"{one['kind']} {quote(one['name'][:_NAME])}"
    return f"{what}, not available: {quote(one['error'])}" if one["error"] else what
