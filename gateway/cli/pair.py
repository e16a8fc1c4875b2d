"""`trunkline pair`: let people in who wrote to a bot that does not know them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gateway.cli.client import path_of
from gateway.cli.connection import reach
from gateway.cli.options import ID, config_option, json_option, load_config
from gateway.cli.output import local_time, one_line, print_json, print_table


@click.group()
def pair() -> None:
    """Let people in, or keep them out."""


@pair.command("list")
@config_option
@json_option
def list_(config_path: Path | None, as_json: bool) -> int:
    """Show who waits to be let in.

    Codes are good for one hour.
    """
    with reach(load_config(config_path)) as client:
        found = client.get("/api/admin/pairings")
    if as_json:
        print_json(found)
    elif found["pairings"]:
        rows = [
            (one["code"], _user(one), one["name"], one["text"], local_time(one["expiresAt"]))
            for one in found["pairings"]
        ]
        print_table(("CODE", "WHO", "NAME", "WROTE", "EXPIRES"), rows)
    else:
        click.echo("Nobody waits to be let in.")
    return 0


@pair.command()
@config_option
@click.argument("code", type=ID)
@json_option
def approve(config_path: Path | None, code: str, as_json: bool) -> int:
    """Let the person with this CODE in.

    What they wrote first is answered then.
    """
    return _decide(config_path, code, "approve", "is let in, and what they wrote is answered", as_json)


@pair.command()
@config_option
@click.argument("code", type=ID)
@json_option
def refuse(config_path: Path | None, code: str, as_json: bool) -> int:
    """Make a CODE worthless.

    If the person writes again they get another one.
    """
    return _decide(config_path, code, "refuse", "is not let in", as_json)


@pair.command()
@config_option
@click.argument("person", type=ID)
@json_option
def revoke(config_path: Path | None, person: str, as_json: bool) -> int:
    """Make a PERSON a stranger again.

    PERSON is an id or CHANNEL:USERID. People of the configuration are let in by it as long as they stand there.
    """
    with reach(load_config(config_path)) as client:
        done = client.post(path_of("api", "admin", "people", person, "revoke"))
    if as_json:
        print_json(done)
    else:
        click.echo(f"{one_line(done['name']) or done['person']} has to be let in again.")
    return 0


def _decide(config_path: Path | None, code: str, verb: str, outcome: str, as_json: bool) -> int:
    with reach(load_config(config_path)) as client:
        done = client.post(path_of("api", "admin", "pairings", code, verb))
    if as_json:
        print_json(done)
    else:
        click.echo(f"{one_line(done['name'])} ({_user(done)}) {outcome}.")
    return 0


def _user(one: dict[str, Any]) -> str:
    return f"{one['channel']}:{one['sender']}"
