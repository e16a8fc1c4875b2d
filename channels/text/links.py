"""Which addresses become links, and how they are written."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

#: Longer ones are shown as text, which can be split.
MAX_URL = 512
UNSAFE_IN_URL = re.compile(r"[\s\x00-\x20\x7f<>\"\\^`{|}]")


def link_target(url: str) -> str:
    """The address to link to, or "" if it has to be shown as text instead."""
    target = UNSAFE_IN_URL.sub(lambda match: quote(match.group()), url.strip())
    if len(target) > MAX_URL:
        return ""
    try:
        parts = urlsplit(target)
        scheme, host = parts.scheme.lower(), parts.hostname or ""
    except ValueError:
        return ""
    if scheme == "mailto":
        return target if "@" in parts.path else ""
    # Platforms drop links to hosts without a dot, and the address with them.
    return target if scheme in ("http", "https") and "." in host.strip(".") else ""
