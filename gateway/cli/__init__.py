"""The command line: one module per group of commands.

Every command that needs data speaks HTTP: to the daemon that runs, or to a quiet one that the command runs itself
(`connection`). What the commands share is in `options` (what they take), `output` (what they print) and `failing`
(how they end); `reference` writes docs/commands.md.
"""

from __future__ import annotations

import click

from gateway.cli.budget import budget
from gateway.cli.chat import chat
from gateway.cli.check import check
from gateway.cli.completion import completion
from gateway.cli.content import search, usage
from gateway.cli.database import db
from gateway.cli.doctor import doctor
from gateway.cli.explain import explain
from gateway.cli.forget import forget
from gateway.cli.init import init
from gateway.cli.local import local
from gateway.cli.pair import pair
from gateway.cli.repos import repos
from gateway.cli.run import run
from gateway.cli.safekeeping import backup, restore
from gateway.cli.sessions import sessions
from gateway.cli.status import status
from gateway.cli.transfer import export, import_
from gateway.version import __version__


@click.group()
@click.version_option(__version__, prog_name="trunkline")
def trunkline() -> None:
    """Connect people in Telegram and Discord to AI agents."""


for _command in (
    *(run, init, check, status, explain, chat, pair, sessions, search, usage, budget, repos),
    *(backup, restore, export, import_, forget, db, local, doctor, completion),
):
    trunkline.add_command(_command)
