"""`trunkline run`: the daemon itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from gateway.cli import port
from gateway.cli.connection import TOKEN_FILE
from gateway.cli.failing import cause, failed
from gateway.cli.options import choice, config_option, load_config
from gateway.config import Config
from gateway.logs import Event, LogFormat, log, setup
from gateway.version import __version__

if TYPE_CHECKING:
    from gateway.daemon import Running

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


@click.command()
@config_option
@click.option("--log-format", type=choice(LogFormat), default="text", show_default=True, help="How a line looks.")
@click.option(
    "--log-level",
    type=click.Choice([*_LEVELS]),
    default="info",
    show_default=True,
    help="The least important lines that are written.",
)
def run(config_path: Path | None, log_format: str, log_level: str) -> int:
    """Run the daemon until it is told to stop."""
    config = load_config(config_path)
    setup(LogFormat(log_format), _LEVELS[log_level], config.secrets())
    log(Event.DAEMON_STARTED, version=__version__, pid=os.getpid(), config=config.path, data=config.gateway.data_dir)
    for warning in config.warnings:
        log(Event.CONFIG_WARNING, logging.WARNING, why=warning)
    try:
        with asyncio.Runner() as runner:
            runner.run(_serve(config))
    except BaseExceptionGroup as group:
        return failed(cause(group))
    except Exception as exc:  # the last line of defence: a line in the log and an exit code
        return failed(exc)
    return 0


async def _serve(config: Config) -> None:
    """The first signal drains, the second cuts."""
    from gateway.daemon import Daemon
    from gateway.runs import leave_abandoned

    daemon = Daemon(config)
    task = asyncio.ensure_future(daemon.run(lambda running: _ready(config, running)))
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
    try:
        await task
    except asyncio.CancelledError:
        log(Event.DAEMON_STOPPED, why="a second signal cut it short")
    leave_abandoned()


def _ready(config: Config, running: Running) -> None:
    port.publish(config, running.url)
    _greet(config, running)


def _greet(config: Config, running: Running) -> None:
    """Where the page is. A token of our own making stands in the link, unless the journal would keep it."""
    token, link = "the one that you configured", f"{running.url}/"
    with contextlib.suppress(OSError):  # nobody listens, or the disk of a log is full: no reason not to serve
        if config.http.admin_token is None:
            token = f"in {config.gateway.data_dir / TOKEN_FILE}"
            link += "" if _in_journal() else f"?token={quote(running.token, safe='')}"
        greeting = f"""Trunkline {__version__} is ready at {running.url}
Chat in your browser: {link}
The admin token is {token}. Send it as `Authorization: Bearer TOKEN`."""
        click.echo(greeting)


def _in_journal() -> bool:
    """Whether systemd takes our standard output for its log; shells inherit the variable without being one."""
    out = os.fstat(1)
    return os.environ.get("JOURNAL_STREAM") == f"{out.st_dev}:{out.st_ino}"
