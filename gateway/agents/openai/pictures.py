"""Images that came with the messages of this turn, as data URLs; those of earlier turns are only named."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path

from store.records import Message

_log = logging.getLogger("trunkline.openai")

#: What models take, by how the file begins: a platform's word for its type is not always true.
_KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


async def of_messages(messages: tuple[Message, ...], folder: Path) -> dict[str, tuple[str, ...]]:
    """Data URLs by the id of the message."""
    found: dict[str, tuple[str, ...]] = {}
    for message in messages:
        names = [one.get("file") for one in message.metadata.get("attachments", ()) if one.get("kind") == "image"]
        if paths := [folder / name for name in names if name]:
            found[message.public_id] = await asyncio.to_thread(_read, paths, folder)
    return found


def _read(paths: list[Path], folder: Path) -> tuple[str, ...]:
    urls = []
    for path in paths:
        try:
            # An imported conversation may name anything.
            content = path.read_bytes() if path.resolve().is_relative_to(folder.resolve()) else b""
        except OSError as exc:
            _log.warning("an image cannot be read: %s", exc)
            continue
        if (kind := kind_of(content)) is not None:
            urls.append(f"data:{kind};base64,{base64.b64encode(content).decode()}")
    return tuple(urls)


def kind_of(content: bytes) -> str | None:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS.items() if content.startswith(start)), None)
