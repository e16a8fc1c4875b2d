"""Messages as people read them."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.output import local_time, visible


def text_of(row: dict[str, Any]) -> str:
    """What a message says, on as many lines as it has."""
    content = row["content"]
    match content["type"]:
        case "text":
            text = str(content["text"]) + (" …" if content.get("partial") else "")
        case "plan":
            text = "\n".join(["plan:", *(f"- {_step(step)}" for step in content["steps"])])
        case "tool":
            text = f"tool {content['tool']}"
        case other:
            text = f"({other})"
    return visible(text)


def print_transcript(rows: list[dict[str, Any]]) -> None:
    """A history: who said what, and when."""
    for row in rows:
        waits = " (waiting)" if row["state"] == "queued" else ""
        click.echo(click.style(f"\n{local_time(row['timestamp'])}  {row['role']}{waits}", bold=True))
        click.echo(text_of(row))


def _step(step: object) -> object:
    return step.get("content", step) if isinstance(step, dict) else step
