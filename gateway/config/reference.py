"""The configuration reference, made from `config.toml.example`: `python -m gateway.config.reference`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

EXAMPLE = Path("config.toml.example")

_TABLE = re.compile(r"(?:# )?(\[\[?[\w.]+\]?\])")
_KEY = re.compile(r"(?:# )?(\w+) = (.+)")

_HEAD = """# Configuration reference

Made from `config.toml.example`; `python -m gateway.config.reference` writes it anew. Values are the defaults, or an
example where there is no default. A wrong file stops the start with exit code 78 and names every problem.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A table or a key of the example, with the comment above it."""

    table: str | None
    key: str | None
    value: str
    comment: str


def entries(example: str) -> Iterator[Entry]:
    comment: list[str] = []
    for line in example.splitlines():
        if found := _TABLE.fullmatch(line):
            yield Entry(found[1], None, "", " ".join(comment))
        elif found := _KEY.fullmatch(line):
            yield Entry(None, found[1], found[2], " ".join(comment))
        elif line.startswith("# "):
            comment.append(line[2:])
            continue
        comment = []


def uncommented(example: str) -> str:
    """The example with every key switched on."""
    return "\n".join(line[2:] if _TABLE.fullmatch(line) or _KEY.fullmatch(line) else line for line in _plain(example))


def _plain(example: str) -> Iterator[str]:
    """Lines, where a key that is on already gets the mark that `uncommented` takes away."""
    for line in example.splitlines():
        on = not line.startswith("#") and (_TABLE.fullmatch(line) or _KEY.fullmatch(line))
        yield f"# {line}" if on else line


def render(example: str) -> str:
    lines = [_HEAD]
    for entry in entries(example):
        if entry.table is not None:
            lines += [f"\n## `{entry.table}`\n", *([f"{entry.comment}\n"] if entry.comment else [])]
            lines += ["| key | value | meaning |", "|---|---|---|"]
        else:
            lines.append(f"| `{entry.key}` | `{entry.value}` | {entry.comment} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render(EXAMPLE.read_text()))
