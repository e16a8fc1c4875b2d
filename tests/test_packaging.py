"""The wheel installs one name, and the command in it runs without the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path, PurePosixPath

import pytest

PACKAGES = ("gateway", "channels", "routing", "store")

pytestmark = pytest.mark.req("CARD-15")


def call(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command outside the checkout and without the environment's Python settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_"))}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=50)


def checked(command: Sequence[str | Path], cwd: Path) -> str:
    done = call(command, cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def sources(checkout: Path) -> set[str]:
    """Every file of the four packages, by its path in the checkout."""
    files = (path for package in PACKAGES for path in (checkout / package).rglob("*") if path.is_file())
    return {path.relative_to(checkout).as_posix() for path in files if path.parent.name != "__pycache__"}


@dataclass(frozen=True)
class Built:
    """One wheel from the checkout, and one by way of the sdist."""

    wheel: Path
    sdist: Path
    wheel_of_sdist: Path


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, the dependencies of this one, and nothing of the checkout."""

    bin: Path
    outside: Path

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        return call([self.bin / "trunkline", *args], self.outside)

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        return call([self.bin / "python", "-c", textwrap.dedent(code)], self.outside)


@pytest.fixture(scope="module")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    direct, through = tmp_path_factory.mktemp("direct"), tmp_path_factory.mktemp("through")
    build = [sys.executable, "-m", "build", "--no-isolation"]
    checked([*build, "--wheel", "--outdir", direct, checkout], direct)
    checked([*build, "--outdir", through, checkout], through)
    return Built(only(direct, "*.whl"), only(through, "*.tar.gz"), only(through, "*.whl"))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home, outside = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("outside")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--python", str(python)]
    checked([*pip, "install", "--no-deps", "--no-index", "--quiet", built.wheel], outside)
    dependencies = only(home, "lib/python*/site-packages") / "dependencies.pth"
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    dependencies.write_text("".join(f"{path}\n" for path in sorted(paths)))
    return Installed(home / "bin", outside)


def test_wheel_holds_one_name(built: Built) -> None:
    tops = {PurePosixPath(name).parts[0] for name in names(built.wheel)}
    (info,) = tops - {"trunkline"}
    assert "trunkline" in tops
    assert info.startswith("trunkline-")
    assert info.endswith(".dist-info")


def test_wheel_holds_every_file_of_the_packages(checkout: Path, built: Built) -> None:
    shipped = {name for name in names(built.wheel) if name.startswith("trunkline/")}
    expected = {f"trunkline/{path}" for path in sources(checkout) - {"gateway/_installed.py"}}
    assert shipped == expected | {"trunkline/__init__.py"}


def test_entry_point_is_the_one_of_the_checkout(checkout: Path, built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        assert archive.read("trunkline/__init__.py") == (checkout / "gateway" / "_installed.py").read_bytes()


def test_sdist_gives_the_same_wheel(built: Built) -> None:
    assert names(built.wheel_of_sdist) == names(built.wheel)


def test_sdist_holds_what_is_named_and_nothing_else(checkout: Path, built: Built) -> None:
    root = built.sdist.name.removesuffix(".tar.gz")
    with tarfile.open(built.sdist) as archive:
        files = {PurePosixPath(name).relative_to(root) for name in archive.getnames()}
    tool = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]
    named = {path.removeprefix("/") for path in tool["hatch"]["build"]["targets"]["sdist"]["include"]}
    always = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert always <= {path.parts[0] for path in files} <= always | named
    assert sources(checkout) <= {path.as_posix() for path in files}
    assert not [path for path in files if "__pycache__" in path.parts]


def test_command_runs_outside_the_checkout(installed: Installed) -> None:
    done = installed.command("--help")
    assert done.returncode == 0, done.stderr
    assert "trunkline" in done.stdout


@pytest.mark.parametrize(("argument", "succeeds"), [("--help", True), ("no-such-command", False)])
def test_checkout_runs_the_same_command(checkout: Path, installed: Installed, argument: str, succeeds: bool) -> None:
    there = installed.command(argument)
    here = call([sys.executable, "-m", "gateway", argument], checkout)
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
    assert (there.returncode == 0) is succeeds


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_are_hidden_from_other_programs(installed: Installed, name: str) -> None:
    done = installed.python(f"import {name}")
    assert f"ModuleNotFoundError: No module named '{name}'" in done.stderr


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_have_no_second_name(installed: Installed, name: str) -> None:
    done = installed.python(f"import trunkline.{name}")
    assert f"ModuleNotFoundError: No module named 'trunkline.{name}'" in done.stderr


def test_no_file_is_imported_under_two_names(installed: Installed) -> None:
    done = installed.python(
        """
        import importlib, json, pkgutil, sys
        import trunkline

        for package in ("gateway", "channels", "routing", "store"):
            path = importlib.import_module(package).__path__
            for module in pkgutil.walk_packages(path, package + "."):
                importlib.import_module(module.name)
        root = trunkline.__file__.removesuffix("__init__.py")
        modules = [(name, getattr(module, "__file__", None)) for name, module in sys.modules.items()]
        print(json.dumps([pair for pair in modules if pair[1] and pair[1].startswith(root)]))
        """
    )
    assert done.returncode == 0, done.stderr
    loaded: list[tuple[str, str]] = json.loads(done.stdout)
    modules, files = zip(*loaded, strict=True)
    assert {"trunkline", *PACKAGES, "gateway.__main__"} <= set(modules)
    assert not [name for name in modules if name.startswith("trunkline.")]
    assert len(files) == len(set(files))


@pytest.mark.parametrize("name", [*PACKAGES, "tests", "benchmarks"])
def test_no_other_distribution_provides_our_names(name: str) -> None:
    assert not set(packages_distributions().get(name, ())) - {"trunkline"}
