"""A daemon with a real language model, and a record of what was measured on it.

`make test` does not come here: the model is 98 MB, and what it says is never the same.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from gateway.agents.local.places import small_model
from tests.gateway.cli.conftest import Place, made

#: The table stands between these lines.
TABLE = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end -->)", re.DOTALL)


class Record:
    """What was measured, by the name of what it is."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}

    def note(self, what: str, value: str) -> None:
        self._rows[what] = value

    def table(self) -> str:
        cores = len(os.sched_getaffinity(0))
        head = f"{datetime.now(UTC):%Y-%m-%d}, xllamacpp {version('xllamacpp')}, {platform.machine()}, {cores} cores"
        rows = [f"| {what} | {value} |\n" for what, value in self._rows.items()]
        return "".join(["\n", f"Last run: {head}.\n\n", "| | |\n|---|---|\n", *rows, "\n"])


@pytest.fixture(scope="session")
def record(checkout: Path) -> Iterator[Record]:
    """Kept in the file that TRUNKLINE_LOCAL_REPORT names, if it names one."""
    kept = Record()
    yield kept
    if name := os.environ.get("TRUNKLINE_LOCAL_REPORT"):
        file = checkout / name
        text, replaced = TABLE.subn(lambda _: kept.table(), file.read_text())
        assert replaced == 1, f"{name} has no place for the table"
        file.write_text(text)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def place(tmp_path: Path, checkout: Path, compiled: Path) -> Iterator[Place]:
    """Where nothing runs yet; its only agent is the model that was fetched."""
    model = small_model(os.environ)
    for one in made(tmp_path, checkout, compiled):
        one.configure(agents={"main": {"kind": "local", "model": str(model), "max_output_tokens": 300}})
        yield one
