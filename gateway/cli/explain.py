"""`trunkline explain`: works beside a daemon and without one, and changes nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click

from gateway.cli.options import choice, config_option, json_option, load_config
from gateway.cli.output import print_json
from gateway.config import Config
from gateway.explain import Explanation
from gateway.explain import explain as explain_message
from routing.errors import UnknownAccount
from routing.keys import PeerKind
from routing.messages import Address, Addressed, Inbound, Sender
from store import people
from store.database import Database, who_is_who
from store.ids import now


@click.command()
@config_option
@click.option("--channel", required=True, help="web, telegram, discord or memory")
@click.option("--account", required=True, help="The NAME of the account's table.")
@click.option("--chat", required=True, help="The id of the chat.")
@click.option("--sender", required=True, help="The sender's numeric id.")
@click.option("--kind", type=choice(PeerKind), default="dm", show_default=True, help="What the chat is.")
@click.option("--thread", help="The id of the thread or topic.")
@click.option("--guild", help="The id of the Discord server.")
@click.option("--role", "roles", multiple=True, help="The id of a role of the sender; can be given several times.")
@click.option(
    "--addressed", type=choice(Addressed), default="not", show_default=True, help="How the bot was spoken to."
)
@click.option("--bot", is_flag=True, help="The sender is a bot.")
@click.option("--text", default="hello", show_default=True, help="What the message says.")
@json_option
def explain(config_path: Path | None, as_json: bool, **message: Any) -> int:
    """Say what would happen to a message: which agent, which session, which gate."""
    config = load_config(config_path)
    try:
        with contextlib.closing(who_is_who(config.gateway.data_dir)) as db:
            explained = _explain(db, config, message)
    except UnknownAccount as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        from gateway.http.views import explanation

        print_json(explanation(explained))
    else:
        click.echo("\n".join(explained.lines()))
    return 0


def _explain(db: Database, config: Config, message: dict[str, Any]) -> Explanation:
    from gateway.daemon import agents_of, people_of, rules_of

    asked = Inbound(
        external_id="explain",
        address=Address(
            channel=message["channel"], account=message["account"], chat=message["chat"], thread=message["thread"]
        ),
        peer_kind=PeerKind(message["kind"]),
        sender=Sender(id=message["sender"], is_bot=message["bot"]),
        text=message["text"],
        guild=message["guild"],
        roles=frozenset(message["roles"]),
        addressed=Addressed(message["addressed"]),
    )
    people.sync(db, people_of(config), now())
    return explain_message(db, asked, rules_of(config, agents_of(config)))
