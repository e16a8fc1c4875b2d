"""`trunkline status`: whether the daemon runs and how it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gateway.cli.client import Client
from gateway.cli.connection import find
from gateway.cli.failing import NOT_RUNNING
from gateway.cli.options import config_option, json_option, load_config
from gateway.cli.output import print_facts, print_json, size, span

NOT_READY = 1


@click.command()
@config_option
@click.option("--url", "only_url", is_flag=True, help="Print only the page's address with the token, for a browser.")
@json_option
def status(config_path: Path | None, only_url: bool, as_json: bool) -> int:
    """Tell how the daemon does.

    The exit code is 0 if it is ready, 1 if it is not, and 3 if no daemon runs.
    `xdg-open "$(trunkline status --url)"` opens the page.
    """
    config = load_config(config_path)
    found = find(config)
    if found is None:
        if as_json and not only_url:
            print_json({"running": False, "ready": False})
        click.echo(f"trunkline: No daemon runs on {config.gateway.data_dir}.", err=True)
        return NOT_RUNNING
    if only_url:
        click.echo(found.login)
        return 0
    ready, health = readiness(found.client)
    facts = found.client.get("/api/admin/status")
    if as_json:
        print_json({"running": True, "ready": ready, "url": found.client.url, "health": health, "status": facts})
    else:
        print_facts(_facts(found.client.url, ready, health, facts))
        click.echo('\nOpen the page: xdg-open "$(trunkline status --url)"')
    return 0 if ready else NOT_READY


def readiness(client: Client) -> tuple[bool, dict[str, Any]]:
    """Whether it is ready, and what every component says; not being ready is an answer, too."""
    health: dict[str, Any] = client.ask("GET", "/readyz", accept={503})
    return health["status"] == "ready", health["components"]


def _facts(url: str, ready: bool, health: dict[str, Any], facts: dict[str, Any]) -> list[tuple[str, object]]:
    troubles = [f"{name}: {one['detail']}" for name, one in health.items() if not one["ok"]]
    parked = facts["outbox"].get("parked", 0)
    return [
        ("state", "ready" if ready else "not ready"),
        *(("trouble", trouble) for trouble in troubles),
        ("version", facts["version"]),
        ("process", f"{facts['pid']}, up {span(facts['uptimeSeconds'])}"),
        ("address", url),
        ("data", f"{facts['dataDir']} ({size(facts['databaseBytes'])}, schema {facts['schema'][-1]})"),
        ("sessions", ", ".join(f"{number} {status}" for status, number in facts["sessions"].items()) or "none"),
        ("turns", f"{facts['running']} running, {facts['waiting']} waiting"),
        ("deliveries", f"{parked} failed for good" if parked else "none failed"),
    ]
