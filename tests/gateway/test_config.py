"""The configuration: what is accepted, and what it means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
import tomli_w
from pydantic import ValidationError

from gateway.config import Config, KnownPerson, Listen, QueueMode, Strategy, environment, load
from routing.access import DmPolicy, Policy
from routing.bindings import Binding
from routing.errors import ConfigError
from routing.keys import PeerKind
from routing.scopes import DmScope, GroupScope, Scopes

Load = Callable[..., Config]

FOREIGN_WORDS = (
    "Input should",
    "Extra inputs",
    "Field required",
    "alidation error",
    "pydantic",
    "Value error",
    "_type",
)


@pytest.fixture
def read(tmp_path: Path) -> Load:
    """Load a configuration from its text."""

    def from_text(text: str, **env: str) -> Config:
        file = tmp_path / "config.toml"
        file.write_text(text, encoding="utf-8")
        return load(file, {"HOME": str(tmp_path), **env})

    return from_text


# -- what is accepted -------------------------------------------------------------------------------------------------


def test_nothing_configured_is_a_web_page_with_the_builtin_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "SYSTEM_FILE", tmp_path / "absent.toml")
    config = load(None, {"HOME": str(tmp_path)})
    assert config.path is None
    assert config.gateway.data_dir == tmp_path / ".local/share/trunkline"
    assert config.gateway.default_agent == "main"
    assert (config.gateway.drain_seconds, config.gateway.disk_reserve_mb) == (20, 200)
    assert config.http.listen == Listen("127.0.0.1", 8787)
    assert config.http.admin_token is None
    [account] = config.accounts
    assert (account.channel, account.name, account.streaming) == ("web", "main", True)
    assert account.policy == Policy(dm=DmPolicy.OPEN)
    assert list(config.agents) == ["main"]
    assert (config.bindings, config.people, config.warnings) == ((), (), ())


def test_an_agent_has_defaults(read: Load) -> None:
    agent = read('[agents.main]\nkind = "builtin"').agents["main"]
    assert (agent.kind, agent.name, agent.queue) == ("builtin", "main", QueueMode.FOLLOWUP)
    assert agent.scopes == Scopes(dm=DmScope.PERSON, group=GroupScope.GROUP)
    assert (agent.turn_timeout, agent.max_turns, agent.max_waiting, agent.context_window) == (300, 64, 50, 1024)
    compaction = agent.compaction
    assert (compaction.strategy, compaction.keep_turns, compaction.deadline) == (Strategy.NONE, 6, 20)


def test_everything_can_be_said(read: Load, tmp_path: Path) -> None:
    config = read(
        """
        [gateway]
        data_dir = "/srv/trunkline"
        default_agent = "helper"
        drain_seconds = 0
        disk_reserve_mb = 0
        idle_minutes = 1.5
        [http]
        listen = "[::1]:0"
        [web.page]
        dm = "allowlist"
        allow = ["owner", 7]
        [memory.test]
        dm = "off"
        groups = ["0042", -100]
        mention = false
        always = ["-0200"]
        bots = [8]
        overhear = 5
        flood = 7
        streaming = false
        [agents.helper]
        kind = "builtin"
        name = "Der Helfer"
        queue = "collect"
        dm_scope = "main"
        group_scope = "member"
        turn_timeout = 0.5
        max_turns = 1
        max_waiting = 2
        context_window = 100
        [agents.helper.compaction]
        strategy = "window"
        keep_turns = 3
        deadline = 4
        [[bindings]]
        agent = "helper"
        channel = "memory"
        account = "test"
        guild = 1
        role = 2
        peer_kind = "group"
        peer = "+0099"
        thread = 4
        sender = "ann"
        [people.ann]
        telegram = 42
        discord = "0043"
        owner = true
        [people.bob]
        """
    )
    assert config.path == tmp_path / "config.toml"
    assert config.gateway.data_dir == Path("/srv/trunkline")
    assert (config.gateway.default_agent, config.gateway.idle_minutes) == ("helper", 1.5)
    assert str(config.http.listen) == "[::1]:0"
    page, memory = config.accounts
    assert page.policy == Policy(dm=DmPolicy.ALLOWLIST, allow=frozenset({"owner", "7"}))
    assert memory.policy == Policy(
        dm=DmPolicy.OFF,
        groups=frozenset({"42", "-100"}),
        mention=False,
        always=frozenset({"-200"}),
        bots=frozenset({"8"}),
        overhear=5,
        flood=7,
    )
    assert (memory.channel, memory.name, memory.streaming) == ("memory", "test", False)
    helper = config.agents["helper"]
    assert (helper.name, helper.queue) == ("Der Helfer", QueueMode.COLLECT)
    assert helper.scopes == Scopes(dm=DmScope.MAIN, group=GroupScope.MEMBER)
    assert helper.compaction.strategy is Strategy.WINDOW
    assert config.bindings == (
        Binding(
            agent="helper",
            channel="memory",
            account="test",
            guild="1",
            role="2",
            peer_kind=PeerKind.GROUP,
            peer="99",
            thread="4",
            sender="ann",
        ),
    )
    assert config.people == (
        KnownPerson(name="ann", owner=True, telegram="42", discord="43"),
        KnownPerson(name="bob", owner=False, telegram=None, discord=None),
    )
    assert [person.identities for person in config.people] == [{"telegram": "42", "discord": "43"}, {}]


def test_a_configuration_is_a_frozen_value(read: Load) -> None:
    text = '[agents.main]\nkind = "builtin"\n[http]\nadmin_token = "one"\n'
    config = read(text)
    assert config == read(text)
    assert config != read(text.replace("one", "two"))
    assert config != read(text + "[agents.main.compaction]\nkeep_turns = 5")
    with pytest.raises(FrozenInstanceError):
        config.path = None  # type: ignore[misc]
    with pytest.raises(ValidationError):
        config.gateway.idle_minutes = 5
    with pytest.raises(TypeError):
        config.agents["other"] = config.agents["main"]  # type: ignore[index]


@pytest.mark.req("S001-47")
def test_each_agent_chooses_its_compaction(read: Load) -> None:
    agents = read(
        """
        [agents.main]
        kind = "builtin"
        [agents.short]
        kind = "builtin"
        compaction = {strategy = "window"}
        """
    ).agents
    assert agents["main"].compaction.strategy is Strategy.NONE
    assert agents["short"].compaction.strategy is Strategy.WINDOW


@pytest.mark.parametrize(
    ("agents", "chosen", "default"),
    [
        (["main"], None, "main"),
        (["only"], None, "only"),
        (["other", "main"], None, "main"),
        (["other", "main"], "other", "other"),
        (["other", "main"], "", None),
        (["one", "two"], "", None),
    ],
)
def test_default_agent(read: Load, agents: list[str], chosen: str | None, default: str | None) -> None:
    gateway = {} if chosen is None else {"default_agent": chosen}
    text = tomli_w.dumps({"gateway": gateway, "agents": {name: {"kind": "builtin"} for name in agents}})
    assert read(text).gateway.default_agent == default


def test_missing_parts_are_filled_in(read: Load) -> None:
    assert [account.channel for account in read("").accounts] == ["web"]
    assert [account.channel for account in read("[web]\n[agents]\n[memory.m]").accounts] == ["memory"]
    assert list(read("[memory.m]").agents) == ["main"]


# -- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({}, "{home}/.local/share/trunkline"),
        ({"XDG_DATA_HOME": "/data"}, "/data/trunkline"),
        ({"XDG_DATA_HOME": "relative"}, "{home}/.local/share/trunkline"),
        ({"XDG_DATA_HOME": "/data", "STATE_DIRECTORY": "/var/lib/trunkline"}, "/var/lib/trunkline"),
        ({"STATE_DIRECTORY": "/var/lib/trunkline:/var/lib/other"}, "/var/lib/trunkline"),
    ],
)
def test_data_directory_unless_given(read: Load, tmp_path: Path, env: dict[str, str], place: str) -> None:
    assert read("", **env).gateway.data_dir == Path(place.format(home=tmp_path))


@pytest.mark.parametrize(
    ("given", "place"),
    [("/srv/t", "/srv/t"), ("~/t", "{home}/t"), ("~", "{home}"), ("data/t", "{home}/data/t"), ("~t", "{home}/~t")],
)
def test_data_directory_given(read: Load, tmp_path: Path, given: str, place: str) -> None:
    config = read(tomli_w.dumps({"gateway": {"data_dir": given}}), STATE_DIRECTORY="/var/lib/trunkline")
    assert config.gateway.data_dir == Path(place.format(home=tmp_path))


def test_the_usual_places_are_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [tmp_path / name / "config.toml" for name in ("xdg/trunkline", ".config/trunkline", "etc")]
    for place in places:
        place.parent.mkdir(parents=True)
        place.touch()
    monkeypatch.setattr(environment, "SYSTEM_FILE", places[2])
    home = {"HOME": str(tmp_path)}
    assert load(None, home | {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).path == places[0]
    assert load(None, home).path == places[1]
    places[1].unlink()
    assert load(None, home).path == places[2]
    places[2].unlink()
    assert load(None, home).path is None


def test_a_file_in_a_usual_place_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "trunkline"
    folder.mkdir(parents=True)
    (folder / "config.toml").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="config.toml: there is no such file"):
        load(None, {"HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="config.toml: cannot be read: File name too long"):
        load(None, {"HOME": f"/{'x' * 300}"})


# -- environment ------------------------------------------------------------------------------------------------------


@pytest.mark.req("S000-77", "S000-78")
@pytest.mark.parametrize(
    ("variable", "key", "minutes"), [(None, None, 30), (None, 7, 7), ("5", None, 5), ("5", 7, 5), (" 0.5 ", None, 0.5)]
)
def test_idle_timeout(read: Load, variable: str | None, key: int | None, minutes: float) -> None:
    text = "" if key is None else f"[gateway]\nidle_minutes = {key}"
    env = {} if variable is None else {"AGENT_SESSION_IDLE_TIMEOUT": variable}
    assert read(text, **env).gateway.idle_minutes == minutes


@pytest.mark.req("S000-36")
@pytest.mark.parametrize(
    ("variable", "key", "root"),
    [
        (None, None, None),
        (None, "/srv/a", "/srv/a"),
        ("/srv/b", None, "/srv/b"),
        ("/srv/b", "/srv/a", "/srv/b"),
    ],
)
def test_workspace_root(read: Load, variable: str | None, key: str | None, root: str | None) -> None:
    text = "" if key is None else f'[gateway]\nworkspace_root = "{key}"'
    env = {} if variable is None else {"AGENT_WORKSPACE_ROOT": variable}
    found = read(text, **env).gateway.workspace_root
    assert (None if found is None else str(found)) == root


@pytest.mark.req("CARD-28")
@pytest.mark.parametrize("listen", ["127.0.0.1:8787", "127.9.9.9:1", "[::1]:65535", "localhost:0"])
def test_loopback_needs_none(read: Load, listen: str) -> None:
    assert str(read(f'[http]\nlisten = "{listen}"').http.listen) == listen
