"""Buttons: a press is acknowledged at once, handed over, and what comes of it is told to whoever pressed alone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import discord
from discord.http import Route

from channels.base import Button, Host, Verdict
from channels.discord.failures import translate
from channels.discord.places import Place
from channels.discord.receiving import one_line
from channels.discord.settings import Timing
from routing.messages import Press, Sender

_log = logging.getLogger(__name__)

#: The message stays as it is for now.
_DEFER = {"type": 6}
_EPHEMERAL = discord.MessageFlags(ephemeral=True).value


def view_of(buttons: tuple[Button, ...] | None) -> discord.ui.View | None:
    """As the library wants it; presses come to us as events, not to the view."""
    if not buttons:
        return None
    view = discord.ui.View(timeout=None)
    for number, one in enumerate(buttons):
        view.add_item(discord.ui.Button(label=one.label, custom_id=one.data, row=number // 2))
    view.stop()  # or the library keeps it for ever
    return view


async def take(
    client: discord.Client,
    interaction: discord.Interaction[Any],
    host: Host,
    place: Place,
    account: str,
    timing: Timing,
) -> None:
    """Never raises. The press itself counts also where Discord does not take our answer to it."""
    acknowledging = asyncio.create_task(_acknowledge(client, interaction, timing))
    data: Any = interaction.data or {}
    press = Press(
        channel="discord",
        account=account,
        chat=place.chat,
        sender=Sender(id=str(interaction.user.id), name=one_line(interaction.user.display_name)),
        data=str(data.get("custom_id", "")),
    )
    try:
        verdict = await host.press(press)
    finally:
        acknowledged = await acknowledging
    if acknowledged:
        await _tell(client, interaction, verdict, timing)


async def _acknowledge(client: discord.Client, interaction: discord.Interaction[Any], timing: Timing) -> bool:
    route = Route(
        "POST",
        "/interactions/{interaction_id}/{webhook_token}/callback",
        interaction_id=interaction.id,
        webhook_token=interaction.token,
    )
    return await _try(client.http.request(route, json=_DEFER), timing, "acknowledged")


async def _tell(
    client: discord.Client, interaction: discord.Interaction[Any], verdict: Verdict, timing: Timing
) -> None:
    """What was decided stands in the message itself; only what concerns the presser alone needs words."""
    where: dict[str, Any] = {"webhook_id": interaction.application_id, "webhook_token": interaction.token}
    if verdict.alert:
        body = {"content": verdict.text, "flags": _EPHEMERAL, "allowed_mentions": {"parse": []}}
        route = Route("POST", "/webhooks/{webhook_id}/{webhook_token}", **where)
        await _try(client.http.request(route, json=body), timing, "answered")
    if verdict.over:
        route = Route("PATCH", "/webhooks/{webhook_id}/{webhook_token}/messages/@original", **where)
        await _try(client.http.request(route, json={"components": []}), timing, "cleared")


async def _try(call: Any, timing: Timing, what: str) -> bool:
    try:
        async with asyncio.timeout(timing.call):
            await call
    except Exception as exc:
        _log.warning("A press could not be %s: %s", what, translate(exc, creates=False).why)
        return False
    return True
