"""What Discord looks at before it takes a message."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.fakes.discord.model import Channel, File, Ids, Message

Json = dict[str, Any]


class Refused(Exception):
    def __init__(self, status: int, code: int, message: str, **more: object) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "code": code, **more}


def invalid(field: str, code: str, message: str) -> Refused:
    errors = {field: {"_errors": [{"code": code, "message": message}]}}
    return Refused(400, 50035, "Invalid Form Body", errors=errors)


def answer(what: object, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """JSON whose type is exactly `application/json`, as discord.py wants it."""
    if what is None:
        return web.Response(status=204, headers=headers)
    body = json.dumps(what).encode()
    return web.Response(body=body, status=status, headers={"Content-Type": "application/json", **(headers or {})})


async def body_of(request: web.Request, ids: Ids, most: int) -> tuple[Json, tuple[File, ...]]:
    if not request.content_type.startswith("multipart/"):
        if request.headers.get("Content-Type") != "application/json":
            raise Refused(400, 50109, "The request body contains invalid JSON.")
        return await request.json(), ()
    body: Json = {}
    files: list[File] = []
    async for part in await request.multipart():
        assert not isinstance(part, str)
        content = bytes(await part.read())  # type: ignore[union-attr]
        if part.name == "payload_json":  # type: ignore[union-attr]
            body = json.loads(content)
        else:
            files.append(File(ids.next(), part.filename or "unknown", content))  # type: ignore[union-attr]
    if sum(len(file.content) for file in files) > most:
        raise Refused(413, 40005, "Request entity too large")
    return body, tuple(files)


def check_place(channel: Channel) -> None:
    if channel.refuses:
        raise Refused(*channel.refuses, "Refused")
    if channel.locked:
        raise Refused(403, 160005, "This thread is locked")


def check_content(body: Json, files: tuple[File, ...]) -> str:
    content = str(body.get("content") or "")
    if len(content) > 2000:
        raise invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")
    content = content.strip()
    if not content and not files:
        raise Refused(400, 50006, "Cannot send an empty message")
    return content


def check_components(body: Json) -> list[Json]:
    """Rows of buttons, as Discord takes them."""
    rows: list[Json] = body.get("components") or []
    if len(rows) > 5:
        raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be 5 or fewer in length.")
    carried: list[str] = []
    for row in rows:
        buttons = row.get("components", [])
        if row.get("type") != 1 or not 1 <= len(buttons) <= 5:
            raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for one in buttons:
            if one.get("type") != 2 or one.get("style") not in (1, 2, 3, 4):
                raise invalid("components", "BASE_TYPE_CHOICES", "Value must be one of (1, 2, 3, 4).")
            if not 1 <= len(one.get("label", "")) <= 80 or not 1 <= len(one.get("custom_id", "")) <= 100:
                raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 80 (100) in length.")
            carried.append(one["custom_id"])
    if len(set(carried)) < len(carried):
        raise invalid("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
    return rows


def check_reference(body: Json, channel: Channel) -> int | None:
    reference = body.get("message_reference")
    if reference is None:
        return None
    origin = channel.messages.get(int(reference["message_id"]))
    if origin is not None and not origin.deleted and int(reference.get("channel_id", channel.id)) == channel.id:
        return origin.id
    if reference.get("fail_if_not_exists", True):
        raise invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
    return None


def pings(message: Message, body: Json) -> set[int | str]:
    """Whom this message would notify; without `allowed_mentions` that is everybody it names."""
    allowed = body.get("allowed_mentions")
    parse = {"users", "roles", "everyone"} if allowed is None else set(allowed.get("parse", ()))
    pinged: set[int | str] = set()
    if "users" in parse:
        pinged.update(message.mentioned_users())
    if "roles" in parse:
        pinged.update(message.mentioned_roles())
    if "everyone" in parse and re.search("@(everyone|here)", message.content):
        pinged.add("everyone")
    if message.reply_to is not None and (allowed is None or allowed.get("replied_user")):
        pinged.add(message.channel.messages[message.reply_to].author.id)
    return pinged
