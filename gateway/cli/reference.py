"""The command reference: `python -m gateway.cli.reference > docs/commands.md`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from gateway.cli import trunkline

_HEAD = """\
# Commands

Made by `python -m gateway.cli.reference > docs/commands.md`; a test compares the two.

Commands that need data speak to the running daemon. If none runs, they take its lock and work on the data directory
themselves. Exit codes: 0 done, 1 refused, 2 wrong usage, 3 (`status`) no daemon runs; those of
[operating.md](operating.md) for trouble with the configuration or the data.
"""


def markdown() -> str:
    context = click.Context(trunkline, info_name="trunkline")
    return "\n".join([_HEAD, *_sections(trunkline, context)]).rstrip("\n") + "\n"


def _sections(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.commands[name]
            yield from _sections(inner, click.Context(inner, info_name=name, parent=context))
        return
    pieces = [context.command_path, *command.collect_usage_pieces(context)]
    yield f"## {context.command_path}\n"
    yield f"`{' '.join(pieces)}`\n"
    yield f"{_text(command.help or '')}\n"
    options = [record for param in command.params if (record := param.get_help_record(context)) is not None]
    if options:
        yield "| option | |"
        yield "|---|---|"
        for names, text in options:
            yield f"| `{_cell(names)}` | {_cell(text)} |"
        yield ""


def _text(docstring: str) -> str:
    """A docstring as Markdown; what click is told not to wrap becomes a block of code."""
    blocks = []
    for block in inspect.cleandoc(docstring).split("\n\n"):
        verbatim = block.startswith("\b\n")
        blocks.append(f"```\n{block[2:]}\n```" if verbatim else block)
    return "\n\n".join(blocks)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    click.echo(markdown(), nl=False)
