"""Text from outside on one line that cannot be mistaken for two."""

from __future__ import annotations

import json


def quote(text: str) -> str:
    """The text as a JSON string of visible characters only: no line breaks, no control characters."""
    quoted = json.dumps(text, ensure_ascii=False)
    if quoted.isprintable():
        return quoted
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in quoted)
