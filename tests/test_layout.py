"""The tree is what the card names, and the files that describe it agree with each other."""

import importlib
import os
import platform
import re
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name


@pytest.fixture(scope="module")
def pyproject(checkout: Path) -> dict[str, Any]:
    return tomllib.loads((checkout / "pyproject.toml").read_text())


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", path.read_text(), flags=re.MULTILINE))


@pytest.mark.req("CARD-01")
def test_python_is_the_declared_one(pyproject: dict[str, Any]) -> None:
    requires = SpecifierSet(pyproject["project"]["requires-python"])
    assert requires == SpecifierSet(">=3.11")
    assert requires.contains(platform.python_version(), prereleases=True)
    assert pyproject["tool"]["ruff"]["target-version"] == "py311"
    assert pyproject["tool"]["mypy"]["python_version"] == "3.11"


@pytest.mark.req("CARD-01")
def test_ci_runs_the_tests_with_that_python(checkout: Path) -> None:
    ci = checkout / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    assert ci.read_text().splitlines()[-1] == "exec make test"
    assert "sys.version_info < (3, 11)" in (checkout / "Makefile").read_text()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gateway", marks=pytest.mark.req("CARD-09")),
        pytest.param("channels", marks=pytest.mark.req("CARD-10")),
        pytest.param("routing", marks=pytest.mark.req("CARD-11")),
        pytest.param("store", marks=pytest.mark.req("CARD-12")),
    ],
)
def test_package_is_top_level(checkout: Path, name: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ == str(checkout / name / "__init__.py")


@pytest.mark.req("CARD-14")
def test_tests_are_top_level(checkout: Path, pyproject: dict[str, Any]) -> None:
    assert pyproject["tool"]["pytest"]["ini_options"]["testpaths"] == ["tests"]
    assert Path(__file__).parent == checkout / "tests"
    assert not list((checkout / "tests").rglob("__init__.py"))


@pytest.mark.req("CARD-14")
def test_tests_cannot_leave_the_machine() -> None:
    with pytest.raises(RuntimeError, match="stay on this machine"):
        socket.create_connection(("example.org", 80))
    with socket.socket() as sock, pytest.raises(RuntimeError, match="stay on this machine"):
        sock.connect(("192.0.2.1", 80))


@pytest.mark.req("CARD-14")
def test_tests_reach_loopback() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(("localhost", server.getsockname()[1])) as client,
    ):
        assert client.getpeername() == server.getsockname()


@pytest.mark.req("CARD-15")
def test_pyproject_declares_the_command(pyproject: dict[str, Any]) -> None:
    assert pyproject["project"]["name"] == "trunkline"
    assert pyproject["project"]["scripts"] == {"trunkline": "trunkline:main"}


@pytest.mark.req("CARD-15")
@pytest.mark.parametrize("lock", ["run", "dev", "local"])
def test_lock_holds_what_pyproject_declares(checkout: Path, pyproject: dict[str, Any], lock: str) -> None:
    declared = list(pyproject["project"]["dependencies"])
    if lock == "dev":
        declared += pyproject["dependency-groups"]["dev"]
    locked = pins(checkout / "requirements" / f"{lock}.txt")
    for requirement in map(Requirement, declared):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


def test_locks_agree(checkout: Path) -> None:
    run, dev = (pins(checkout / "requirements" / f"{lock}.txt") for lock in ("run", "dev"))
    assert run.items() <= dev.items()


@pytest.mark.parametrize("lock", ["run", "dev", "local"])
def test_lock_names_no_place(checkout: Path, lock: str) -> None:
    text = (checkout / "requirements" / f"{lock}.txt").read_text()
    assert not re.search(r"://|index-url|find-links|trusted-host|file:|(^|\s)/", text)
    assert text.count("--hash=sha256:") >= len(pins(checkout / "requirements" / f"{lock}.txt"))
