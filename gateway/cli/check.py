"""`trunkline check`: what is wrong with the configuration, and what it says when nothing is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gateway.cli.failing import BAD_CONFIGURATION
from gateway.cli.options import config_option, json_option
from gateway.cli.output import count, print_json
from gateway.config import Config, load
from routing.errors import ConfigError


@click.command()
@config_option
@json_option
def check(config_path: Path | None, as_json: bool) -> int:
    """Validate the configuration; name every problem, and bindings that can never match."""
    try:
        config = load(config_path, os.environ)
    except ConfigError as error:
        if as_json:
            print_json({"ok": False, "problems": error.problems})
        else:
            for problem in error.problems:
                click.echo(f"trunkline: {problem}", err=True)
        return BAD_CONFIGURATION
    if as_json:
        print_json(_summary(config))
    else:
        click.echo("\n".join(_lines(config)))
    return 0


def _summary(config: Config) -> dict[str, Any]:
    return {
        "ok": True,
        "problems": [],
        "warnings": list(config.warnings),
        "path": None if config.path is None else str(config.path),
        "dataDir": str(config.gateway.data_dir),
        "listen": str(config.http.listen),
        "accounts": [f"{one.channel}.{one.name}" for one in config.accounts],
        "agents": {name: agent.kind for name, agent in config.agents.items()},
        "defaultAgent": config.gateway.default_agent,
        "bindings": len(config.bindings),
        "people": len(config.people),
    }


def _lines(config: Config) -> list[str]:
    agents = ", ".join(f"{name} ({agent.kind})" for name, agent in config.agents.items())
    default = config.gateway.default_agent or "none, what no binding matches stays unanswered"
    return [
        f"ok: {config.path or 'the built-in configuration'}",
        f"data:     {config.gateway.data_dir}",
        f"listens:  {config.http.listen}",
        f"accounts: {', '.join(f'{one.channel}.{one.name}' for one in config.accounts)}",
        f"agents:   {agents}; default: {default}",
        f"bindings: {count(len(config.bindings), 'binding')}; people: {len(config.people)}",
        *(f"warning:  {warning}" for warning in config.warnings),
    ]
