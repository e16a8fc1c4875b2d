"""Tables: drawn in characters of one width if they fit on a phone, else one list entry for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from channels.text.characters import display_width
from channels.text.tree import Code, Item, List, Paragraph, Run, Runs, Style, merged, text_of

#: Columns that a phone shows of text in one width without breaking lines.
PHONE = 36
GAP = "  "


def drawn(rows: Sequence[list[Runs]]) -> Code | List:
    """A table as blocks. The first row is its header."""
    cells = [[text_of(runs).replace("\n", " ") for runs in row] for row in rows]
    widths = [max(display_width(row[column]) for row in cells) for column in range(len(cells[0]))]
    fits = sum(widths) + len(GAP) * (len(widths) - 1) <= PHONE
    # A drawing has no links: their addresses would be lost.
    if fits and not any(run.link for row in rows for runs in row for run in runs):
        return Code("\n".join(_lines(cells, widths)))
    return List(tuple(_records(rows)), loose=len(rows) > 2 and len(widths) > 2)


def _lines(cells: list[list[str]], widths: list[int]) -> Iterator[str]:
    for number, row in enumerate(cells):
        yield GAP.join(
            text + " " * (width - display_width(text)) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        if number == 0:
            yield GAP.join("─" * width for width in widths)


def _records(rows: Sequence[list[Runs]]) -> Iterator[Item]:
    header = rows[0]
    if len(rows) == 1:
        yield Item("-", (Paragraph(_joined(header, " | ")),))
    # The name of an empty column stands nowhere else than in the first record.
    empty = {column for column in range(len(header)) if not any(row[column] for row in rows[1:])}
    for number, row in enumerate(rows[1:]):
        wanted = [column for column in range(len(header)) if row[column] or (number == 0 and column in empty)]
        named = [_named(header[column], row[column]) for column in wanted if header[column] or row[column]]
        yield Item("-", (Paragraph(_joined(named, "\n")),) if named else ())


def _named(name: Runs, value: Runs) -> Runs:
    if not name:
        return value
    bold = (Run(run.text, run.style | Style.BOLD, run.link) for run in name)
    return merged((*bold, Run(": "), *value))


def _joined(parts: Sequence[Runs], separator: str) -> Runs:
    runs: list[Run] = []
    for part in parts:
        if runs:
            runs.append(Run(separator))
        runs.extend(part)
    return merged(runs)
