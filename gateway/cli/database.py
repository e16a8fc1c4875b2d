"""`trunkline db`: the schema, by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from gateway.cli.failing import failed
from gateway.cli.options import config_option, load_config
from gateway.config import Config
from routing.errors import StartError
from store import migrations
from store.database import Database, on_file, prepare
from store.lock import InstanceLock


@click.group()
def db() -> None:
    """Look after the database file while the daemon is down."""


@db.command()
@config_option
def migrate(config_path: Path | None) -> int:
    """Bring the database up to date.

    The daemon does the same when it starts.
    """
    return _with_database(load_config(config_path), _migrate)


@db.command()
@config_option
def rollback(config_path: Path | None) -> int:
    """Undo the newest migration.

    A copy of the database as it was is kept beside it.
    """
    return _with_database(load_config(config_path), _rollback)


def _with_database(config: Config, work: Callable[[Database, Path], str]) -> int:
    """Under the daemon's lock: the file is changed by one process only."""
    try:
        path = prepare(config.gateway.data_dir)
        with InstanceLock(config.gateway.data_dir):
            click.echo(on_file(path, work))
    except StartError as error:
        return failed(error)
    return 0


def _migrate(db: Database, path: Path) -> str:
    done = migrations.migrate(db, path)
    return f"Applied {', '.join(done)}." if done else "The database is up to date."


def _rollback(db: Database, path: Path) -> str:
    undone = migrations.rollback(db, path)
    return "There is no migration to undo." if undone is None else f"Undid {undone}."
