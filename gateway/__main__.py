"""The entry point: ``python -m gateway`` in a checkout, ``trunkline`` once installed."""

import io
import os
import sys

import click

from gateway.cli import trunkline

_CANNOT_WRITE = 74


def main() -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a narrow encoding is no reason to fail
    try:
        code = trunkline.main(prog_name="trunkline", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort:
        return 130
    except OSError as error:
        # Commands handle what they touch themselves; what is left is mostly their own output.
        _give_up_output()
        click.echo(f"trunkline: {error.filename or 'The output'} cannot be used: {error.strerror}.", err=True)
        return _CANNOT_WRITE
    return code if isinstance(code, int) else 0


def _give_up_output() -> None:
    """What is still buffered has nowhere to go, and must not fail again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
