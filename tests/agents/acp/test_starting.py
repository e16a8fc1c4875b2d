"""How an agent is started: which program, with which flag, where, and with how little of our environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gateway import phrases
from gateway.agents.acp import homes
from gateway.agents.acp.presets import Preset, launch
from gateway.config import AcpAgent, load
from gateway.logs import Event
from routing.errors import ConfigError
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.scene import PROGRAM

_WHY = phrases.ACP_NO_REPOSITORY
NO_REPOSITORY = phrases.FAILED.format(why=_WHY[:1].upper() + _WHY[1:])


def script(scene_script: dict[str, object], folder: Path, flag: str) -> Path:
    """A program that is the scripted agent, and knows one flag only."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "gemini"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = "{flag}" ] || {{ echo "Unknown argument: $1" >&2; exit 1; }}\n'
        f"exec {sys.executable} {PROGRAM} \"$@\" '{json.dumps(scene_script)}'\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.req("S002-02", "S002-09")
@pytest.mark.parametrize("flag", ["--acp", "--experimental-acp"])
async def test_gemini_is_started_with_the_flag_that_it_knows(scenes: Scenes, tmp_path: Path, flag: str) -> None:
    scene = scenes({"preset": "gemini"})
    program = script(scene.script, tmp_path / "bin", flag)
    scene._table["command"] = [str(program)]
    await scene.restart()
    assert await scene.say("hi", sender="1") == "You said: hi"
    assert await scene.say("hi", sender="2") == "You said: hi"
    assert [born["argv"] for born in scene.born] == [[flag], [flag]]
    # The older flag is remembered.
    assert len(scene.rig.journal.of(Event.AGENT_STARTED)) == (2 if flag == "--acp" else 3)


@pytest.mark.req("S000-38", "S000-40")
async def test_the_workspace_can_be_an_argument(scenes: Scenes) -> None:
    scene = scenes()
    command = [sys.executable, str(PROGRAM), "--workspace", "{workspace}", json.dumps(scene.script)]
    scene._table["command"] = command
    await scene.restart()
    await scene.say("hi")
    [born] = scene.born
    assert born["argv"] == ["--workspace", str(scene.repo)]
    [started] = scene.rig.journal.of(Event.AGENT_STARTED)
    assert (started["repo"], started["session"]) == (scene.repo, (await scene.rig.session()).public_id)


async def test_the_child_gets_little_of_our_environment(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUNKLINE_TELEGRAM_TOKEN", "1:secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    scene = await scenes({"env": {"MY_KEY": "mine"}}).start()
    await scene.say("hi")
    [born] = scene.born
    assert born["env"]["MY_KEY"] == "mine"
    assert "PATH" in born["env"]
    assert not [value for value in born["env"].values() if "secret" in value]


@pytest.mark.req("S002-17", "S002-18")
async def test_no_process_is_started_in_a_repository_that_nobody_knows(scenes: Scenes) -> None:
    scene = await scenes({"repo": "../.."}).start()
    assert await scene.say("hi") == NO_REPOSITORY
    [unknown] = scene.rig.journal.of(Event.REPOSITORY_UNKNOWN)
    assert unknown["repo"] == "../.."
    assert scene.born == []


@pytest.mark.req("S000-43", "S002-20")
async def test_no_process_is_started_outside_the_root(scenes: Scenes, tmp_path: Path) -> None:
    scene = await scenes().start()
    scene.repo.rename(tmp_path / "elsewhere")
    scene.repo.symlink_to(tmp_path / "elsewhere")
    assert await scene.say("hi") == NO_REPOSITORY
    [violation] = scene.rig.journal.of(Event.PATH_VIOLATION)
    assert violation["path"] == str(scene.repo)
    assert scene.born == []


def test_a_name_is_enough() -> None:
    for preset in Preset:
        assert launch(preset, ()).command
    assert launch(Preset.GEMINI, ("/opt/g",)).command == ("/opt/g", "--acp")
    assert launch(Preset.GEMINI, ("/opt/g",)).older == ("/opt/g", "--experimental-acp")
    assert launch(Preset.GEMINI, ("g", "--own")).older is None
    assert launch(None, ("/opt/own", "x")).name == "own"


def agent(tmp_path: Path, table: str, env: dict[str, str] | None = None) -> AcpAgent:
    file = tmp_path / "config.toml"
    file.write_text(f'[gateway]\ndata_dir = "data"\n[agents.main]\nkind = "acp"\n{table}\n')
    found = load(file, {"HOME": str(tmp_path), **(env or {})}).agents["main"]
    assert isinstance(found, AcpAgent)
    return found


@pytest.mark.req("S002-09")
def test_the_environment_names_the_gemini_cli(tmp_path: Path) -> None:
    env = {"GEMINI_CLI_PATH": "/opt/gemini"}
    assert agent(tmp_path, 'preset = "gemini"', env).launch.command == ("/opt/gemini", "--acp")
    assert agent(tmp_path, 'preset = "codex"', env).launch.command == ("codex-acp",)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("", "[agents.main] command"),
        ("command = []", "[agents.main] command"),
        ('preset = "cursor"', "[agents.main] preset"),
        ('preset = "gemini"\npermissions = "yes"', "[agents.main] permissions"),
        ('preset = "gemini"\nenv = { "A-B" = "x" }', "[agents.main"),
        ('preset = "gemini"\nenv = { KEY = { env = "NOT_SET" } }', "NOT_SET"),
        ('preset = "gemini"\napprovers = "ada"', "[agents.main] approvers"),
        ('preset = "gemini"\napprovers = ["eve"]', "there is no [people.eve]"),
    ],
)
def test_a_wrong_table_is_named(tmp_path: Path, table: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        agent(tmp_path, table)
    assert words in str(refused.value)


def test_approvers_are_people_or_identities(tmp_path: Path) -> None:
    table = 'preset = "gemini"\napprovers = ["ada", "telegram:7"]\n[people.ada]\ntelegram = 5'
    assert agent(tmp_path, table).approvers == ("ada", "telegram:7")


def test_an_agent_without_a_workspace_is_warned_about(tmp_path: Path) -> None:
    agent(tmp_path, 'preset = "gemini"')
    [warning] = load(tmp_path / "config.toml", {"HOME": "/"}).warnings
    assert "[agents.main] cannot work" in warning
    assert load(tmp_path / "config.toml", {"HOME": "/", "AGENT_WORKSPACE_ROOT": "/srv"}).warnings == ()


@pytest.mark.parametrize("variable", ["GEMINI_CLI_PATH", "AGENT_WORKSPACE_ROOT"])
def test_a_wrong_variable_is_named(tmp_path: Path, variable: str) -> None:
    with pytest.raises(ConfigError) as refused:
        agent(tmp_path, 'preset = "gemini"', {variable: " "})
    assert variable in str(refused.value)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[gateway]\ndata_dir = "data"\nworkspace_root = "below"\n')
    assert load(file, {"HOME": "/"}).gateway.workspace_root == tmp_path / "below"
    assert load(file, {"HOME": "/", "AGENT_WORKSPACE_ROOT": "/srv"}).gateway.workspace_root == Path("/srv")


async def test_gemini_gets_a_home_with_settings_that_keep_its_sessions(scenes: Scenes) -> None:
    command = [sys.executable, str(PROGRAM), "{}"]
    scene = await scenes({"preset": "gemini", "command": command, "env": {"GEMINI_API_KEY": "key"}}).start()
    home = scene.rig.running.store.path.parent / "agents" / "gemini"
    found = homes.home(Preset.GEMINI, home.parent, {"GEMINI_API_KEY": "key"})
    assert found == {"GEMINI_CLI_HOME": str(home)}
    settings = home / ".gemini" / "settings.json"
    assert json.loads(settings.read_text())["general"] == {"sessionRetention": {"enabled": False}}
    assert settings.stat().st_mode & 0o777 == 0o600
    settings.write_text("{}")
    homes.home(Preset.GEMINI, home.parent, {"GEMINI_API_KEY": "key"})
    assert settings.read_text() == "{}", "what is there stays"


@pytest.mark.parametrize(
    ("preset", "env"),
    [
        (Preset.GEMINI, {}),
        (Preset.GEMINI, {"GEMINI_API_KEY": "key", "GEMINI_CLI_HOME": "/elsewhere"}),
        (Preset.CLAUDE, {"GEMINI_API_KEY": "key"}),
        (None, {"GEMINI_API_KEY": "key"}),
    ],
)
def test_others_keep_theirs(tmp_path: Path, preset: Preset | None, env: dict[str, str]) -> None:
    assert homes.home(preset, tmp_path, env) == {}
    assert list(tmp_path.iterdir()) == []


def test_opencode_is_told_to_ask() -> None:
    told = json.loads(launch(Preset.OPENCODE, ()).env["OPENCODE_CONFIG_CONTENT"])
    assert told["permission"]["bash"] == told["permission"]["edit"] == "ask"
