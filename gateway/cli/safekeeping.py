"""`trunkline backup` and `trunkline restore`: all the data, in one file."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.client import LONG
from gateway.cli.connection import reach
from gateway.cli.failing import Failure, failed
from gateway.cli.options import config_option, confirm, json_option, load_config, yes_option
from gateway.cli.output import count, print_json, progress, size
from routing.errors import StartError
from store.backup import restore as put_back
from store.database import prepare
from store.lock import InstanceLock


@click.command()
@config_option
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def backup(config_path: Path | None, file: Path, as_json: bool) -> int:
    """Write a copy of all data to a new FILE, while the daemon goes on.

    The daemon writes the file: it must be able to, and FILE is then readable by its user only.
    """
    path = file.absolute()
    with reach(load_config(config_path)) as client, progress("Writing the backup"):
        made = client.post("/api/admin/backup", {"path": str(path)}, timeout=LONG)
    if as_json:
        print_json(made)
    else:
        click.echo(f"Wrote {path} ({size(made['bytes'])}).")
    return 0


@click.command()
@config_option
@click.argument("file", type=click.Path(path_type=Path))
@yes_option
def restore(config_path: Path | None, file: Path, yes: bool) -> int:
    """Replace all data by those of the backup FILE; the daemon must be stopped.

    The database from before is kept beside it. What the backup still had to deliver waits for an operator, because it
    may have been sent since.
    """
    data_dir = load_config(config_path).gateway.data_dir
    if not file.is_file():
        raise Failure(f"There is no file {file}.")
    try:
        prepare(data_dir)
        with InstanceLock(data_dir):
            pass  # before anybody is asked in vain
        confirm(f"Replace all data in {data_dir} by those of {file}?", yes)
        with InstanceLock(data_dir), progress("Restoring"):
            restored = put_back(data_dir, file)
    except StartError as error:
        return failed(error)
    click.echo(f"Restored {file}.")
    if restored.migrated:
        click.echo(f"It was brought up to date: {', '.join(restored.migrated)}.")
    if restored.kept is not None:
        click.echo(f"The database from before is {restored.kept}.")
    if restored.parked:
        waiting = count(restored.parked, "message waits", "messages wait")
        click.echo(f"{waiting} for you to send again, if they were not sent since: see `GET /api/admin/outbox`.")
    return 0
