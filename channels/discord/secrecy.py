"""Keeps tokens out of the log lines of discord.py, which prints URLs and packets as they are."""

from __future__ import annotations

import logging
import re

_LOGGERS = ("discord.client", "discord.gateway", "discord.http", "discord.state", "discord.webhook.async_")

#: An interaction's token stands in the path of its calls, in the name of their bucket, and in the packet it came with.
_IN_PATH = re.compile(r"(/(?:webhooks|interactions)/\d+/)[^/\s'\"?]+")
_IN_BUCKET = re.compile(r"(\b\d{10,}\+)[^\s'\"]+")
_IN_PACKET = re.compile(r"(['\"]token['\"]\s*:\s*['\"])[^'\"]+")


def hide(text: str) -> str:
    for pattern in (_IN_PATH, _IN_BUCKET, _IN_PACKET):
        text = pattern.sub(r"\1***", text)
    return text


class _Hiding(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if (hidden := hide(message)) != message:
            record.msg, record.args = hidden, ()
        return True


_hiding = _Hiding()


def install() -> None:
    """Once is enough; again does no harm. On the loggers, because filters are not inherited."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hiding)
