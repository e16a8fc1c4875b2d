"""`trunkline init`: answered by a script, and what it writes passes `trunkline check`."""

from __future__ import annotations

import ctypes
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.init import Answers, render
from tests.gateway.cli.conftest import Place


def read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


def test_answered_by_a_script(place: Place) -> None:
    file = place.folder / "made" / "config.toml"
    done = place.plain(
        "init", "--config", file, input="store\n127.0.0.1:9999\nbuiltin\n1:tg-token\n1234\ndc-token\n5678\n"
    )
    assert done.out == f"Wrote {file}. Next: trunkline run --config {file}\n"
    questions = [
        "Data directory",
        "Address of the page and the API",
        "Agent (builtin, openai, local)",
        "Telegram bot",
        "Telegram id",
    ]
    questions += ["Discord bot", "Discord id"]
    places = [done.err.index(question) for question in questions]
    assert places == sorted(places)
    assert read(file) == {
        "gateway": {"data_dir": str(place.folder / "store"), "default_agent": "main"},
        "http": {"listen": "127.0.0.1:9999"},
        "web": {"main": {}},
        "telegram": {"main": {"token": "1:tg-token"}},
        "discord": {"main": {"token": "dc-token"}},
        "agents": {"main": {"kind": "builtin"}},
        "people": {"owner": {"owner": True, "telegram": "1234", "discord": "5678"}},
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["config.toml"]
    checked = place.plain("check", "--config", file)
    assert checked.lines[0] == f"ok: {file}"
    assert "warning" not in checked.out


def test_the_defaults_and_the_usual_place(place: Place) -> None:
    done = place.plain("init", "--yes")
    file = place.folder / ".config" / "trunkline" / "config.toml"
    assert done.out == f"Wrote {file}. Next: trunkline run\n"
    assert done.err == ""
    tables = read(file)
    assert tables["gateway"]["data_dir"] == str(place.folder / ".local" / "share" / "trunkline")
    assert tables["http"] == {"listen": "127.0.0.1:8787"}
    assert tables["people"] == {"owner": {"owner": True}}
    assert place.plain("check").lines[0] == f"ok: {file}"
    # Empty answers are the defaults, too.
    other = place.folder / "other.toml"
    place.plain("init", "--config", other, input="\n" * 5)
    assert other.read_text() == file.read_text()


def test_a_wrong_answer_is_asked_again(place: Place) -> None:
    file = place.folder / "new.toml"
    answers = ["", "8787", "127.0.0.1:8787", "gemini", "builtin", "a b", "1:x", "@ada", "1234", "y", "ada#1", ""]
    done = place.plain("init", "--config", file, input="".join(f"{answer}\n" for answer in answers))
    for words in ('must be "host:port"', "must be one of: builtin", "A token has no spaces", "must be the numeric id"):
        assert words in done.err
    assert read(file)["people"] == {"owner": {"owner": True, "telegram": "1234"}}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--listen", "8787", 'must be "host:port"'),
        ("--agent", "gemini", "'gemini' is not one of 'builtin', 'openai', 'local'"),
    ],
)
def test_a_wrong_option_is_not(place: Place, option: str, value: str, words: str) -> None:
    done = place.plain("init", "--yes", option, value, "--config", "new.toml", expect=2)
    assert option in done.err
    assert words in done.err
    assert not (place.folder / "new.toml").exists()


def test_a_language_model(place: Place) -> None:
    file = place.folder / "new.toml"
    answers = ["", "", "openai", "ftp://x", "http://127.0.0.1:11434/v1/", "", "llama", "", "", ""]
    done = place.plain("init", "--config", file, input="".join(f"{answer}\n" for answer in answers))
    assert "must be an address that begins with http:// or https://" in done.err
    server = {"api": "chat", "base_url": "http://127.0.0.1:11434/v1"}
    assert read(file)["agents"]["main"] == {"kind": "openai", "model": "llama", **server}
    place.plain("init", "--yes", "--agent", "openai", "--model", "m", "--api-key", "sk-1", "--config", file, "--force")
    assert read(file)["agents"]["main"] == {"kind": "openai", "model": "m", "api_key": "sk-1"}
    said = place.plain("init", "--yes", "--agent", "openai", "--model", "m", "--config", file, "--force", expect=78)
    assert "[agents.main] api_key: OpenAI needs one" in said.err
    done = place.plain("init", "--yes", "--agent", "local", "--config", file, "--force")
    assert read(file)["agents"]["main"] == {"kind": "local"}
    assert done.out == f"Wrote {file}. Next: trunkline local fetch, then trunkline run --config {file}\n"


@pytest.mark.parametrize(
    "name", ["/a b", "/back\\slash", "/ünïcode 🙂", "/tab\there", "/'single'", "/hash # x", "/x\n[y]"]
)
def test_values_are_quoted(name: str) -> None:
    text = render(Answers(data_dir=name, listen="[::1]:1", kind="builtin", telegram="", discord="7"))
    tables = tomllib.loads(text)
    assert tables["gateway"]["data_dir"] == name
    assert tables["http"] == {"listen": "[::1]:1"}
    assert tables["people"] == {"owner": {"owner": True, "discord": "7"}}


def test_a_name_that_needs_quoting(place: Place) -> None:
    place.plain("init", "--yes", "--data-dir", '~/a "quoted" \\ one', "--config", "new.toml")
    assert read(place.folder / "new.toml")["gateway"]["data_dir"] == '~/a "quoted" \\ one'
    found = place.plain("check", "--config", "new.toml", "--json").json["dataDir"]
    assert found == str(place.folder / 'a "quoted" \\ one')


def test_an_open_address_gets_a_token(place: Place) -> None:
    place.plain("init", "--yes", "--listen", "0.0.0.0:8787", "--config", "new.toml")
    assert place.plain("check", "--config", "new.toml").lines[0] == "ok: new.toml"
    answers = Answers(data_dir="/x", listen="0.0.0.0:8787", kind="builtin", telegram="", discord="")
    tokens = {tomllib.loads(render(answers))["http"]["admin_token"] for _ in range(3)}
    assert len(tokens) == 3
    assert all(len(token) >= 32 for token in tokens)


def test_nothing_is_overwritten_unasked(place: Place) -> None:
    before = place.config.read_text()
    said = place("init", "--yes", expect=1).sentence
    assert said.startswith(f"{place.config} is there already. Edit it, name another file with --config, or")
    assert place.config.read_text() == before
    place("init", "--yes", "--force")
    assert "# The configuration of Trunkline." in place.config.read_text()
    assert stat.S_IMODE(place.config.stat().st_mode) == 0o600


def test_who_does_not_answer_gets_nothing(place: Place) -> None:
    done = place.plain("init", "--config", "new.toml", input="data\n", expect=1)
    assert done.err.splitlines()[-1] == (
        "trunkline: Nobody answered, so nothing was done. --yes does it without asking."
    )
    assert not (place.folder / "new.toml").exists()


def test_what_is_around_it_must_be_right_as_well(place: Place) -> None:
    done = place.plain("init", "--yes", "--config", "new.toml", expect=78, env={"AGENT_SESSION_IDLE_TIMEOUT": "soon"})
    assert "AGENT_SESSION_IDLE_TIMEOUT" in done.sentence
    assert [path.name for path in place.folder.iterdir()] == ["config.toml"]


def without_privileges() -> None:
    """Without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH modes count for root, too."""
    pr_capbset_drop, capabilities = 24, (1, 2)
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        assert [libc.prctl(pr_capbset_drop, one, 0, 0, 0) for one in capabilities] == [0, 0]


def test_a_directory_that_cannot_be_written(place: Place) -> None:
    folder = place.folder / "theirs"
    folder.mkdir(mode=0o500)
    file = folder / "config.toml"
    said = place.plain("init", "--yes", "--config", file, expect=1, preexec_fn=without_privileges).sentence
    assert said == f"{file} cannot be written: Permission denied."
