"""The process that holds the model, with something else in the place of the library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.agents.local import child

LIBRARY = """
import json, os, sys

class CommonParams:
    def __init__(self):
        class Anything: pass
        self.model, self.cpuparams, self.cpuparams_batch = Anything(), Anything(), Anything()

class Server:
    def __init__(self, params):
        os.write(1, b"a line of the library on standard output\\n")
        if params.model.path == "broken.gguf":
            raise RuntimeError("Failed to init server")
        told = {**vars(params), "model": params.model.path, "cpuparams": params.cpuparams.n_threads,
                "cpuparams_batch": params.cpuparams_batch.n_threads, "path": sys.path,
                "model_alias": list(params.model_alias)}
        print(json.dumps(told), file=sys.stderr, flush=True)
        self.listening_address = "http://127.0.0.1:1234"
"""
WANTED = {"alias": "small", "context_window": 100, "slots": 2, "threads": 3, "key": "a-random-key"}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "xllamacpp.py").write_text(LIBRARY)
    return tmp_path


def run(folder: Path, model: str) -> subprocess.CompletedProcess[str]:
    """Until the end of its input, which comes at once."""
    return subprocess.run(
        [sys.executable, "-P", child.__file__],
        input=json.dumps({**WANTED, "model": model}) + "\n",
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_it_says_its_address_and_nothing_else_and_goes_with_its_input(library: Path) -> None:
    done = run(library, "good.gguf")
    assert (done.returncode, done.stdout) == (0, "http://127.0.0.1:1234\n")


def test_what_the_library_is_told(library: Path) -> None:
    told = json.loads(run(library, "good.gguf").stderr.splitlines()[-1])
    assert told["hostnames"] == ["127.0.0.1"]
    assert told["api_keys"] == ["a-random-key"]
    assert (told["model"], told["model_alias"]) == ("good.gguf", ["small"])
    assert (told["n_ctx"], told["n_parallel"]) == (200, 2)
    assert (told["cpuparams"], told["cpuparams_batch"]) == (3, 3)
    assert (told["offline"], told["ui"], told["endpoint_slots"]) == (True, False, False)
    assert str(Path(child.__file__).parent) not in told["path"]


def test_a_model_that_cannot_be_loaded(library: Path) -> None:
    done = run(library, "broken.gguf")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "RuntimeError: Failed to init server"


def test_without_the_library(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ModuleNotFoundError('No module named xllamacpp')")
    done = run(tmp_path, "good.gguf")
    assert (done.returncode, done.stdout) == (1, "")
