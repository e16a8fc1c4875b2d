"""Tables, text that may not steer a terminal, and output that nobody takes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.output import (
    count,
    local_time,
    one_line,
    print_facts,
    print_table,
    progress,
    size,
    span,
    visible,
)
from tests.gateway.cli.conftest import PATIENCE, Place


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME", "N"], [["a", 1], ["long name", 12345], [None, None]], right=["N"])
    assert capsys.readouterr().out == "NAME           N\na              1\nlong name  12345\n\n"


def test_wide_and_joining_characters_count_as_a_terminal_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A", "B"], [["漢字", "x"], ["e\u0301", "x"], ["abcd", "x"]])
    assert capsys.readouterr().out.splitlines() == ["A     B", "漢字  x", "e\u0301     x", "abcd  x"]


def test_facts(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("a", 1), ("longer", "two\nlines"), ("none", None)])
    assert capsys.readouterr().out == "a:      1\nlonger: two lines\nnone:\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x07bell", "�[2J�bell"),
        ("\x9b31m", "�31m"),
        ("a\r\nb\tc", "a�\nb\tc"),
        ("safe \u202etxt.exe", "safe �txt.exe"),
        ("👩\u200d💻 ünï", "👩\u200d💻 ünï"),
    ],
)
def test_nothing_steers_the_terminal(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_small_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert one_line(" a\n\n b\tc ") == "a b c"
    assert [count(number, "turn") for number in (0, 1, 2)] == ["0 turns", "1 turn", "2 turns"]
    assert count(2, "entry", "entries") == "2 entries"
    assert local_time(None) == ""
    assert len(local_time("2026-01-31T12:00:00.123456Z")) == len("2026-01-31 12:00")


def test_a_table_is_cut_at_the_width_of_a_terminal_only(running: Place) -> None:
    session = running.new()
    [_, line, *_] = running("sessions", "list").lines
    assert line.startswith(f"{session}  main   api.owner dm  active")
    screen, inside = pty.openpty()
    subprocess.run(
        running.command("sessions", "list", "--config", running.config),
        env=running.env({"COLUMNS": "50"}),
        stdout=inside,
        cwd=running.folder,
        check=True,
        timeout=PATIENCE,
    )
    os.close(inside)
    shown = os.read(screen, 65_536).decode().replace("\r", "").splitlines()
    os.close(screen)
    assert f"{session}  main   api.…" in shown
    assert "\x1b[1m" in shown[0]  # bold, which a pipe does not get


def test_nobody_reads(running: Place) -> None:
    running.new()
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody:
        done = running("sessions", "list", stdout=nobody, expect=1)
    assert done.err == ""


def test_nothing_can_be_written(running: Place) -> None:
    running.new()
    with Path("/dev/full").open("w") as full:
        done = running("sessions", "list", stdout=full, expect=74)
    assert done.sentence == "The output cannot be used: No space left on device."


def test_a_narrow_encoding_is_no_reason_to_fail(running: Place) -> None:
    session = running.say("漢字 in latin-1")
    done = running("sessions", "show", session, env={"PYTHONIOENCODING": "latin-1"})
    assert done.lines[-1] == "You said: ?? in latin-1"


def test_progress_is_for_those_who_watch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Working") as step:
        step(1, 2)
    assert capsys.readouterr() == ("", "")
    screen, inside = pty.openpty()
    with os.fdopen(inside, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress("Working") as step:
            step(1, 2)
            shown = ""
            while "Working … 50 % (0 s)" not in shown:
                shown += os.read(screen, 1024).decode()
        # Nothing of it stays.
        while not shown.endswith("\r\x1b[K"):
            shown += os.read(screen, 1024).decode()
        monkeypatch.undo()
    os.close(screen)


@pytest.mark.parametrize(
    ("value", "words"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 * 2**30, "3.0 GiB")]
)
def test_sizes(value: int, words: str) -> None:
    assert size(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(0.4, "0 s"), (59, "59 s"), (3601, "1 h 1 s"), (90_061, "1 d 1 h"), (120, "2 min")]
)
def test_spans(value: float, words: str) -> None:
    assert span(value) == words
