"""The commands in Discord's own menu, written only when they changed: Discord limits how often a day."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Sequence
from typing import Any

import discord

from channels.base import Host, MenuItem
from channels.discord.failures import translate

_log = logging.getLogger(__name__)

_FACT = "discord_commands"
_NOT_IN_A_NAME = re.compile(r"[^-_\w]")
_LONGEST_DESCRIPTION = 100
_TEXT = 3
_IN_SERVERS_AND_DMS = [0, 1]


async def synchronise(client: discord.Client, host: Host, seconds: float) -> None:
    """A failure is no reason not to talk; the next start tries again."""
    commands = [_command(item) for item in host.menu]
    application = client.application_id
    if application is None:
        return
    digest = hashlib.sha256(json.dumps([application, commands], sort_keys=True).encode()).hexdigest()
    if await host.recall(_FACT) == digest:
        return
    try:
        async with asyncio.timeout(seconds):
            await client.http.bulk_upsert_global_commands(application, commands)
    except Exception as exc:
        _log.warning("The slash commands could not be updated: %s", translate(exc, creates=False).why)
    else:
        await host.remember(_FACT, digest)


def _command(item: MenuItem) -> Any:
    return {
        "name": _name(item.name),
        "description": _description(item.description),
        "type": 1,
        "contexts": _IN_SERVERS_AND_DMS,
        "options": _options(item.argument),
    }


def _options(argument: str | None) -> Sequence[dict[str, Any]]:
    if argument is None:
        return []
    return [{"type": _TEXT, "name": _name(argument), "description": _description(argument), "required": False}]


def _name(text: str) -> str:
    return _NOT_IN_A_NAME.sub("_", text.lower())[:32]


def _description(text: str) -> str:
    return text if len(text) <= _LONGEST_DESCRIPTION else text[: _LONGEST_DESCRIPTION - 1] + "…"
