"""What commands print: tables and sentences for people, JSON for scripts, progress for those who wait."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import click

_GAP = "  "
#: Characters that change the direction of the text around them.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Aligned columns; `right` names those that hold numbers. Only a terminal's width cuts a line."""
    cells = [[one_line("" if value is None else str(value)) for value in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(heads, *cells, strict=True)]
    most = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, line in enumerate([list(heads), *cells]):
        padded = [_pad(cell, width, head in right) for cell, width, head in zip(line, widths, heads, strict=True)]
        text = _cut(_GAP.join(padded).rstrip(), most)
        click.echo(click.style(text, bold=True) if number == 0 else text)


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """One name and one value per line."""
    width = max((_width(name) for name, _ in facts), default=0) + 1
    for name, value in facts:
        click.echo(f"{_pad(f'{name}:', width, False)} {one_line('' if value is None else str(value))}".rstrip())


def visible(text: str) -> str:
    """Text without the characters that would steer a terminal: what people and models write is only shown."""
    return "".join("�" if _steers(char) else char for char in text)


def _steers(char: str) -> bool:
    return char in _BIDI or (unicodedata.category(char) == "Cc" and char not in "\n\t")


def one_line(text: str) -> str:
    return " ".join(visible(text).split())


def local_time(moment: str | None) -> str:
    """A time of the API as people read it, in their own zone."""
    if not moment:
        return ""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def size(number: int) -> str:
    """Bytes as people read them."""
    amount, units = float(number), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"


def span(seconds: float) -> str:
    """A time as people read it, by its two largest units."""
    parts, rest = [], int(seconds)
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, rest = divmod(rest, length)
        if amount:
            parts.append(f"{amount} {unit}")
    return " ".join(parts[:2]) or "0 s"


#: Called with how much is done; a total that is not known is None.
Step = Callable[[int, int | None], None]


@contextlib.contextmanager
def progress(label: str) -> Iterator[Step]:
    """Tell on standard error that work goes on, and how far it is; nothing if that is no terminal."""
    done = [""]

    def step(so_far: int, total: int | None) -> None:
        done[0] = f" {so_far * 100 // total} %" if total else f" {so_far}"

    if not sys.stderr.isatty():
        yield step
        return
    ended = threading.Event()
    begin = time.monotonic()

    def show() -> None:
        while not ended.wait(0.2):
            click.echo(f"\r{label} …{done[0]} ({time.monotonic() - begin:.0f} s)\x1b[K", err=True, nl=False)

    shower = threading.Thread(target=show, daemon=True)
    shower.start()
    try:
        yield step
    finally:
        ended.set()
        shower.join()
        click.echo("\r\x1b[K", err=True, nl=False)


def _width(text: str) -> int:
    """The columns that a terminal needs: two for wide characters, none for those that join the one before."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _pad(text: str, width: int, right: bool) -> str:
    spaces = " " * (width - _width(text))
    return spaces + text if right else text + spaces


def _cut(text: str, most: int | None) -> str:
    if most is None or _width(text) <= most:
        return text
    kept, room = "", most - 1
    for char in text:
        room -= _columns(char)
        if room < 0:
            break
        kept += char
    return f"{kept}…"
