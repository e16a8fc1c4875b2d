"""`trunkline repos`: the repositories in which agents may work."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.client import LONG, path_of
from gateway.cli.connection import reach
from gateway.cli.options import ID, config_option, json_option, load_config
from gateway.cli.output import count, local_time, one_line, print_json, print_table, progress


@click.group()
def repos() -> None:
    """Look after the repositories in which agents work."""


@repos.command()
@config_option
@json_option
def scan(config_path: Path | None, as_json: bool) -> int:
    """Look for Git repositories below the workspace root.

    The daemon does so at every start. What is not there any more leaves the list.
    """
    with reach(load_config(config_path)) as client, progress("Looking for repositories"):
        done = client.post("/api/admin/repos/scan", timeout=LONG)
    if as_json:
        print_json(done)
        return 0
    for name in done["new"]:
        click.echo(f"new: {one_line(name)}")
    for name in done["gone"]:
        click.echo(f"gone: {one_line(name)}")
    click.echo(f"{count(done['found'], 'repository', 'repositories')}.")
    return 0


@repos.command("list")
@config_option
@json_option
def list_(config_path: Path | None, as_json: bool) -> int:
    """List the repositories that agents and sessions can name."""
    with reach(load_config(config_path)) as client:
        found = client.get("/api/repos")
    if as_json:
        print_json(found)
    elif found["repos"]:
        rows = [[one["id"], one["name"], one["path"], local_time(one["scannedAt"])] for one in found["repos"]]
        print_table(["ID", "NAME", "PATH", "SEEN"], rows)
    else:
        click.echo("There are no repositories. `trunkline repos scan` looks for them.", err=True)
    return 0


@repos.command()
@config_option
@click.argument("path", type=ID)
@click.option("--name", metavar="NAME", type=ID, help="What to call it. Unless given: its path below the root.")
@json_option
def add(config_path: Path | None, path: str, name: str | None, as_json: bool) -> int:
    """Put the repository at PATH on the list.

    For one that lies deeper than a scan looks, that was removed, or that needs another name. It has to lie inside
    the workspace root all the same.
    """
    # Not resolved here: the daemon does that, and decides.
    asked = path if path.startswith("~") else str(Path.cwd() / path)
    with reach(load_config(config_path)) as client:
        row = client.post("/api/admin/repos", {"path": asked, "name": name})
    if as_json:
        print_json(row)
    else:
        click.echo(f"{one_line(row['name'])} is on the list: {one_line(row['path'])}")
    return 0


@repos.command()
@config_option
@click.argument("repo", type=ID)
@json_option
def remove(config_path: Path | None, repo: str, as_json: bool) -> int:
    """Take REPO, an id or a name, off the list.

    Its directory is not touched, sessions that were bound to it start no more agents, and scans leave it out.
    """
    with reach(load_config(config_path)) as client:
        row = client.delete(path_of("api", "admin", "repos", repo))
    if as_json:
        print_json(row)
    else:
        click.echo(f"{one_line(row['name'])} is off the list.")
    return 0
