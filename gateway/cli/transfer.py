"""`trunkline export` and `trunkline import`: one conversation, as lines of JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import click

from gateway.cli.client import path_of
from gateway.cli.connection import reach
from gateway.cli.failing import Failure
from gateway.cli.files import new_file
from gateway.cli.options import ID, config_option, json_option, load_config
from gateway.cli.output import Step, count, print_json, progress

_STANDARD = "-"
_PIECE = 65_536


@click.command()
@config_option
@click.argument("session_id", metavar="ID", type=ID)
@click.argument("file", metavar="[FILE|-]", type=click.Path(path_type=Path, allow_dash=True), default=_STANDARD)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def export(config_path: Path | None, session_id: str, file: Path, force: bool) -> int:
    """Write a conversation to FILE, or to standard output, as lines of JSON."""
    path = path_of("api", "admin", "sessions", session_id, "export")
    with reach(load_config(config_path)) as client, client.stream(path) as lines, ExitStack() as stack:
        if str(file) == _STANDARD:
            out: IO[bytes] = sys.stdout.buffer
        else:
            out = stack.enter_context(new_file(file, force=force))
        for line in lines:
            out.write(line)
        out.flush()
    return 0


@click.command("import")
@config_option
@click.argument("file", metavar="FILE|-", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--new-ids", is_flag=True, help="Give everything new ids, so that it can stand beside the original.")
@json_option
def import_(config_path: Path | None, file: Path, new_ids: bool, as_json: bool) -> int:
    """Take in what `trunkline export` wrote to FILE (`-`: standard input)."""
    config = load_config(config_path)
    query = {"newIds": "true"} if new_ids else None
    with ExitStack() as stack:
        given = _open(file, stack)
        step = stack.enter_context(progress("Importing"))
        client = stack.enter_context(reach(config))
        session = client.upload("/api/admin/sessions/import", _pieces(given, step), query)
    if as_json:
        print_json(session)
    else:
        said = count(session["messageCount"], "message")
        click.echo(f"Imported session {session['id']} ({session['agentId']}, {session['status']}, {said}).")
    return 0


def _open(file: Path, stack: ExitStack) -> IO[bytes]:
    if str(file) == _STANDARD:
        return sys.stdin.buffer
    try:
        return stack.enter_context(file.open("rb"))
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}.") from None


def _pieces(given: IO[bytes], step: Step) -> Iterator[bytes]:
    total = os.fstat(given.fileno()).st_size or None
    done = 0
    while piece := _read(given):
        yield piece
        done += len(piece)
        step(done, total)


def _read(given: IO[bytes]) -> bytes:
    try:
        return given.read(_PIECE)
    except OSError as error:
        raise Failure(f"The input cannot be read: {error.strerror}.") from None
