"""Telegram: one account over the Bot API, by long polling."""

from __future__ import annotations

import os

# python-telegram-bot's way to say that times are timedeltas. Without it every 429 begins with a deprecation warning.
os.environ.setdefault("PTB_TIMEDELTA", "true")

from channels.telegram.channel import TelegramChannel  # noqa: E402 (the library reads the line above)
from channels.telegram.timing import Timing  # noqa: E402

__all__ = ["TelegramChannel", "Timing"]
