"""REST, as strict as the real one."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.discord import payloads
from tests.fakes.discord.checks import (
    Refused,
    answer,
    body_of,
    check_components,
    check_content,
    check_place,
    check_reference,
    invalid,
    pings,
)
from tests.fakes.discord.model import LOADING, Bot, Channel, Message, MessageType, Pressed
from tests.fakes.discord.world import World

Json = dict[str, Any]

#: Seconds for which a nonce is remembered: "the past few minutes".
NONCE_SECONDS = 180.0
ACKNOWLEDGE_SECONDS = 3.0
TOKEN_SECONDS = 15 * 60.0
_COMMAND = re.compile(r"[-_\w]{1,32}")


@dataclass(slots=True)
class Rest:
    world: World
    #: Application id → its commands, and how often they were written.
    commands: dict[int, list[Json]] = field(default_factory=dict)
    command_writes: int = 0
    typed: list[int] = field(default_factory=list)
    #: Whether history shows the nonce of a message. The real one does not promise it.
    nonce_in_history: bool = False
    most_upload: int = 10 * 1024 * 1024
    _nonces: dict[tuple[int, int, str], tuple[float, Message]] = field(default_factory=dict)

    def routes(self) -> list[tuple[str, str, str, Callable[[web.Request], Any]]]:
        """Method, path, name of the call, handler."""
        channel, original = "/channels/{channel}", "/webhooks/{app}/{token}/messages/@original"
        return [
            ("GET", "/users/@me", "me", self.me),
            ("GET", "/oauth2/applications/@me", "application", self.application),
            ("POST", "/users/@me/channels", "open_dm", self.open_dm),
            ("GET", "/applications/{app}/commands", "get_commands", self.get_commands),
            ("PUT", "/applications/{app}/commands", "put_commands", self.put_commands),
            ("GET", "/guilds/{guild}/members/{user}", "member", self.member),
            ("GET", channel, "channel", self.channel),
            ("GET", channel + "/messages", "history", self.history),
            ("GET", channel + "/messages/{message}", "message", self.message),
            ("POST", channel + "/messages", "send", self.send),
            ("PATCH", channel + "/messages/{message}", "edit", self.edit),
            ("DELETE", channel + "/messages/{message}", "delete", self.delete),
            ("POST", channel + "/typing", "typing", self.typing),
            ("POST", "/interactions/{id}/{token}/callback", "acknowledge", self.acknowledge),
            ("POST", "/webhooks/{app}/{token}", "follow_up", self.follow_up),
            ("GET", original, "get_original", self.get_original),
            ("PATCH", original, "edit_original", self.edit_original),
            ("DELETE", original, "delete_original", self.delete_original),
        ]

    # Who asks

    def bot(self, request: web.Request) -> Bot:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        bot = self.world.bot_of(token)
        if kind != "Bot" or bot is None:
            raise Refused(401, 0, "401: Unauthorized")
        return bot

    def _application(self, request: web.Request) -> Bot:
        bot = self.bot(request)
        if request.match_info["app"] != str(bot.application):
            raise Refused(403, 20012, "You are not authorized to perform this action on this application")
        return bot

    def _channel(self, request: web.Request) -> Channel:
        bot = self.bot(request)
        channel = self.world.channels.get(int(request.match_info["channel"]))
        if channel is None or channel.gone:
            raise Refused(404, 10003, "Unknown Channel")
        inside = channel.guild.members if channel.guild else {one.id for one in channel.recipients}
        if bot.id not in inside:
            raise Refused(403, 50001, "Missing Access")
        return channel

    def _message(self, request: web.Request) -> Message:
        found = self._channel(request).messages.get(int(request.match_info["message"]))
        if found is None or found.deleted:
            raise Refused(404, 10008, "Unknown Message")
        return found

    # Accounts

    async def me(self, request: web.Request) -> web.Response:
        return answer(payloads.user(self.bot(request)))

    async def application(self, request: web.Request) -> web.Response:
        return answer(payloads.application(self.bot(request)))

    async def member(self, request: web.Request) -> web.Response:
        self.bot(request)
        guild = self.world.guilds[int(request.match_info["guild"])]
        user = self.world.users.get(int(request.match_info["user"]))
        if user is None or user.id not in guild.members:
            raise Refused(404, 10007, "Unknown Member")
        return answer(payloads.member(guild, user))

    async def open_dm(self, request: web.Request) -> web.Response:
        bot = self.bot(request)
        user = self.world.users[int((await request.json())["recipient_id"])]
        return answer(payloads.channel(self.world.dm(user, bot)))

    async def channel(self, request: web.Request) -> web.Response:
        return answer(payloads.channel(self._channel(request)))

    async def get_commands(self, request: web.Request) -> web.Response:
        return answer(self.commands.get(self._application(request).application, []))

    async def put_commands(self, request: web.Request) -> web.Response:
        bot = self._application(request)
        self.command_writes += 1
        commands = await request.json()
        for number, one in enumerate(commands):
            for named in (one, *one.get("options", ())):
                if not _COMMAND.fullmatch(named["name"]) or named["name"] != named["name"].lower():
                    raise invalid(f"{number}.name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
                if not 1 <= len(named["description"]) <= 100:
                    raise invalid(f"{number}.description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100")
        self.commands[bot.application] = commands
        added = {"application_id": str(bot.application), "version": "1", "default_member_permissions": None}
        return answer([{"id": str(self.world.ids.next()), **one, **added} for one in commands])

    # Messages

    def _shown(self, message: Message) -> Json:
        return payloads.message(message, self.world.root, self.world.users)

    async def history(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        limit = int(request.query.get("limit", 50))
        if not 1 <= limit <= 100:
            raise invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
        after, before = int(request.query.get("after", 0)), int(request.query.get("before", 1 << 63))
        found = [one for one in self.world.visible(channel) if after < one.id < before]
        found.sort(key=lambda one: one.id)
        page = found[:limit] if "after" in request.query else found[-limit:]
        shown = [self._shown(one) | self._nonce_of(one) for one in reversed(page)]
        return answer(shown)

    def _nonce_of(self, message: Message) -> Json:
        return {"nonce": message.nonce} if message.nonce and self.nonce_in_history else {}

    async def message(self, request: web.Request) -> web.Response:
        return answer(self._shown(self._message(request)))

    async def typing(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        if channel.refuses:
            raise Refused(*channel.refuses, "Refused")
        self.typed.append(channel.id)
        return answer(None)

    async def send(self, request: web.Request) -> web.Response:
        channel, bot = self._channel(request), self.bot(request)
        body, files = await body_of(request, self.world.ids, self.most_upload)
        check_place(channel)
        content = check_content(body, files)
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > 25:
            raise invalid("nonce", "NONCE_TYPE_TOO_LONG", "Nonce must be 25 or fewer in length.")
        if nonce is not None and body.get("enforce_nonce"):
            before = self._nonces.get((bot.id, channel.id, nonce))
            if before is not None and self.world.clock() - before[0] < NONCE_SECONDS:
                return answer(self._shown(before[1]) | {"nonce": nonce})
        reply_to = check_reference(body, channel)
        message = Message(
            self.world.ids.next(),
            channel,
            bot,
            content,
            nonce=nonce,
            reply_to=reply_to,
            type=MessageType.REPLY if reply_to else MessageType.DEFAULT,
            files=files,
            flags=body.get("flags", 0),
            components=check_components(body),
        )
        message.pinged = pings(message, body)
        if nonce is not None:
            self._nonces[bot.id, channel.id, nonce] = (self.world.clock(), message)
        self.world.put(message)
        return answer(self._shown(message) | ({"nonce": nonce} if nonce else {}))

    async def edit(self, request: web.Request) -> web.Response:
        message, bot = self._message(request), self.bot(request)
        if message.author is not bot:
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        body, files = await body_of(request, self.world.ids, self.most_upload)
        check_place(message.channel)
        content = check_content(body, files)
        if "components" in body:
            message.components = check_components(body)
        if files:
            message.files = files
        message.pinged |= pings(message, body)
        self.world.change(message, content)
        return answer(self._shown(message))

    async def delete(self, request: web.Request) -> web.Response:
        self.world.delete(self._message(request))
        return answer(None)

    # Interactions

    async def acknowledge(self, request: web.Request) -> web.Response:
        pressed = self.world.pressed.get(request.match_info["token"])
        waited = self.world.clock() - pressed.at if pressed else 0.0
        if pressed is None or str(pressed.id) != request.match_info["id"] or waited > ACKNOWLEDGE_SECONDS:
            raise Refused(404, 10062, "Unknown interaction")
        if pressed.acknowledged_after is not None:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        body = await request.json()
        if body["type"] != (5 if pressed.custom_id is None else 6):
            raise invalid("type", "BASE_TYPE_CHOICES", "this fake only knows deferred answers")
        pressed.acknowledged_after = waited
        if pressed.custom_id is not None:
            self.world.watch.changed()
            return answer(None)
        pressed.message = Message(self.world.ids.next(), pressed.channel, pressed.bot, "", flags=LOADING)
        self.world.put(pressed.message)
        return answer(None)

    def _original(self, request: web.Request) -> tuple[Pressed, Message]:
        pressed = self.world.pressed.get(request.match_info["token"])
        if pressed is None or str(pressed.bot.application) != request.match_info["app"]:
            raise Refused(404, 10015, "Unknown Webhook")
        if self.world.clock() - pressed.at > TOKEN_SECONDS:
            raise Refused(401, 50027, "Invalid Webhook Token")
        if pressed.message is None or pressed.message.deleted:
            raise Refused(404, 10008, "Unknown Message")
        return pressed, pressed.message

    async def get_original(self, request: web.Request) -> web.Response:
        return answer(self._shown(self._original(request)[1]))

    async def edit_original(self, request: web.Request) -> web.Response:
        _, message = self._original(request)
        body, files = await body_of(request, self.world.ids, self.most_upload)
        if body.keys() == {"components"}:
            message.components = check_components(body)
            self.world.change(message, message.content)
            return answer(self._shown(message))
        content = check_content(body, files)
        message.files = files or message.files
        message.flags = body.get("flags", 0)
        message.pinged |= pings(message, body | {"content": content})
        self.world.change(message, content)
        return answer(self._shown(message))

    async def follow_up(self, request: web.Request) -> web.Response:
        """More words to an interaction; this fake takes those that only one person sees."""
        pressed, message = self._original(request)
        body, files = await body_of(request, self.world.ids, self.most_upload)
        if pressed.acknowledged_after is None:
            raise Refused(404, 10015, "Unknown Webhook")
        if body.get("flags") != 64 or body.get("allowed_mentions") != {"parse": []}:
            raise invalid("flags", "BASE_TYPE_CHOICES", "this fake only knows what one person sees")
        pressed.whispers.append(check_content(body, files))
        self.world.watch.changed()
        return answer(self._shown(message))

    async def delete_original(self, request: web.Request) -> web.Response:
        self.world.delete(self._original(request)[1])
        return answer(None)


def a_token() -> str:
    """Shaped like the real ones."""
    return f"MTk4NjIy{secrets.token_hex(8)}.Cl2FMQ.{secrets.token_hex(14)}"
