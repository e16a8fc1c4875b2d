"""`trunkline budget`: how budgets stand, and more where somebody needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gateway.cli.client import path_of
from gateway.cli.connection import reach
from gateway.cli.options import ID, config_option, json_option, load_config
from gateway.cli.output import print_json, print_table


@click.group()
def budget() -> None:
    """See what is left of budgets, and allow more."""


@budget.command("list")
@config_option
@json_option
def list_(config_path: Path | None, as_json: bool) -> int:
    """Show what was spent of each budget in its day or month.

    A line for everybody who spent something; what runs counts with what is held back for it.
    """
    with reach(load_config(config_path)) as client:
        found = client.get("/api/admin/budgets")
    if as_json:
        print_json(found)
    elif found["budgets"]:
        rows = [[one["name"], one["scope"] or "all", one["per"], *_parts(one)] for one in found["budgets"]]
        print_table(["BUDGET", "WHOSE", "PER", "TOKENS", "MONEY"], rows)
    else:
        click.echo("There are no budgets, or nothing was spent yet.")
    return 0


@budget.command()
@config_option
@click.argument("name", type=ID)
@click.option("--tokens", type=click.IntRange(1), help="How many tokens more.")
@click.option("--money", type=click.FloatRange(0, min_open=True), help="How many US dollars more.")
@click.option("--person", metavar="WHO", help="Whose, where each person has their own: an id, or channel:userid.")
@click.option("--agent", metavar="NAME", help="Whose, where each agent has its own.")
@click.option("--chat", metavar="CHAT", help="Whose, where each group has its own: channel:id.")
@json_option
def allow(config_path: Path | None, name: str, as_json: bool, **more: Any) -> int:
    """Allow more than the budget NAME has, until its day or month is over."""
    wanted = {key: value for key, value in more.items() if value is not None}
    with reach(load_config(config_path)) as client:
        found = client.post(path_of("api", "admin", "budgets", name, "allow"), wanted)
    if as_json:
        print_json(found)
    else:
        tokens, money = _parts(found)
        click.echo(f"Budget {name} ({found['scope'] or 'all'}): " + ", ".join(filter(None, (tokens, money))) + " used.")
    return 0


def _parts(one: dict[str, Any]) -> tuple[str | None, str | None]:
    tokens = None if one["tokens"] is None else f"{one['spentTokens']:,} of {one['tokens']:,} tokens"
    money = None if one["money"] is None else f"${one['spentMoney']:.4f} of ${one['money']:.2f}"
    return tokens, money
