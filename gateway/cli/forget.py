"""`trunkline forget`: remove a person with all that they said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gateway.cli.client import LONG, Client, Refused, path_of
from gateway.cli.connection import reach
from gateway.cli.failing import Failure
from gateway.cli.options import ID, config_option, confirm, json_option, load_config, yes_option
from gateway.cli.output import count, one_line, print_facts, print_json, progress

_PAGE = 1000


@click.command()
@config_option
@click.argument("person", type=ID)
@click.option("--owner", is_flag=True, help="Also if this person is the owner.")
@yes_option
@json_option
def forget(config_path: Path | None, person: str, owner: bool, yes: bool, as_json: bool) -> int:
    """Remove a PERSON and all that they said, everywhere.

    PERSON is an id, the name of a [people.NAME] table, or CHANNEL:USERID. Their private conversations are removed;
    in conversations with others only their own messages are. It cannot be undone. Backups still hold everything.
    """
    config = load_config(config_path)
    if not yes:  # asked between two visits: the lock is not kept while somebody thinks
        with reach(config) as client:
            who = _describe(client, person)
        confirm(f"Forget {who} for good?", yes)
    with reach(config) as client, progress("Forgetting"):
        done = _forget(client, person, owner)
    if as_json:
        print_json(done)
        return 0
    click.echo(f"Forgot {done['person']}. Removed:")
    print_facts([*done["removed"].items()])
    if not done["scrubbed"]:
        click.echo("The database file could not be scrubbed: parts of the texts may still be in it.", err=True)
    for copy in done["copies"]:
        click.echo(f"This copy of the database still holds what was removed: {copy}", err=True)
    return 0


def _forget(client: Client, person: str, owner: bool) -> dict[str, Any]:
    path = path_of("api", "admin", "people", person, "forget")
    try:
        done: dict[str, Any] = client.post(path, query={"really": "true"} if owner else None, timeout=LONG)
    except Refused as refused:
        if refused.code == "owner_protected":
            raise Failure("This person is the owner. --owner forgets them all the same.") from None
        raise
    return done


def _describe(client: Client, person: str) -> str:
    """The person as the question names them; the daemon decides who is meant."""
    offset = 0
    while True:
        page = client.get("/api/admin/people", {"limit": _PAGE, "offset": offset})
        for row in page["people"]:
            if person in _names(row):
                name = one_line(row["name"] or row["configName"] or "")
                sessions = count(row["sessions"], "session")
                return f"{name} ({row['id']}, {sessions})" if name else f"{row['id']} ({sessions})"
        offset += _PAGE
        if offset >= page["total"]:
            return person


def _names(row: dict[str, Any]) -> set[str]:
    return {row["id"], row["configName"], *(f"{one['channel']}:{one['userId']}" for one in row["identities"])}
