"""`trunkline doctor`: one file for whoever is asked for help, with nothing private in it."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from pydantic_core import to_jsonable_python

from gateway.cli.connection import find
from gateway.cli.failing import Failure
from gateway.cli.files import new_file
from gateway.cli.options import config_option
from gateway.cli.output import progress
from gateway.cli.status import readiness
from gateway.config import Config, load
from gateway.logs import Redactor
from gateway.version import __version__
from routing.errors import ConfigError
from store.inspection import inspect

_LIBRARIES = ("aiohttp", "click", "pydantic", "sqlite-utils", "tomli-w")
_LOG_LINES = 200
#: Beyond it, a line of a log says more than is needed.
_LONGEST_LINE = 2000
#: The table of a person, as sentences about the configuration name it.
_PERSON = re.compile(r'people\.("[^"]*"|[A-Za-z0-9_-]+)')


@click.command()
@config_option
@click.option(
    "--log", "log_file", metavar="FILE", type=click.Path(path_type=Path), help=f"Add its last {_LOG_LINES} lines."
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.argument("file", metavar="[FILE|-]", type=click.Path(path_type=Path, allow_dash=True), required=False)
def doctor(config_path: Path | None, log_file: Path | None, force: bool, file: Path | None) -> int:
    """Write one support file to FILE (`-`: standard output).

    It has versions, the configuration without its secrets, the state of the daemon, and the database's schema, counts
    and health. It has no text of any message and no names; ids of chats and people are in it.
    """
    moment = datetime.now(UTC)
    with progress("Looking at everything"):
        report, secrets = _report(config_path, moment, log_file)
    text = _redact(json.dumps(report, indent=2, default=str, ensure_ascii=False), secrets)
    if file is not None and str(file) == "-":
        click.echo(text)
        return 0
    file = file or Path(f"trunkline-doctor-{moment:%Y%m%d-%H%M%S}.json")
    with new_file(file, force=force) as out:
        out.write(f"{text}\n".encode(errors="replace"))
    click.echo(f"Wrote {file}. Please look through it before you give it to anybody.")
    return 0


def _report(config_path: Path | None, moment: datetime, log_file: Path | None) -> tuple[dict[str, Any], list[str]]:
    report: dict[str, Any] = {"made": moment.isoformat(), "versions": _versions()}
    secrets: list[str] = []
    try:
        config = load(config_path, os.environ)
    except ConfigError as error:
        report["configuration"] = {"problems": _nameless(error.problems)}
    else:
        secrets += config.secrets()
        report["configuration"] = _configuration(config)
        report["daemon"] = _daemon(config, secrets)
        report["database"] = asdict(inspect(config.gateway.data_dir))
    if log_file is not None:
        report["log"] = _log(log_file)
    return report, secrets


def _versions() -> dict[str, str]:
    return {
        "trunkline": __version__,
        "python": sys.version,
        "system": platform.platform(),
        **{name: metadata.version(name) for name in _LIBRARIES},
    }


def _configuration(config: Config) -> dict[str, Any]:
    """As it is in force, defaults included; its secrets are stars. People lose their names and keep their ids."""
    apart = {"agents", "people", "budgets", "warnings", "_secrets"}
    names = [each.name for each in fields(config) if each.name not in apart]
    shown: dict[str, Any] = to_jsonable_python({name: getattr(config, name) for name in names})
    shown["http"]["listen"] = str(config.http.listen)
    shown["agents"] = {name: agent.model_dump(mode="json", exclude={"name"}) for name, agent in config.agents.items()}
    shown["people"] = [{"owner": person.owner, **person.identities} for person in config.people]
    # A budget, too, may be called after somebody.
    shown["budgets"] = [one.model_dump(mode="json", exclude={"person"}) for one in config.budgets.values()]
    shown["warnings"] = _nameless(config.warnings)
    return shown


def _nameless(sentences: Iterable[str]) -> list[str]:
    return [_PERSON.sub("people.*", sentence) for sentence in sentences]


def _daemon(config: Config, secrets: list[str]) -> dict[str, Any]:
    """What the daemon says of itself; that it does not run, or does not answer, is a finding as well."""
    try:
        found = find(config)
        if found is None:
            return {"running": False}
        secrets.append(found.token)
        ready, health = readiness(found.client)
        status = found.client.get("/api/admin/status")
    except Failure as failure:
        return {"problem": failure.message}
    return {"running": True, "ready": ready, "health": health, "status": status}


def _log(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return _nameless(line.rstrip("\n")[:_LONGEST_LINE] for line in deque(lines, maxlen=_LOG_LINES))
    except OSError as error:
        raise Failure(f"The log {file} cannot be read: {error.strerror}.") from None


def _redact(text: str, secrets: list[str]) -> str:
    """Without the secrets, and without the home directory, whose name is mostly a person's."""
    text = Redactor(secrets)(text)
    home = os.path.expanduser("~")
    return text if home in {"/", "~"} else text.replace(home, "~")
