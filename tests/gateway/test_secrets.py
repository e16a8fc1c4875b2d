"""Secrets: where they come from, and that they are never shown."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.config import Config, load
from routing.errors import ConfigError

Load = Callable[..., Config]

CANARY = "canary-7f3a"


@pytest.fixture
def read(tmp_path: Path) -> Load:
    """Load a configuration with this admin token."""

    def with_token(token: object, **env: str) -> Config:
        file = tmp_path / "config.toml"
        file.write_text(tomli_w.dumps({"http": {"admin_token": token}}), encoding="utf-8")
        return load(file, {"HOME": str(tmp_path), **env})

    return with_token


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{CANARY}\n")
    file.chmod(0o600)
    return file


def token(config: Config) -> str:
    assert config.http.admin_token is not None
    return config.http.admin_token.get_secret_value()


def test_a_secret_is_a_text_a_variable_or_a_file(read: Load, secret_file: Path) -> None:
    assert token(read(CANARY)) == CANARY
    assert token(read({"env": "MY_TOKEN"}, MY_TOKEN=CANARY)) == CANARY
    assert token(read({"file": str(secret_file)})) == CANARY


def test_files_are_found_beside_the_configuration_and_at_home(read: Load, secret_file: Path) -> None:
    assert token(read({"file": "token"})) == CANARY
    assert token(read({"file": "~/token"})) == CANARY


def test_credentials_of_systemd_come_first(read: Load, secret_file: Path, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    env = {"CREDENTIALS_DIRECTORY": str(credentials)}
    assert token(read({"file": "token"}, **env)) == CANARY
    (credentials / "token").write_text("from systemd")
    assert token(read({"file": "token"}, **env)) == "from systemd"
    assert token(read({"file": str(secret_file)}, **env)) == CANARY


def test_the_variable_wins_over_the_file(read: Load) -> None:
    config = read("of the file", TRUNKLINE_ADMIN_TOKEN=CANARY)
    assert token(config) == CANARY
    assert sorted(config.secrets()) == [CANARY, "of the file"]
    assert list(load(None, {"HOME": "/nowhere", "TRUNKLINE_ADMIN_TOKEN": CANARY}).secrets()) == [CANARY]


def test_a_file_that_everybody_can_read_is_a_warning(read: Load, secret_file: Path) -> None:
    assert read({"file": "token"}).warnings == ()
    secret_file.chmod(0o644)
    assert read({"file": "token"}).warnings == (
        f"Every user of this machine can read the secret file {secret_file}: chmod o-r {secret_file}",
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"env": "NOT_THERE"}, "the environment variable NOT_THERE is not set"),
        ({"env": "EMPTY"}, "the environment variable EMPTY is empty or not UTF-8 text"),
        ({"env": "BYTES"}, "the environment variable BYTES is empty or not UTF-8 text"),
        ({"env": CANARY}, "env must be the name of an environment variable: letters, digits and _"),
        ({"file": "absent"}, 'the file "{here}/absent" cannot be read (No such file or directory)'),
        ({"file": "."}, 'the file "{here}" cannot be read (Is a directory)'),
        ({"file": "a\0b"}, 'the file "{here}/a\\u0000b" cannot be read (not a path)'),
        ({"file": "blank"}, 'the file "blank" is empty or not UTF-8 text'),
        ({"file": "binary"}, 'the file "{here}/binary" is not UTF-8 text'),
        ({"file": "large"}, 'the file "{here}/large" is larger than 65536 bytes'),
        (" ", "the text is empty or not UTF-8 text"),
        *((value, 'must be a text, {{env = "NAME"}} or {{file = "PATH"}}') for value in (7, [CANARY], {}, {"env": 7})),
        ({"env": "HOME", "file": "token"}, 'must be a text, {{env = "NAME"}} or {{file = "PATH"}}'),
        ({"value": CANARY}, 'must be a text, {{env = "NAME"}} or {{file = "PATH"}}'),
    ],
)
def test_bad_secret(read: Load, tmp_path: Path, value: object, why: str) -> None:
    (tmp_path / "blank").write_text(" \n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_bytes(b"x" * 65_537)
    with pytest.raises(ConfigError) as caught:
        read(value, EMPTY="", BYTES="\udcff")
    [problem] = caught.value.problems
    assert problem == f"{tmp_path / 'config.toml'}: [http] admin_token: {why.format(here=tmp_path)}."
    assert CANARY not in problem


def test_a_secret_is_not_shown(read: Load) -> None:
    config = read(CANARY)
    shown = f"{config!r} {config} {config.http.admin_token} {config.http.model_dump()} {config.http.model_dump_json()}"
    assert "***" in shown
    assert CANARY not in shown
    assert list(config.secrets()) == [CANARY]


#: The canary in every shape that a misunderstanding may give it.
shapes = st.recursive(
    st.just(CANARY) | st.just(f"{CANARY} ") | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["env", "file", "value"]), inner, max_size=2)
    ),
    max_leaves=4,
).filter(lambda value: not (isinstance(value, dict) and set(value) == {"file"}))


@given(shape=shapes, section=st.sampled_from(["http", "telegram", "discord"]), misplaced=st.booleans())
@example(shape=CANARY, section="telegram", misplaced=True)
def test_no_error_shows_a_secret(tmp_path_factory: Any, shape: object, section: str, misplaced: bool) -> None:
    file = tmp_path_factory.getbasetemp() / "secret.toml"
    place: object = {"admin_token": shape, "admin_tokn": shape} if section == "http" else {"token": shape}
    if section != "http" and not misplaced:
        place = {"main": place}
    file.write_text(tomli_w.dumps({section: place, "nonsense": 1}), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file, {"HOME": "/home/ann"})
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert CANARY not in repr(caught.value)
