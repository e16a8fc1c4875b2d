"""`trunkline completion`: the script that teaches a shell our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_SHELLS = ("bash", "zsh", "fish")
_PROGRAM = "trunkline"


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a SHELL: bash, zsh or fish.

    \b
    bash: trunkline completion bash > ~/.local/share/bash-completion/completions/trunkline
    zsh:  trunkline completion zsh > a file named _trunkline in a directory of $fpath
    fish: trunkline completion fish > ~/.config/fish/completions/trunkline.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    made = kind(ctx.find_root().command, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE")
    click.echo(made.source_template % made.source_vars())
    return 0
