"""`trunkline sessions`: list, look at, begin, end, remove and move conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gateway.cli.client import LONG, Client, path_of
from gateway.cli.connection import reach
from gateway.cli.options import ID, MOMENT, choice, config_option, confirm, json_option, load_config, yes_option
from gateway.cli.output import count, local_time, print_facts, print_json, print_table, progress
from gateway.cli.transcript import print_transcript
from routing.keys import PeerKind
from store.records import Status

#: The most that the API gives at once.
_PAGE = 500
_SHOWN = 10
_SORTS = ("updated", "created")
_ENDS = {"completed": ("POST", "complete"), "archived": ("POST", "archive"), "cancelled": ("DELETE", None)}


@click.group()
def sessions() -> None:
    """Look after conversations."""


@sessions.command("list")
@config_option
@click.option("--agent", metavar="NAME", help="Only those of this agent.")
@click.option("--channel", metavar="NAME", help="Only those of this channel: web, telegram, discord, api …")
@click.option("--account", metavar="NAME", help="Only those of this account.")
@click.option("--kind", type=choice(PeerKind), help="Only direct messages, groups or channels.")
@click.option("--status", type=choice(Status), multiple=True, help="Only those in this state; can be given again.")
@click.option("--person", metavar="ID", help="Only those of this person.")
@click.option("--since", type=MOMENT, help="Only those with activity since then: 2026-01-31, 30m, 24h, 7d, 4w.")
@click.option("--until", type=MOMENT, help="Only those without activity from then on.")
@click.option("--sort", type=click.Choice(_SORTS), default="updated", show_default=True, help="Which come first.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="How many at most; 0 for all.")
@json_option
def list_(config_path: Path | None, limit: int, as_json: bool, **wanted: Any) -> int:
    """List conversations, the last active ones first."""
    query = {
        "agent": wanted["agent"],
        "channel": wanted["channel"],
        "account": wanted["account"],
        "peerKind": wanted["kind"],
        "status": ",".join(wanted["status"]) or None,
        "person": wanted["person"],
        "updatedAfter": wanted["since"],
        "updatedBefore": wanted["until"],
        "sort": wanted["sort"],
    }
    with reach(load_config(config_path)) as client:
        rows, total = _collect(client, query, limit)
    if as_json:
        print_json({"sessions": rows, "total": total})
    elif not rows:
        click.echo("There are no such sessions.", err=True)
    else:
        _print_sessions(rows)
        if total > len(rows):
            click.echo(f"{len(rows)} of {total}; --limit 0 shows all.", err=True)
    return 0


def _collect(client: Client, query: dict[str, Any], limit: int) -> tuple[list[dict[str, Any]], int]:
    """Page by page, as many as are wanted."""
    rows: list[dict[str, Any]] = []
    cursor = None
    while True:
        size = min(limit - len(rows), _PAGE) if limit else _PAGE
        page = client.get("/api/sessions", {**query, "limit": size, "cursor": cursor})
        rows += page["sessions"]
        cursor = page["nextCursor"]
        if cursor is None or len(rows) == limit:
            return rows, page["total"]


def _print_sessions(rows: list[dict[str, Any]]) -> None:
    print_table(
        ["ID", "AGENT", "WHERE", "STATUS", "MESSAGES", "ACTIVE", "TITLE"],
        [
            [
                row["id"],
                row["agentId"],
                f"{row['channel']}.{row['accountId']} {row['peerKind']}",
                row["status"],
                row["messageCount"],
                local_time(row["updatedAt"]),
                row["title"],
            ]
            for row in rows
        ],
        right=["MESSAGES"],
    )


@sessions.command()
@config_option
@click.argument("session_id", metavar="ID", type=ID)
@click.option("--all", "everything", is_flag=True, help=f"Every message, not only the last {_SHOWN}.")
@json_option
def show(config_path: Path | None, session_id: str, everything: bool, as_json: bool) -> int:
    """Show a conversation and its last messages."""
    here = path_of("api", "sessions", session_id)
    with reach(load_config(config_path)) as client:
        state = client.get(f"{here}/state")
        rows = client.get(f"{here}/messages", None if everything else {"limit": _SHOWN})
    if as_json:
        print_json({**state["session"], "messages": rows})
        return 0
    session = state["session"]
    print_facts(
        [
            ("session", session["id"]),
            ("title", session["title"] or "-"),
            ("agent", session["agentId"]),
            ("key", session["key"]),
            ("status", session["status"] + (f" ({why})" if (why := session["metadata"].get("reason")) else "")),
            ("messages", f"{session['messageCount']} in {count(session['turnCount'], 'turn')}"),
            ("tokens", f"{session['totalInputTokens']} in, {session['totalOutputTokens']} out"),
            *_compactions(session),
            *([("repository", session["repoId"])] if session["repoId"] else []),
            ("created", local_time(session["createdAt"])),
            ("active", local_time(session["updatedAt"])),
        ]
    )
    print_transcript(rows)
    return 0


def _compactions(session: dict[str, Any]) -> list[tuple[str, str]]:
    """A line only where there is something to tell."""
    made = session["compactionCount"]
    last = session["lastCompactionAt"]
    return [("compacted", f"{count(made, 'time')}, last {local_time(last)}")] if made and last else []


@sessions.command()
@config_option
@click.option("--agent", metavar="NAME", type=ID, help="Who answers. Unless given: the default agent.")
@click.option("--repo", metavar="REPO", type=ID, help="Where the agent works, by name or id, if it works in one.")
@json_option
def new(config_path: Path | None, agent: str | None, repo: str | None, as_json: bool) -> int:
    """Begin a conversation and print its id."""
    with reach(load_config(config_path)) as client:
        session = client.post("/api/sessions", {"agent": agent, "repoId": repo})
    if as_json:
        print_json(session)
    else:
        click.echo(session["id"])
    return 0


@sessions.command()
@config_option
@click.argument("session_id", metavar="ID", type=ID)
@click.option("--status", type=click.Choice([*_ENDS]), default="completed", show_default=True, help="How it ends.")
@click.option("--reason", metavar="TEXT", help="Why; it is kept with the session.")
@json_option
def end(config_path: Path | None, session_id: str, status: str, reason: str | None, as_json: bool) -> int:
    """End a conversation: it stays readable and takes no more prompts."""
    method, verb = _ENDS[status]
    path = path_of("api", "sessions", session_id, *([] if verb is None else [verb]))
    with reach(load_config(config_path)) as client:
        ended = client.ask(method, path, body={"reason": reason})
    if as_json:
        print_json(ended)
    else:
        click.echo(f"Session {session_id} is {ended['status']}.")
    return 0


@sessions.command()
@config_option
@click.argument("session_id", metavar="ID", type=ID)
@yes_option
@json_option
def delete(config_path: Path | None, session_id: str, yes: bool, as_json: bool) -> int:
    """Remove a conversation with all that was said in it.

    That cannot be undone; `trunkline export` keeps a copy.
    """
    config = load_config(config_path)
    if not yes:  # asked between two visits: the lock is not kept while somebody thinks
        with reach(config) as client:
            session = client.get(path_of("api", "sessions", session_id, "state"))["session"]
        said = count(session["messageCount"], "message")
        confirm(f"Remove session {session_id} ({session['agentId']}, {said}) for good?", yes)
    with reach(config) as client:
        gone = client.delete(path_of("api", "admin", "sessions", session_id))
    if as_json:
        print_json(gone)
    else:
        click.echo(f"Removed session {session_id} with {count(gone['removed']['messages'], 'message')}.")
    return 0


@sessions.command()
@config_option
@click.option("--to", required=True, metavar="AGENT", type=ID, help="The agent that gets them.")
@click.option("--from", "source", metavar="AGENT", type=ID, help="All live sessions of this agent.")
@click.option("--dry-run", is_flag=True, help="Only list what would be moved.")
@click.argument("session_ids", metavar="[ID]...", nargs=-1, type=ID)
@json_option
def migrate(
    config_path: Path | None, to: str, source: str | None, dry_run: bool, session_ids: tuple[str, ...], as_json: bool
) -> int:
    """Move conversations to another agent: the live ones of --from, or those that are named.

    The exit code is 1 if one of them could not be moved.
    """
    if source is None and not session_ids:
        raise click.UsageError("Say which sessions: name them, or give --from.")
    body = {"to": to, "from": source, "sessions": list(session_ids) or None, "dryRun": dry_run}
    with reach(load_config(config_path)) as client, progress("Moving sessions"):
        moved = client.post("/api/admin/sessions/migrate", body, timeout=LONG)
    if as_json:
        print_json(moved)
    else:
        rows = [[row["id"], row["fromKey"], row["toKey"], _outcome(row)] for row in moved["sessions"]]
        print_table(["ID", "FROM", "TO", "RESULT"], rows)
    return 0 if dry_run or all(row["movable"] for row in moved["sessions"]) else 1


def _outcome(row: dict[str, Any]) -> str:
    if not row["movable"]:
        return f"not moved: {row['explanation']}"
    verb = "moved" if row["moved"] else "would be moved"
    return verb if row["joins"] is None else f"{verb}, joining {row['joins']}"
