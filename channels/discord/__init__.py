"""Discord, by discord.py: one gateway connection and REST per account."""

from channels.discord.channel import DiscordChannel
from channels.discord.settings import Timing

__all__ = ["DiscordChannel", "Timing"]
