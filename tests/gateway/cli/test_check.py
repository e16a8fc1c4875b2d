"""`trunkline check` and `trunkline explain`: they read the configuration and change nothing."""

from __future__ import annotations

from tests.gateway.cli.conftest import Place

AGENTS = {"main": {"kind": "builtin"}, "quiet": {"kind": "builtin"}}


def test_a_good_configuration(place: Place) -> None:
    place.configure(agents=AGENTS, people={"ada": {"owner": True}}, web={"main": {}, "second": {}})
    lines = place("check").lines
    assert lines == [
        f"ok: {place.config}",
        f"data:     {place.data}",
        f"listens:  127.0.0.1:{place.port}",
        "accounts: web.main, web.second",
        "agents:   main (builtin), quiet (builtin); default: main",
        "bindings: 0 bindings; people: 1",
    ]
    assert not place.data.exists()


def test_the_built_in_configuration(place: Place) -> None:
    lines = place.plain("check").lines
    assert lines[0] == "ok: the built-in configuration"
    assert "agents:   main (builtin); default: main" in lines


def test_bindings_that_can_never_match(place: Place) -> None:
    binding = {"agent": "quiet", "channel": "web"}
    place.config.write_text(
        place.config.read_text()
        + "".join(f'[agents.{name}]\nkind = "builtin"\n' for name in AGENTS)
        + "[web.main]\n"
        + "".join(f'[[bindings]]\nagent = "{binding["agent"]}"\nchannel = "web"\n' for _ in range(2))
    )
    done = place("check")
    [warning] = [line for line in done.lines if line.startswith("warning:")]
    assert "[[bindings]] #2 never decides" in warning
    assert "bindings: 2 bindings" in done.out
    [told] = place("check", "--json").json["warnings"]
    assert told in warning


def test_every_problem_is_named(place: Place) -> None:
    place.config.write_text('[gateway]\ndefault_agent = "mian"\n[http]\nlisten = "x"\nadmin_tokn = "hunter2"\n')
    done = place("check", expect=78)
    assert done.out == ""
    assert len(done.err.splitlines()) == 3
    assert all(line.startswith(f"trunkline: {place.config}: ") for line in done.err.splitlines())
    told = place("check", "--json", expect=78)
    assert told.json["ok"] is False
    assert [f"trunkline: {problem}" for problem in told.json["problems"]] == done.err.splitlines()
    assert "hunter2" not in done.err + told.out


def test_for_scripts(place: Place) -> None:
    place.configure(agents=AGENTS)
    assert place("check", "--json").json == {
        "ok": True,
        "problems": [],
        "warnings": [],
        "path": str(place.config),
        "dataDir": str(place.data),
        "listen": f"127.0.0.1:{place.port}",
        "accounts": ["web.main"],
        "agents": {"main": "builtin", "quiet": "builtin"},
        "defaultAgent": "main",
        "bindings": 0,
        "people": 0,
    }


def test_explain_for_scripts(place: Place) -> None:
    asked = ("explain", "--channel", "web", "--account", "main", "--chat", "7", "--sender", "7", "--json")
    explained = place(*asked).json
    assert (explained["agent"], explained["allowed"], explained["rule"]) == ("main", True, "dm=open")
    refused = place(*asked, "--kind", "group").json
    assert (refused["allowed"], refused["reason"]) == (False, "group_not_listed")
    assert not place.data.exists()
