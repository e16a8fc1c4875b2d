"""The command line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

import click

from gateway.config import Config, load
from gateway.daemon import Daemon, Running
from gateway.logs import Event, LogFormat, log, setup
from gateway.version import __version__
from routing.errors import ConfigError, StartError
from store import migrations
from store.database import Database, on_file, prepare
from store.lock import InstanceLock

#: What systemd is told not to restart after.
BAD_CONFIGURATION = 78
#: Something that should never happen; starting again may help.
UNEXPECTED = 70

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_config_option = click.option(
    "--config", "config_path", type=click.Path(path_type=Path), help="The configuration file (TOML)."
)


@click.group()
@click.version_option(__version__, prog_name="trunkline")
def trunkline() -> None:
    """Connect people in Telegram and Discord to AI agents."""


@trunkline.command()
@_config_option
@click.option("--log-format", type=click.Choice([*LogFormat]), default=LogFormat.TEXT, show_default=True)
@click.option("--log-level", type=click.Choice([*_LEVELS]), default="info", show_default=True)
def run(config_path: Path | None, log_format: str, log_level: str) -> int:
    """Run the daemon until it is told to stop."""
    config = _load(config_path)
    setup(LogFormat(log_format), _LEVELS[log_level], config.secrets())
    for warning in config.warnings:
        log(Event.CONFIG_WARNING, logging.WARNING, why=warning)
    try:
        asyncio.run(_serve(config))
    except BaseExceptionGroup as group:
        return _failed(_cause(group))
    except Exception as exc:  # the last line of defence: a line in the log and an exit code
        return _failed(exc)
    return 0


@trunkline.group()
def db() -> None:
    """Look after the database file while the daemon is down."""


@db.command()
@_config_option
def migrate(config_path: Path | None) -> int:
    """Bring the database up to date (the daemon does this at its start, too)."""
    return _with_database(_load(config_path), _migrate)


@db.command()
@_config_option
def rollback(config_path: Path | None) -> int:
    """Undo the newest migration; a copy of the database is kept beside it."""
    return _with_database(_load(config_path), _rollback)


async def _serve(config: Config) -> None:
    """The first signal drains, the second cuts."""
    daemon = Daemon(config)
    task = asyncio.ensure_future(daemon.run(_greet))
    signals = 0

    def on_signal() -> None:
        nonlocal signals
        signals += 1
        if signals == 1:
            daemon.stop()
        else:
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _greet(running: Running) -> None:
    click.echo(f"Trunkline {__version__} is ready at {running.url}")


def _load(path: Path | None) -> Config:
    try:
        return load(path, os.environ)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"trunkline: {problem}", err=True)
        raise click.exceptions.Exit(BAD_CONFIGURATION) from None


def _with_database(config: Config, work: Callable[[Database, Path], str]) -> int:
    """Under the daemon's lock: the file is changed by one process only."""
    try:
        path = prepare(config.gateway.data_dir)
        with InstanceLock(config.gateway.data_dir):
            click.echo(on_file(path, work))
    except StartError as error:
        return _failed(error)
    return 0


def _migrate(db: Database, path: Path) -> str:
    done = migrations.migrate(db, path)
    return f"Applied {', '.join(done)}." if done else "The database is up to date."


def _rollback(db: Database, path: Path) -> str:
    undone = migrations.rollback(db, path)
    return "There is no migration to undo." if undone is None else f"Undid {undone}."


def _cause(group: BaseException) -> BaseException:
    """The first error of a task group says what happened; the others followed from it."""
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


def _failed(error: BaseException) -> int:
    if isinstance(error, StartError):
        click.echo(f"trunkline: {error}", err=True)
        return error.exit_code
    log(Event.DAEMON_FAILED, logging.CRITICAL, exc=error)
    return UNEXPECTED
