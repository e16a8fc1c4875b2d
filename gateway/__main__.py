"""The entry point: ``python -m gateway`` in a checkout, ``trunkline`` once installed."""

import sys

import click

from gateway.cli import trunkline


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        code = trunkline.main(prog_name="trunkline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return 130
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
