"""Slash commands: acknowledged at once, answered in place.

A command that was used is "thinking" until its answer comes, which is an edit: it may be repeated. Its token is good
for 15 minutes; after that, and for whatever else is said, ordinary messages serve.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import discord
from discord.http import Route

from channels.discord.failures import EXPIRED, translate
from channels.discord.lanes import end
from channels.discord.places import Place, Recent
from channels.discord.receiving import external_id, one_line, roles_of
from channels.discord.settings import Timing
from routing.errors import DeliveryFailed
from routing.messages import Addressed, Inbound, Sender

_log = logging.getLogger(__name__)

_PREFIX = "interaction"
_FRESH = 14 * 60.0
_DEFER = {"type": 5}
_LOADING = discord.MessageFlags(loading=True).value
_NO_EMBEDS = discord.MessageFlags(suppress_embeds=True).value


@dataclass(frozen=True, slots=True)
class Pressed:
    """A command that was used: what its answer needs."""

    id: int
    application: int
    token: str = field(repr=False)

    def as_reply_to(self) -> str:
        return f"{_PREFIX}:{self.id}:{self.application}:{self.token}"

    def fresh(self, now: float) -> bool:
        return now - discord.utils.snowflake_time(self.id).timestamp() < _FRESH


def pressed_of(reply_to: str | None) -> Pressed | None:
    match (reply_to or "").split(":", 3):
        case [prefix, number, application, token] if prefix == _PREFIX:
            return Pressed(int(number), int(application), token)
        case _:
            return None


def inbound(interaction: discord.Interaction[Any], *, account: str, bot: int, place: Place) -> Inbound:
    pressed = Pressed(interaction.id, interaction.application_id, interaction.token)
    user = interaction.user
    return Inbound(
        external_id=external_id(bot, interaction.id),
        address=place.address(account, pressed.as_reply_to()),
        peer_kind=place.kind,
        sender=Sender(id=str(user.id), name=one_line(user.display_name), is_bot=user.bot),
        text=_typed(interaction.data),
        guild=place.guild,
        roles=roles_of(user),
        addressed=Addressed.COMMAND,
    )


def _typed(data: Any) -> str:
    """The command as somebody would have typed it."""
    values = [str(option["value"]) for option in data.get("options", ()) if "value" in option]
    return " ".join([f"/{data['name']}", *values]).strip()


class Answers:
    """Who answered which command. Lives longer than a connection."""

    def __init__(self, timing: Timing, now: Callable[[], float]) -> None:
        self._timing = timing
        self._now = now
        #: Command → its acknowledgement, true if it worked; only those of this process.
        self._deferred: Recent[int, asyncio.Task[bool]] = Recent(1000)
        #: Command → nonce of the item that is its answer.
        self._claimed: Recent[int, str] = Recent(1000)
        self._tasks: set[asyncio.Task[Any]] = set()

    def acknowledge(self, client: discord.Client, pressed: Pressed) -> None:
        """At once, whatever else waits; and see to it that nobody is left waiting for ever."""
        task = self.start(self._defer(client, pressed))
        self._deferred.put(pressed.id, task)
        self.start(self._give_up(client, pressed, task))

    async def close(self) -> None:
        await end(self._tasks)

    async def answer(self, client: discord.Client, pressed: Pressed, nonce: str, text: str) -> str | None:
        """The id of the answer; None if it has one already or it is too late for one. Raises as a call does."""
        if not await self._is_free(client, pressed, nonce):
            return await self.find(client, pressed, text) if self._claimed.get(pressed.id) is None else None
        self._claimed.put(pressed.id, nonce)
        body = {"content": text, "allowed_mentions": {"parse": []}, "flags": _NO_EMBEDS}
        found = await _unless_expired(client, "PATCH", pressed, json=body)
        if found is None:
            self._claimed.drop(pressed.id)
            return None
        return str(found["id"])

    async def find(self, client: discord.Client, pressed: Pressed, text: str) -> str | None:
        """The id of the answer if it is this text."""
        if not pressed.fresh(self._now()):
            return None
        found = await _unless_expired(client, "GET", pressed)
        same = found is not None and not _thinking(found) and found["content"].strip() == text.strip()
        return str(found["id"]) if found is not None and same else None

    async def drop(self, client: discord.Client, pressed: Pressed) -> None:
        """It is answered elsewhere: stop thinking. Nobody is worse off if it fails."""
        if self._claimed.get(pressed.id) is not None or not pressed.fresh(self._now()):
            return
        self._claimed.put(pressed.id, "")
        try:
            async with asyncio.timeout(self._timing.call):
                found = await _unless_expired(client, "GET", pressed)
                if found is not None and _thinking(found):
                    await _unless_expired(client, "DELETE", pressed)
        except Exception as exc:
            _log.warning("A slash command goes on thinking: %s", translate(exc, creates=False).why)

    async def _is_free(self, client: discord.Client, pressed: Pressed, nonce: str) -> bool:
        """Whether this item may be the answer."""
        owner = self._claimed.get(pressed.id)
        if owner is not None or not pressed.fresh(self._now()):
            return owner == nonce and pressed.fresh(self._now())
        deferred = self._deferred.get(pressed.id)
        if deferred is not None:
            return await asyncio.shield(deferred)
        # Of an earlier life: an answer that was given then must not be overwritten.
        found = await _unless_expired(client, "GET", pressed)
        return found is not None and _thinking(found)

    async def _defer(self, client: discord.Client, pressed: Pressed) -> bool:
        route = Route(
            "POST",
            "/interactions/{interaction_id}/{webhook_token}/callback",
            interaction_id=pressed.id,
            webhook_token=pressed.token,
        )
        try:
            async with asyncio.timeout(self._timing.call):
                await client.http.request(route, json=_DEFER)
        except Exception as exc:
            failure = translate(exc, creates=True)
            _log.warning("A slash command could not be acknowledged: %s", failure.why)
            return failure.ambiguous
        return True

    async def _give_up(self, client: discord.Client, pressed: Pressed, deferred: asyncio.Task[bool]) -> None:
        await asyncio.sleep(self._timing.answer)
        if await asyncio.shield(deferred):
            await self.drop(client, pressed)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _thinking(message: dict[str, Any]) -> bool:
    return bool(message.get("flags", 0) & _LOADING)


async def _unless_expired(client: discord.Client, method: str, pressed: Pressed, **how: Any) -> dict[str, Any] | None:
    route = Route(
        method,
        "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
        webhook_id=pressed.application,
        webhook_token=pressed.token,
    )
    try:
        found = await client.http.request(route, **how)
    except discord.HTTPException as exc:
        if exc.code in EXPIRED:
            return None
        raise
    if isinstance(found, str) and found and method != "DELETE":
        raise DeliveryFailed("Discord's answer makes no sense", retryable=True, ambiguous=True)
    return found if isinstance(found, dict) else {}
