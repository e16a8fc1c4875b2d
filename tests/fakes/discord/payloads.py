"""The JSON that Discord speaks."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from tests.fakes.discord.model import (
    HAS_SNAPSHOT,
    Bot,
    Channel,
    ChannelType,
    File,
    Guild,
    Message,
    MessageType,
    Pressed,
    Role,
    User,
)

Json = dict[str, Any]

_ALL_PERMISSIONS = str((1 << 50) - 1)


def moment(snowflake: int) -> str:
    return datetime.fromtimestamp(((snowflake >> 22) + 1_420_070_400_000) / 1000, UTC).isoformat()


def user(one: User) -> Json:
    return {
        "id": str(one.id),
        "username": one.name.lower().replace(" ", "_"),
        "global_name": one.name,
        "discriminator": "0",
        "avatar": None,
        "bot": one.bot,
        "public_flags": 0,
    }


def application(bot: Bot) -> Json:
    return {
        "id": str(bot.application),
        "name": bot.name,
        "icon": None,
        "description": "",
        "rpc_origins": None,
        "bot_public": False,
        "bot_require_code_grant": False,
        "owner": {"id": "1", "username": "maker", "discriminator": "0", "avatar": None},
        "summary": "",
        "verify_key": "0" * 64,
        "team": None,
        "flags": 1 << 19 if bot.message_content else 0,
    }


def role(one: Role) -> Json:
    return {
        "id": str(one.id),
        "name": one.name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": 1,
        "permissions": _ALL_PERMISSIONS,
        "managed": one.of_bot is not None,
        "mentionable": True,
        "flags": 0,
        "tags": {} if one.of_bot is None else {"bot_id": str(one.of_bot)},
    }


def member(guild: Guild, one: User, *, with_user: bool = True) -> Json:
    roles = sorted(guild.members.get(one.id, set()))
    found: Json = {
        "roles": [str(each) for each in roles],
        "nick": None,
        "avatar": None,
        "joined_at": "2024-01-01T00:00:00+00:00",
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "flags": 0,
        "pending": False,
    }
    return found | ({"user": user(one)} if with_user else {})


def channel(one: Channel) -> Json:
    last = one.last_message_id
    found: Json = {"id": str(one.id), "type": int(one.type), "last_message_id": str(last) if last else None}
    if one.guild is None:
        return found | {"recipients": [user(each) for each in one.recipients]} | {"name": one.name, "owner_id": "1"}
    found |= {
        "guild_id": str(one.guild.id),
        "name": one.name,
        "parent_id": str(one.parent.id) if one.parent else None,
        "position": 0,
        "permission_overwrites": [],
        "nsfw": False,
        "topic": None,
        "rate_limit_per_user": 0,
    }
    if one.type is ChannelType.FORUM:
        found |= {"available_tags": [], "default_reaction_emoji": None, "default_sort_order": None}
    if one.type is ChannelType.THREAD:
        found |= {
            "owner_id": "1",
            "message_count": len(one.messages),
            "member_count": 1,
            "thread_metadata": {
                "archived": one.archived,
                "locked": one.locked,
                "auto_archive_duration": 1440,
                "archive_timestamp": moment(one.id),
                "create_timestamp": moment(one.id),
            },
        }
    return found


def guild(one: Guild, channels: list[Channel], me: Bot) -> Json:
    inside = [each for each in channels if each.guild is one and not each.gone]
    return {
        "id": str(one.id),
        "name": one.name,
        "icon": None,
        "owner_id": "1",
        "roles": [role(each) for each in one.roles.values()],
        "emojis": [],
        "stickers": [],
        "features": [],
        "channels": [channel(each) for each in inside if each.type is not ChannelType.THREAD],
        "threads": [channel(each) for each in inside if each.type is ChannelType.THREAD and not each.archived],
        "members": [member(one, me)],
        "member_count": len(one.members),
        "voice_states": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
        "large": False,
        "unavailable": False,
        "joined_at": "2024-01-01T00:00:00+00:00",
        "premium_tier": 0,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "system_channel_flags": 0,
        "afk_timeout": 300,
        "preferred_locale": "en-US",
    }


def attachment(one: File, at: str, place: int) -> Json:
    url = f"{at}/attachments/{place}/{one.id}/{re.sub('[^-.a-zA-Z0-9]', '_', one.name)}"
    return {
        "id": str(one.id),
        "filename": one.name,
        "size": len(one.content),
        "url": url,
        "proxy_url": url,
        "content_type": one.mime,
    }


def message(one: Message, at: str, everybody: dict[int, User], *, depth: int = 1) -> Json:
    """As REST shows it: without guild, member and nonce."""
    found: Json = {
        "id": str(one.id),
        "channel_id": str(one.channel.id),
        "author": user(one.author),
        "content": one.content,
        "timestamp": moment(one.id),
        "edited_timestamp": moment(one.id) if one.edited else None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [user(everybody[each]) for each in one.mentioned_users() if each in everybody],
        "mention_roles": [str(each) for each in one.mentioned_roles()],
        "attachments": [attachment(each, at, one.channel.id) for each in one.files],
        "embeds": [],
        "pinned": False,
        "type": int(one.type),
        "flags": one.flags,
        "components": one.components,
    }
    if one.webhook_id is not None:
        found["webhook_id"] = str(one.webhook_id)
    if one.snapshot is not None:
        found |= _forward(one, at)
    elif one.reply_to is not None:
        found["message_reference"] = {"type": 0, "message_id": str(one.reply_to), "channel_id": str(one.channel.id)}
        if one.type is MessageType.REPLY and depth:
            origin = one.channel.messages.get(one.reply_to)
            there = origin is not None and not origin.deleted
            found["referenced_message"] = message(origin, at, everybody, depth=0) if origin and there else None
    return found


def _forward(one: Message, at: str) -> Json:
    assert one.snapshot is not None
    inner = {
        "type": 0,
        "content": one.snapshot.content,
        "embeds": [],
        "attachments": [attachment(each, at, one.channel.id) for each in one.snapshot.files],
        "timestamp": moment(one.id),
        "edited_timestamp": None,
        "flags": 0,
        "mentions": [],
        "mention_roles": [],
    }
    reference = {"type": 1, "message_id": str(one.id - 1), "channel_id": str(one.channel.id)}
    return {
        "flags": one.flags | HAS_SNAPSHOT,
        "message_reference": reference,
        "message_snapshots": [{"message": inner}],
    }


def event(one: Message, at: str, everybody: dict[int, User]) -> Json:
    """As the gateway shows it."""
    found = message(one, at, everybody)
    if one.channel.guild is not None:
        found["guild_id"] = str(one.channel.guild.id)
        if one.webhook_id is None:
            found["member"] = member(one.channel.guild, one.author, with_user=False)
    return found


def interaction(one: Pressed, name: str, argument: tuple[str, str] | None) -> Json:
    options = [] if argument is None else [{"name": argument[0], "type": 3, "value": argument[1]}]
    return _interaction(one) | {"type": 2, "data": {"id": str(one.id), "name": name, "type": 1, "options": options}}


def component(one: Pressed, at: str, everybody: dict[int, User]) -> Json:
    """A button under a message."""
    assert one.message is not None
    data = {"custom_id": one.custom_id, "component_type": 2, "id": 1}
    return _interaction(one) | {"type": 3, "data": data, "message": message(one.message, at, everybody)}


def _interaction(one: Pressed) -> Json:
    found: Json = {
        "id": str(one.id),
        "application_id": str(one.bot.application),
        "token": one.token,
        "version": 1,
        "channel": channel(one.channel),
        "channel_id": str(one.channel.id),
        "locale": "en-US",
        "app_permissions": _ALL_PERMISSIONS,
        "entitlements": [],
        "authorizing_integration_owners": {},
        "attachment_size_limit": 10_485_760,
        "context": 0 if one.channel.guild else 1,
    }
    if one.channel.guild is None:
        return found | {"user": user(one.user)}
    who = member(one.channel.guild, one.user) | {"permissions": _ALL_PERMISSIONS}
    return found | {"guild_id": str(one.channel.guild.id), "member": who}
