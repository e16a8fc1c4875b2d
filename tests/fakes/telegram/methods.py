"""The methods of the Bot API that the gateway uses, as strict as Telegram or stricter."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.fakes.telegram import buttons
from tests.fakes.telegram.entities import Refused, clean, is_blank, units
from tests.fakes.telegram.errors import ApiError, bad
from tests.fakes.telegram.platform import Platform
from tests.fakes.telegram.world import Bot, Chat, Json, Message

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
LARGEST_DOWNLOAD = 20 * 1024 * 1024
LARGEST_UPLOAD = 50 * 1024 * 1024
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_Read = Callable[[str], Any]
_SEND: Mapping[str, _Read] = {"chat_id": int, "message_thread_id": int, "reply_parameters": json.loads}


#: Method → what it takes and how that is read. The real server ignores the rest; here a typing error shows.
FIELDS: Mapping[str, Mapping[str, _Read]] = {
    "getMe": {},
    "getUpdates": {"offset": int, "limit": int, "timeout": float, "allowed_updates": json.loads},
    "getWebhookInfo": {},
    "deleteWebhook": {"drop_pending_updates": json.loads},
    "sendMessage": {
        **_SEND,
        "text": str,
        "entities": json.loads,
        "link_preview_options": json.loads,
        "reply_markup": json.loads,
    },
    "sendDocument": {**_SEND, "document": str, "caption": str},
    "editMessageText": {
        "chat_id": int,
        "message_id": int,
        "text": str,
        "entities": json.loads,
        "link_preview_options": json.loads,
        "reply_markup": json.loads,
    },
    "editMessageReplyMarkup": {"chat_id": int, "message_id": int, "reply_markup": json.loads},
    "answerCallbackQuery": {"callback_query_id": str, "text": str, "show_alert": json.loads},
    "sendChatAction": {"chat_id": int, "message_thread_id": int, "action": str},
    "setMyCommands": {"commands": json.loads},
    "getFile": {"file_id": str},
}


def read(method: str, raw: Mapping[str, str]) -> Json:
    """The parameters of a call, checked."""
    fields = FIELDS.get(method)
    if fields is None:
        raise ApiError(404, "Not Found: method not found")
    if unknown := raw.keys() - fields.keys():
        raise bad(f"unknown fields {sorted(unknown)}")
    try:
        return {name: fields[name](value) for name, value in raw.items()}
    except ValueError:
        raise bad(f"can't parse the fields {sorted(raw)}") from None


class Methods:
    """Carries calls out in the world of a platform."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def call(  # noqa: C901 (a table)
        self, bot: Bot, method: str, params: Json, files: Mapping[str, tuple[str, bytes]]
    ) -> Any:
        match method:
            case "getMe":
                rights = {"can_join_groups": True, "can_read_all_group_messages": False}
                return bot.user.json() | rights | {"supports_inline_queries": False}
            case "getUpdates":
                return await self._get_updates(bot, params)
            case "getWebhookInfo":
                pending = len(bot.updates)
                return {"url": bot.webhook, "has_custom_certificate": False, "pending_update_count": pending}
            case "deleteWebhook":
                bot.webhook = ""
                return True
            case "setMyCommands":
                return self._set_commands(bot, params["commands"])
            case "getFile":
                return self._get_file(params["file_id"])
            case "sendChatAction":
                return self._act(bot, params)
            case "sendMessage":
                return self._send(bot, params, self._text(params) | buttons.keyboard(params))
            case "answerCallbackQuery":
                return buttons.answer(bot, params)
            case "sendDocument":
                return self._send(bot, params, *self._document(params, files))
        text = {} if method == "editMessageReplyMarkup" else self._text(params, too_long="MESSAGE_TOO_LONG")
        return self._edit(bot, params, text)

    async def _get_updates(self, bot: Bot, params: Json) -> list[Json]:
        if bot.webhook:
            raise ApiError(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the "
                "webhook first",
            )
        if "allowed_updates" in params:
            bot.allowed = frozenset(params["allowed_updates"]) or None
        offset = params.get("offset", 0)
        bot.confirmed += [one["update_id"] for one in bot.updates if one["update_id"] < offset]
        bot.updates = _from(offset, bot)
        bot.poll += 1
        mine = bot.poll
        bot.polling += 1
        self._platform.poke()
        try:
            async with asyncio.timeout(params.get("timeout", 0)):
                while not (found := _from(offset, bot)):
                    await self._platform.change()
                    if bot.poll != mine:
                        bot.conflicts += 1
                        raise ApiError(
                            409,
                            "Conflict: terminated by other getUpdates request; make sure that only one bot instance "
                            "is running",
                        )
        except TimeoutError:
            return []
        finally:
            bot.polling -= 1
        return found[: params.get("limit", 100)]

    def _set_commands(self, bot: Bot, commands: list[Json]) -> bool:
        for one in commands:
            if one.keys() != {"command", "description"} or not _COMMAND.fullmatch(one["command"]):
                raise bad("BOT_COMMAND_INVALID")
            if not 1 <= len(one["description"]) <= 256:
                raise bad("BOT_COMMAND_DESCRIPTION_INVALID")
        if len(commands) > 100:
            raise bad("BOT_COMMANDS_TOO_MUCH")
        bot.commands = commands
        return True

    def _get_file(self, file_id: str) -> Json:
        if file_id not in self._platform.files:
            raise bad("wrong file_id or the file is temporarily unavailable")
        name, data = self._platform.files[file_id]
        if len(data) > LARGEST_DOWNLOAD:
            raise bad("file is too big")
        return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data), "file_path": name}

    def _act(self, bot: Bot, params: Json) -> bool:
        chat = self._chat(bot, params)
        self._thread(chat, params)
        if params.get("action") != "typing":
            raise bad("wrong parameter action in request")
        chat.actions.append((time.monotonic(), bot, params.get("message_thread_id")))
        return True

    def _send(self, bot: Bot, params: Json, content: Json, file: bytes | None = None) -> Json:
        chat = self._chat(bot, params)
        head: Json = {"from": bot.user.json(), **self._thread(chat, params), **self._reply(chat, params)}
        message = chat.new_message(head | content, bot)
        message.versions.append((time.monotonic(), message.text))
        message.file = file
        return message.data

    def _edit(self, bot: Bot, params: Json, content: Json) -> Json:
        """Buttons that are not given again are gone."""
        chat = self._chat(bot, params)
        message = chat.messages.get(params.get("message_id", 0))
        if message is None:
            raise bad("message to edit not found")
        if message.bot is not bot or message.file is not None:
            raise bad("message can't be edited")
        kept = {key: value for key, value in message.data.items() if key in ("text", "entities")}
        content = (content or kept) | buttons.keyboard(params)
        if all(message.data.get(key, []) == content.get(key, []) for key in ("text", "entities", "reply_markup")):
            raise bad(
                "message is not modified: specified new message content and reply markup are exactly the same as a "
                "current content and reply markup of the message"
            )
        message.data = {k: v for k, v in message.data.items() if k not in ("entities", "reply_markup")}
        message.data |= {**content, "edit_date": int(time.time())}
        message.versions.append((time.monotonic(), message.text))
        return message.data

    def _text(self, params: Json, too_long: str = "message is too long") -> Json:
        try:
            text, entities = clean(params.get("text", ""), params.get("entities", []))
        except Refused as why:
            raise bad(str(why)) from None
        if is_blank(text):
            raise bad("message text is empty")
        if units(text) > LONGEST_TEXT:
            raise bad(too_long)
        return {"text": text} | ({"entities": entities} if entities else {})

    def _document(self, params: Json, files: Mapping[str, tuple[str, bytes]]) -> tuple[Json, bytes]:
        name = params.get("document", "").removeprefix("attach://") or "document"
        if name not in files:
            raise bad("there is no document in the request")
        filename, data = files[name]
        if not data:
            raise bad("file must be non-empty")
        if len(data) > LARGEST_UPLOAD:
            raise ApiError(413, "Request Entity Too Large")
        if units(params.get("caption", "")) > LONGEST_CAPTION:
            raise bad("message caption is too long")
        document = {"file_id": f"sent-{filename}", "file_unique_id": f"u-{filename}", "file_name": filename}
        caption = {"caption": params["caption"]} if "caption" in params else {}
        return {"document": document | {"file_size": len(data)}, **caption}, data

    def _chat(self, bot: Bot, params: Json) -> Chat:
        chat = self._platform.find_chat(bot, params.get("chat_id", 0))
        if chat is None:
            raise bad("chat not found")
        if chat.moved_to is not None:
            moved = {"migrate_to_chat_id": chat.moved_to}
            raise ApiError(400, "Bad Request: group chat was upgraded to a supergroup chat", moved)
        if chat.closed:
            raise ApiError(403, f"Forbidden: {chat.closed}")
        return chat

    def _thread(self, chat: Chat, params: Json) -> Json:
        thread = params.get("message_thread_id")
        if thread is None:
            return {}
        if thread not in chat.topics:
            raise bad("message thread not found")
        return {"message_thread_id": thread, "is_topic_message": True}

    def _reply(self, chat: Chat, params: Json) -> Json:
        wanted = params.get("reply_parameters")
        if wanted is None:
            return {}
        if unknown := wanted.keys() - {"message_id", "allow_sending_without_reply"}:
            raise bad(f"unknown fields {sorted(unknown)}")
        answered: Message | None = chat.messages.get(wanted["message_id"])
        if answered:
            return {"reply_to_message": {k: v for k, v in answered.data.items() if k != "reply_to_message"}}
        if wanted.get("allow_sending_without_reply"):
            return {}
        raise bad("message to be replied not found")


def _from(offset: int, bot: Bot) -> list[Json]:
    return [one for one in bot.updates if one["update_id"] >= offset]
