"""The command line: ``python -m gateway`` in a checkout, ``trunkline`` once installed."""

import sys

import click


@click.command(name="trunkline")
def command() -> None:
    """Connect people in Telegram and Discord to AI agents."""


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        command.main(prog_name="trunkline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
