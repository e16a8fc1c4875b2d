"""`trunkline search` and `trunkline usage`: over all conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gateway.cli.connection import reach
from gateway.cli.options import ID, config_option, json_option, load_config
from gateway.cli.output import local_time, print_json, print_table

_NUMBERS = ["TURNS", "INPUT", "CACHED", "OUTPUT", "REASONING", "ESTIMATED", "UNKNOWN", "COST"]
_BY = ("agent", "day", "person", "session")


@click.command()
@config_option
@click.argument("text", type=ID)
@click.option("--agent", metavar="NAME", help="Only in conversations with this agent.")
@click.option("--session", metavar="ID", help="Only in this conversation.")
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="How many at most.")
@json_option
def search(config_path: Path | None, text: str, as_json: bool, **wanted: Any) -> int:
    """Find messages that have all the words of TEXT, the newest first.

    Words in double quotes must stand together.
    """
    with reach(load_config(config_path)) as client:
        found = client.get("/api/search", {"q": text, **wanted})
    if found["indexing"]:
        click.echo("Older messages are still being indexed and may be missing here.", err=True)
    if as_json:
        print_json(found)
    elif not found["hits"]:
        click.echo("Nothing was found.", err=True)
    else:
        rows = [
            [hit["sessionId"], hit["agentId"], local_time(hit["timestamp"]), hit["role"], hit["snippet"]]
            for hit in found["hits"]
        ]
        print_table(["SESSION", "AGENT", "WHEN", "WHO", "TEXT"], rows)
    return 0


@click.command()
@config_option
@click.option("--by", type=click.Choice(_BY), default="agent", show_default=True, help="What a line stands for.")
@json_option
def usage(config_path: Path | None, by: str, as_json: bool) -> int:
    """Tell how many tokens were used and what they cost, by the turns that are there."""
    with reach(load_config(config_path)) as client:
        found = client.get("/api/admin/usage", {"by": by})
    if as_json:
        print_json(found)
        return 0
    rows = [[row["key"] or "-", row["name"], *_numbers(row)] for row in found["rows"]]
    print_table(
        [by.upper(), "NAME", *_NUMBERS],
        [*rows, ["total", None, *_numbers(found["total"])]],
        right=_NUMBERS,
    )
    return 0


def _numbers(row: dict[str, Any]) -> list[object]:
    estimated = f"{row['estimatedShare']:.0%}"
    cost = "unknown" if row["costUsd"] is None else f"${row['costUsd']:.4f}"
    if row["costUsd"] is not None and row["unpricedTurns"]:
        cost += f" + {row['unpricedTurns']} unknown"
    counts = [row[name] for name in ("turns", "inputTokens", "cachedTokens", "outputTokens", "reasoningTokens")]
    return [*counts, estimated, row["unknownTurns"], cost]
