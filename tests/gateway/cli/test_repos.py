"""`trunkline repos`, with a daemon and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.cli.conftest import Place
from tests.gateway.test_repositories import make


@pytest.fixture
def root(place: Place) -> Path:
    root = place.folder / "root"
    make(root / "group" / "two")
    make(root / "one")
    make(place.folder / "outside")
    place.configure(gateway={"workspace_root": "root"})
    return root


def test_without_a_daemon(place: Place, root: Path) -> None:
    assert "repos scan" in place("repos", "list").err
    assert place("repos", "scan").lines == ["new: group/two", "new: one", "2 repositories."]
    listed = place("repos", "list")
    assert [line.split()[1:3] for line in listed.lines[1:]] == [
        ["group/two", str(root / "group" / "two")],
        ["one", str(root / "one")],
    ]
    assert place("repos", "remove", "group/two").out == "group/two is off the list.\n"
    assert place("repos", "scan").lines == ["2 repositories."]
    assert [one["name"] for one in place("repos", "list", "--json").json["repos"]] == ["one"]
    assert "There is no repository group/two" in place("repos", "remove", "group/two", expect=1).sentence


def test_with_a_daemon(place: Place, root: Path) -> None:
    place.start()
    assert len(place("repos", "list", "--json").json["repos"]) == 2
    make(root / "three")
    assert place("repos", "add", "root/three", "--name", "drei").out == f"drei is on the list: {root / 'three'}\n"
    assert "is refused" in place("repos", "add", "outside", expect=1).sentence
    assert "is refused" in place("repos", "add", "~", expect=1).sentence
    assert "event" not in place("repos", "add", "root/../outside", expect=1).out
    assert place.log.read_text().count(" path_violation ") == 3


@pytest.mark.req("S000-36")
def test_the_variable_wins(place: Place, root: Path) -> None:
    other = place.folder / "elsewhere"
    make(other / "mine")
    env = {"AGENT_WORKSPACE_ROOT": str(other)}
    assert place("repos", "scan", env=env).lines == ["new: mine", "1 repository."]
    wrong = place("repos", "scan", env={"AGENT_WORKSPACE_ROOT": "relative"}, expect=78)
    assert 'AGENT_WORKSPACE_ROOT = "relative": must be the absolute path' in wrong.sentence


def test_without_a_root(place: Place) -> None:
    assert "Set AGENT_WORKSPACE_ROOT" in place("repos", "scan", expect=1).sentence


def test_a_session_for_an_agent_that_needs_no_repository(place: Place, root: Path) -> None:
    place("repos", "scan")
    assert "does not work in a repository" in place("sessions", "new", "--repo", "one", expect=1).sentence
