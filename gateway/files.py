"""Files that come with messages: fetched once, kept under names of our own, gone with what they belong to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from channels.base import Fetches
from gateway.clock import Clock
from gateway.delivery import Delivery
from gateway.health import DiskGuard
from gateway.logs import Event, log
from gateway.persist import Persist
from routing.errors import DeliveryFailed
from routing.messages import Attachment
from store import inbox, messages, sessions
from store.content import Json
from store.database import Database
from store.ids import Micros
from store.records import InboxItem, Turn

FOLDER = "files"

#: The largest file that is kept, in bytes: what Telegram lets a bot download.
LIMIT = 20 * 2**20
#: How long one may take to come.
_SECONDS = 60.0

#: Endings that tell a program what is inside; everything else is kept without one.
_ENDINGS = frozenset(
    """
    png jpg jpeg gif webp pdf txt md csv json xml html py js ts c h rs go java sh toml yaml yml log
    mp3 ogg oga wav m4a mp4 webm zip
    """.split()  # noqa: SIM905 (a list of forty quoted words is harder to read)
)
_ID = re.compile(r"[0-9a-f-]{36}")


class Files:
    """`data_dir/files/<session>/<message>-<number>.<ending>`, readable by the daemon's user alone."""

    def __init__(self, data_dir: Path, persist: Persist, delivery: Delivery, disk: DiskGuard, clock: Clock) -> None:
        self._folder = data_dir / FOLDER
        self._persist = persist
        self._delivery = delivery
        self._disk = disk
        self._clock = clock

    async def fetch(self, turn: Turn) -> None:
        """Bring the files of a turn's messages here, if they are not yet; what cannot be had is said so."""
        items = await self._persist.read(lambda db: inbox.of_turn(db, turn.id))
        for item in items:
            if item.about.attachments:
                await self._fetch_all(turn, item)

    async def _fetch_all(self, turn: Turn, item: InboxItem) -> None:
        session = await self._persist.read(lambda db: sessions.by_number(db, turn.session).public_id)
        found = [
            await self._fetch_one(session, item, number, attachment)
            for number, attachment in enumerate(item.about.attachments)
        ]
        await self._persist.must(lambda db: _note(db, item.message_id, found, item.received_at))

    async def _fetch_one(self, session: str, item: InboxItem, number: int, attachment: Attachment) -> dict[str, Json]:
        known: dict[str, Json] = {
            "kind": attachment.kind,
            "name": attachment.name,
            "mime": attachment.mime,
            "size": attachment.size,
            "file": None,
            "error": None,
        }
        path = self._folder / session / f"{item.message_id}-{number}{_ending(attachment.name)}"
        try:
            if not path.exists():
                async with self._clock.timeout(_SECONDS):
                    content = await self._content(item, attachment)
                await asyncio.to_thread(_write, path, content)
                known["size"] = len(content)
        except DeliveryFailed as failure:
            return {**known, "error": failure.why}
        except TimeoutError:
            return {**known, "error": "it took too long to come"}
        except OSError as exc:
            log(Event.FILE_FAILED, logging.ERROR, exc=exc, message=item.message_id)
            return {**known, "error": "it could not be stored"}
        except Exception as exc:  # a channel must not raise anything else; the question is answered without the file
            log(Event.FILE_FAILED, logging.ERROR, exc=exc, message=item.message_id)
            return {**known, "error": "it could not be fetched"}
        return {**known, "file": str(path.relative_to(self._folder))}

    async def _content(self, item: InboxItem, attachment: Attachment) -> bytes:
        channel: object = self._delivery.channel(item.address)
        if not isinstance(channel, Fetches):
            raise DeliveryFailed("this channel cannot fetch files", retryable=False)
        if (attachment.size or 0) > LIMIT:
            raise DeliveryFailed(f"it is larger than {LIMIT // 2**20} MB", retryable=False)
        if self._disk.low():
            raise DeliveryFailed("the disk is nearly full", retryable=True)
        return await channel.fetch(attachment, LIMIT)


def remove_session(data_dir: Path, session: str) -> None:
    """The files of a session that is gone."""
    if _ID.fullmatch(session):
        shutil.rmtree(data_dir / FOLDER / session, ignore_errors=True)


def remove_of(data_dir: Path, message_ids: Iterable[str]) -> None:
    """The files of single messages, wherever they are."""
    gone = set(message_ids)
    for path in (data_dir / FOLDER).glob("*/*"):
        if path.name[:36] in gone:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not the last one
                path.parent.rmdir()


def message_ids(data_dir: Path) -> set[str]:
    """Of all messages whose files are here."""
    return {path.name[:36] for path in (data_dir / FOLDER).glob("*/*")}


def _note(db: Database, message_id: str, found: list[dict[str, Json]], now: Micros) -> None:
    row = messages.by_public_id(db, message_id)
    _, when = sessions.advance(db, row.id >> 32, 0, now)
    messages.replace(db, row.id, row.content, when, metadata={**row.metadata, "attachments": found})


def _ending(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    return f".{ending}" if ending in _ENDINGS else ""


def _write(path: Path, content: bytes) -> None:
    """All of it under its name, or nothing; for the daemon's user alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
