"""How a command fails: one sentence on standard error and an exit code, never a traceback."""

from __future__ import annotations

import logging
from typing import IO, Any

import click

from gateway.logs import Event, log
from routing.errors import StartError

#: What systemd is told not to restart after.
BAD_CONFIGURATION = 78
#: Something that should never happen; starting again may help.
UNEXPECTED = 70
NOT_RUNNING = 3


class Failure(click.ClickException):
    """What was asked for is not possible; `exit_code` is 1 unless the cause has one of its own."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # which a plain ClickException has once for all

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"trunkline: {self.format_message()}", file=file, err=True)


def cause(error: BaseException) -> BaseException:
    """The first error of a task group says what happened; the others followed from it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def failed(error: BaseException) -> int:
    """Say why the daemon or the work on its data could not go on, and return the exit code."""
    if isinstance(error, StartError):
        click.echo(f"trunkline: {error}", err=True)
        return error.exit_code
    log(Event.DAEMON_FAILED, logging.CRITICAL, exc=error)
    return UNEXPECTED
