"""What many commands take: the configuration, --json, --yes, and the types of their values."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import click

from gateway.cli.failing import BAD_CONFIGURATION, Failure
from gateway.config import Config, load
from routing.errors import ConfigError

_AGO = re.compile(r"([0-9]{1,6})([mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

config_option = click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The configuration (TOML). Unless given: ~/.config/trunkline/config.toml or "
    "/etc/trunkline/config.toml, or else a built-in one.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def choice(values: type[StrEnum]) -> click.Choice[str]:
    return click.Choice([value.value for value in values])


def load_config(path: Path | None) -> Config:
    try:
        return load(path, os.environ)
    except ConfigError as error:
        for problem in error.problems:
            click.echo(f"trunkline: {problem}", err=True)
        raise click.exceptions.Exit(BAD_CONFIGURATION) from None


def confirm(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; who cannot be asked has not agreed."""
    if yes:
        return
    with asking():
        agreed = click.confirm(question, err=True)
    if not agreed:
        raise Failure("Nothing was done.")


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """For questions: an input that ends before the answer is a failure; only at a terminal it is a way to leave."""
    try:
        yield
    except click.Abort:
        click.echo(err=True)
        if sys.stdin.isatty():
            raise
        raise Failure("Nobody answered, so nothing was done. --yes does it without asking.") from None


class Something(click.ParamType[str]):
    """A text that is not empty, such as an id."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.strip():
            self.fail("must not be empty", param, ctx)
        return value


class Moment(click.ParamType[str]):
    """A time such as 2026-01-31 or 2026-01-31T12:00, in the zone of this machine, or a span of time until now."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if found := _AGO.fullmatch(value):
            moment = datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})
        else:
            try:
                moment = datetime.fromisoformat(value).astimezone(UTC)
            except (ValueError, OverflowError):
                self.fail(f"{value!r} is neither a time such as 2026-01-31T12:00 nor 30m, 24h, 7d or 4w", param, ctx)
        return moment.isoformat().replace("+00:00", "Z")


ID = Something()
MOMENT = Moment()
