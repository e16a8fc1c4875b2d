"""Text and entities as the platform takes them: UTF-16 offsets, no part of a symbol, no crossing, outer space cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

Entity = dict[str, Any]

#: Type → the field it needs besides offset and length.
_TYPES: Mapping[str, str | None] = {
    **dict.fromkeys(("mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number")),
    **dict.fromkeys(("bold", "italic", "underline", "strikethrough", "spoiler", "code", "pre")),
    **dict.fromkeys(("blockquote", "expandable_blockquote")),
    "text_link": "url",
    "text_mention": "user",
    "custom_emoji": "custom_emoji_id",
}
_OPTIONAL = {"pre": {"language"}}
#: Nothing may stand inside these.
_CLOSED = {"code", "pre"}
#: More are ignored.
_MOST = 100
_UNSEEN = {"Zs", "Zl", "Zp", "Cc", "Cf"}
_AUTOMATIC = re.compile(r"(?P<mention>(?<!\w)@\w{4,32})|(?P<bot_command>(?<!\S)/\w{1,32}(?:@\w{4,32})?)", re.ASCII)


class Refused(Exception):
    """What Telegram says behind "Bad Request: "."""


def units(text: str) -> int:
    """The length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, offset: int, length: int) -> str:
    data = text.encode("utf-16-le", "surrogatepass")
    return data[2 * offset : 2 * (offset + length)].decode("utf-16-le")


def is_blank(text: str) -> bool:
    """Whether nobody would see anything of it."""
    return all(unicodedata.category(char) in _UNSEEN or char in "\u2800\u3164" for char in text)


def detect(text: str) -> list[Entity]:
    """The entities that the platform finds by itself."""
    return [
        {"type": found.lastgroup, "offset": units(text[: found.start()]), "length": units(found[0])}
        for found in _AUTOMATIC.finditer(text)
    ]


def clean(text: str, entities: Sequence[Entity]) -> tuple[str, list[Entity]]:
    """What is stored of a text that was sent, or `Refused`."""
    for one in entities:
        _check(text, one)
    _check_nesting(entities)
    # Space at the begin stays from the first entity on: a block of code may be indented.
    first = min((one["offset"] for one in entities), default=units(text))
    left = min(units(text) - units(text.lstrip()), first)
    stripped = cut(text, left, units(text)).rstrip()
    size = units(stripped)
    kept = []
    for one in entities[:_MOST]:
        start = max(one["offset"] - left, 0)
        end = min(one["offset"] + one["length"] - left, size)
        if start < end:
            kept.append({**one, "offset": start, "length": end - start})
    return stripped, kept


def _check(text: str, one: Entity) -> None:
    kind = str(one.get("type"))
    if kind not in _TYPES:
        raise Refused(f"can't parse MessageEntity: unsupported type {kind!r}")
    offset, length = one.get("offset"), one.get("length")
    if not isinstance(offset, int) or not isinstance(length, int):
        raise Refused("can't parse MessageEntity: offset and length must be numbers")
    needed = _TYPES[kind]
    allowed = {"type", "offset", "length", *([needed] if needed else []), *_OPTIONAL.get(kind, set())}
    if needed and not one.get(needed):
        raise Refused(f'can\'t parse MessageEntity: field "{needed}" is missing')
    if unknown := set(one) - allowed:
        raise Refused(f"can't parse MessageEntity: unknown fields {sorted(unknown)}")
    if offset < 0 or length <= 0 or offset + length > units(text):
        raise Refused(
            f"entity beginning at UTF-16 offset {offset} ends after the end of the text at UTF-16 offset {units(text)}"
        )
    for edge in (offset, offset + length):
        if _inside_symbol(text, edge):
            raise Refused(f"entity begins or ends in a middle of a UTF-16 symbol at offset {edge}")


def _inside_symbol(text: str, edge: int) -> bool:
    data = text.encode("utf-16-le", "surrogatepass")[2 * edge : 2 * edge + 2]
    return len(data) == 2 and 0xDC <= data[1] <= 0xDF


def _check_nesting(entities: Sequence[Entity]) -> None:
    # Of two with the same span the one that may hold nothing is the inner one.
    spans = sorted((one["offset"], -one["length"], one["type"] in _CLOSED, one["type"]) for one in entities)
    open_ends: list[tuple[int, str]] = []
    for offset, minus, _, kind in spans:
        end = offset - minus
        while open_ends and open_ends[-1][0] <= offset:
            open_ends.pop()
        if open_ends and end > open_ends[-1][0]:
            raise Refused("ENTITY_BOUNDS_INVALID: entities cross")
        if any(outer in _CLOSED for _, outer in open_ends):
            raise Refused(f"ENTITY_BOUNDS_INVALID: {kind} inside code")
        open_ends.append((end, kind))
