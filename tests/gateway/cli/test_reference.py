"""Help texts, the command reference, and the completion of shells: all of it from the same commands."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gateway.cli import trunkline
from gateway.cli.reference import markdown
from tests.gateway.cli.conftest import PATIENCE, Place

NAMES = """
run init check status explain chat search usage backup restore export import forget doctor completion
sessions list, sessions show, sessions new, sessions end, sessions delete, sessions migrate
db migrate, db rollback
local fetch
pair list, pair approve, pair refuse, pair revoke
budget list, budget allow
repos scan, repos list, repos add, repos remove
"""


def walk(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Every command, groups not among them."""
    if not isinstance(command, click.Group):
        yield context
        return
    for name, inner in command.commands.items():
        yield from walk(inner, click.Context(inner, info_name=name, parent=context))


COMMANDS = {
    context.command_path: context for context in walk(trunkline, click.Context(trunkline, info_name="trunkline"))
}


def test_all_are_there() -> None:
    first, *nested = [line for line in NAMES.splitlines() if line]
    names = [*first.split(), *(name.strip() for line in nested for name in line.split(","))]
    assert set(COMMANDS) == {f"trunkline {name}" for name in names}


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_is_explained(path: str, checkout: Path) -> None:
    context = COMMANDS[path]
    command = context.command
    assert command.help
    assert command.get_short_help_str(200).endswith(".")
    page = (checkout / "docs" / "commands.md").read_text()
    section = page.partition(f"\n## {path}\n")[2].partition("\n## ")[0]
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, param.name
            assert param.help.rstrip()[-1] in ".:" or param.name == "channel", param.help
            assert all(f"{name}" in section for name in param.opts), param.name
        else:
            assert (param.metavar or str(param.name).upper()).strip("[].") in section


def test_the_reference_is_up_to_date(checkout: Path) -> None:
    assert (checkout / "docs" / "commands.md").read_text() == markdown(), (
        "python -m gateway.cli.reference > docs/commands.md"
    )


def test_help_as_a_process(place: Place) -> None:
    top = place.plain("--help").out
    for path in COMMANDS:
        assert f"\n  {path.split()[1]} " in top
    group = place.plain("sessions", "--help").out
    assert "List conversations" in group
    one = place.plain("sessions", "migrate", "--help")
    assert one.lines[0] == "Usage: trunkline sessions migrate [OPTIONS] [ID]..."
    assert "--dry-run" in one.out
    wrong = place.plain("sessions", "show", expect=2)
    assert "Missing argument 'ID'" in wrong.err
    assert wrong.out == ""


@pytest.mark.parametrize(
    ("shell", "words"),
    [("zsh", "#compdef trunkline"), ("fish", "complete --no-files --command trunkline")],
)
def test_completion_scripts(shell: str, words: str) -> None:
    done = CliRunner().invoke(trunkline, ["completion", shell])
    assert done.exit_code == 0
    assert words in done.output
    assert "_TRUNKLINE_COMPLETE" in done.output


def test_bash_takes_the_script(place: Place) -> None:
    script = place.plain("completion", "bash").out
    asked = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p trunkline"], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert asked.stdout == "complete -o nosort -F _trunkline_completion trunkline\n"


def test_what_bash_is_offered(place: Place) -> None:
    def offered(line: str) -> set[str]:
        words = line.split(" ")
        env = {"_TRUNKLINE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        return {each.partition(",")[2] for each in place.plain(env=env).lines}

    assert offered("trunkline ses") == {"sessions"}
    assert {"--to", "--from", "--dry-run"} <= offered("trunkline sessions migrate --")


def test_a_shell_that_is_not_known(place: Place) -> None:
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in place.plain("completion", "tcsh", expect=2).err
