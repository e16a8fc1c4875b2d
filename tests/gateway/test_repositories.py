"""Paths on a real disk: whatever is asked for ends inside the workspace root or is refused and logged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.logs import Event
from gateway.repositories import locate, look, of_session, resolve
from routing.errors import NotARepo, NoWorkspace, PathViolation, UnknownRepo
from store import repos
from tests.fakes.harness import Journal, Rigs
from tests.store.helpers import in_memory


def make(path: Path) -> Path:
    """A directory that looks like a clone."""
    (path / ".git").mkdir(parents=True)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two repositories, and more of them around it."""
    root = tmp_path / "root"
    make(root / "one")
    make(root / "group" / "two")
    make(tmp_path / "root-evil")
    make(tmp_path / "other")
    return root


@pytest.fixture
def db(root: Path) -> Iterator[sqlite3.Connection]:
    with closing(in_memory()) as connection:
        repos.record(connection, look(root), 1)
        yield connection


@pytest.fixture
def log() -> Iterator[Journal]:
    journal = Journal()
    journal.open()
    yield journal
    journal.close()


# Finding


def test_a_scan_finds_clones_and_worktrees(root: Path) -> None:
    (root / "linked").mkdir()
    (root / "linked" / ".git").write_text("gitdir: elsewhere")
    make(root / "one" / "vendored")
    make(root / "node_modules" / "x")
    make(root / ".hidden")
    make(root / "a" / "b" / "c" / "d")
    make(root / "a" / "b" / "c" / "e" / "too-deep")
    (root / "empty").mkdir()
    make(root / "line\nbreak")
    assert sorted(look(root).values()) == ["a/b/c/d", "group/two", "linked", "one"]


@pytest.mark.req("S000-42")
def test_a_scan_follows_no_link(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "other")
    (root / "up").symlink_to("..")
    (root / "again").symlink_to("one")
    assert sorted(look(root).values()) == ["group/two", "one"]


def test_a_root_that_is_a_repository_itself(root: Path) -> None:
    (root / ".git").mkdir()
    assert sorted(look(root).values()) == ["group/two", "one", "root"]


# Using


@pytest.mark.req("S000-36", "S000-38", "S002-10")
def test_by_name_and_by_id(db: sqlite3.Connection, root: Path) -> None:
    assert resolve(db, root, "group/two") == root / "group" / "two"
    assert resolve(db, root, repos.find(db, "one").public_id) == root / "one"


@pytest.mark.req("S000-35", "S002-16", "S002-18")
def test_an_unknown_one_is_told_and_logged(db: sqlite3.Connection, root: Path, log: Journal) -> None:
    make(root / "not-scanned-yet")
    for wanted in ("not-scanned-yet", "../other", str(root / "one"), "", "One"):
        with pytest.raises(UnknownRepo):
            resolve(db, root, wanted)
        assert log.of(Event.REPOSITORY_UNKNOWN)[-1]["repo"] == wanted


def swap_directory(root: Path) -> None:
    (root / "one").rename(root / "before")
    (root / "one").symlink_to(root.parent / "other")


def swap_parent(root: Path) -> None:
    make(root.parent / "elsewhere" / "two")
    (root / "group").rename(root / "before")
    (root / "group").symlink_to(root.parent / "elsewhere")


def swap_within(root: Path) -> None:
    (root / "one").rename(root / "before")
    (root / "one").symlink_to(root / "group" / "two")


def swap_loop(root: Path) -> None:
    (root / "one").rename(root / "before")
    (root / "one").symlink_to(root / "one")


@pytest.mark.req("S000-41", "S000-42", "S000-43", "S002-19", "S002-21")
@pytest.mark.parametrize(
    ("swap", "name"),
    [(swap_directory, "one"), (swap_parent, "group/two"), (swap_within, "one"), (swap_loop, "one")],
)
def test_a_link_put_in_its_place_is_refused(
    db: sqlite3.Connection, root: Path, log: Journal, swap: Callable[[Path], None], name: str
) -> None:
    repo = repos.find(db, name)
    assert resolve(db, root, name) == repo.path
    swap(root)
    with pytest.raises(PathViolation):
        resolve(db, root, name)
    [line] = log.of(Event.PATH_VIOLATION)
    assert (line["repo"], line["path"]) == (repo.public_id, str(repo.path))


@pytest.mark.req("S000-42", "S002-19", "S002-21")
def test_a_row_with_a_path_outside_is_refused(db: sqlite3.Connection, root: Path, log: Journal) -> None:
    for path in (root.parent / "root-evil", root.parent / "other", Path("/"), root / ".." / "other"):
        repo = repos.add(db, str(path), path, 2)
        with pytest.raises(PathViolation):
            resolve(db, root, repo.public_id)
        assert log.of(Event.PATH_VIOLATION)[-1]["repo"] == repo.public_id


@pytest.mark.req("S000-36")
def test_another_root_makes_the_old_paths_outside(db: sqlite3.Connection, root: Path) -> None:
    (root.parent / "new").mkdir()
    with pytest.raises(PathViolation):
        resolve(db, root.parent / "new", "one")


@pytest.mark.req("S000-36")
def test_a_root_behind_a_link_is_where_the_link_leads(db: sqlite3.Connection, root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert resolve(db, root.parent / "link", "one") == root / "one"


@pytest.mark.req("S000-37")
def test_without_a_root_nothing_is_inside(db: sqlite3.Connection, root: Path) -> None:
    (root.parent / "file").write_text("")
    (root.parent / "whole").symlink_to("/")
    for wrong in (None, root.parent / "missing", root.parent / "file", Path("/"), root.parent / "whole"):
        with pytest.raises(NoWorkspace):
            resolve(db, wrong, "one")


def test_what_is_no_repository_any_more_is_unknown(db: sqlite3.Connection, root: Path, log: Journal) -> None:
    (root / "one" / ".git").rmdir()
    with pytest.raises(UnknownRepo):
        resolve(db, root, "one")
    (root / "one").rmdir()
    with pytest.raises(UnknownRepo):
        resolve(db, root, "one")
    assert len(log.of(Event.REPOSITORY_UNKNOWN)) == 2
    (root / "one").write_text("a file")
    with pytest.raises(NotARepo):
        resolve(db, root, "one")


# Hostile paths


HOSTILE = [
    "..",
    "one/../..",
    "../other",
    "../root-evil",
    "one/../../other",
    "/",
    "/etc",
    "//etc",
    "/proc/self/root",
    "/dev/fd",
    "~",
    "~root",
    "~nobody-of-that-name",
    "~/x",
    "out",
    "out/deeper",
    "one/hop/hop",
    "loop",
    "a\0b",
    "x" * 5000,
    "\ud800",
    "../missing",
    "/missing/for/sure",
]


@pytest.mark.req("S000-41", "S000-42", "S000-43")
@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_path_is_a_violation(root: Path, log: Journal, path: str) -> None:
    (root / "out").symlink_to("../other")
    (root.parent / "other" / "deeper").mkdir()
    (root / "loop").symlink_to("loop")
    (root / "one" / "hop").symlink_to(root / "group")
    (root / "group" / "hop").symlink_to(root.parent / "other")
    with pytest.raises(PathViolation):
        locate(root, path)
    assert [line["path"] for line in log.of(Event.PATH_VIOLATION)] == [path]


@pytest.mark.req("S000-41")
@pytest.mark.parametrize("path", ["one", "./one", "one/", "group//two/../../one", "one/.", "inner", "../root/one"])
def test_a_crooked_path_that_ends_inside_is_made_straight(root: Path, path: str) -> None:
    (root / "inner").symlink_to("group/../one")
    assert locate(root, path) == root / "one"
    assert locate(root, f"{root}/{path}") == root / "one"
    assert locate(root, f"{root}//{path}") == root / "one"


PARTS = st.sampled_from(
    ["..", ".", "", "~", "one", "group", "two", "out", "in", "up", "loop", "file", "hop", "root", "root-evil", "other"]
)


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("maze")
    root = folder / "root"
    make(root / "one")
    make(root / "group" / "two")
    make(folder / "root-evil")
    make(folder / "other" / "in")
    for place in (root, root / "one", root / "group", folder / "other"):
        (place / "out").symlink_to(folder / "other")
        (place / "up").symlink_to("..")
        (place / "loop").symlink_to("loop")
        (place / "hop").symlink_to(root / "group")
        (place / "file").write_text("")
    (root / "in").symlink_to("one")
    return root


@pytest.mark.req("S000-41", "S000-42", "S000-43")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400, deadline=None)
@given(parts=st.lists(PARTS, max_size=7), absolute=st.sampled_from(["", "/", "ROOT/", "ROOT-evil/"]))
def test_every_path_ends_inside_or_is_refused(maze: Path, parts: list[str], absolute: str) -> None:
    text = absolute.replace("ROOT", str(maze)) + "/".join(parts)
    journal = Journal()
    journal.open()
    try:
        path = locate(maze, text)
    except PathViolation:
        assert len(journal.of(Event.PATH_VIOLATION)) == 1
    except NotARepo:
        assert journal.of(Event.PATH_VIOLATION) == []
    else:
        assert os.path.realpath(path) == str(path)
        assert os.path.samefile(path, os.path.join(maze, os.path.expanduser(text)))
        assert str(path) == str(maze) or str(path).startswith(f"{maze}/")
    finally:
        journal.close()


# The daemon


@pytest.mark.req("S002-10")
async def test_the_daemon_scans_at_its_start(rigs: Rigs, root: Path) -> None:
    rig = await rigs(gateway={"workspace_root": str(root)}).start()
    assert [repo.name for repo in await rig.read(repos.every)] == ["group/two", "one"]
    await rig.stop()
    make(root / "three")
    await rig.start()
    assert [repo.name for repo in await rig.read(repos.every)] == ["group/two", "one", "three"]


async def test_a_root_that_is_missing_stops_nobody(rigs: Rigs, tmp_path: Path) -> None:
    rig = await rigs(gateway={"workspace_root": str(tmp_path / "missing")}).start()
    [warning] = rig.journal.of(Event.CONFIG_WARNING)
    assert "No such file or directory" in warning["why"]
    await rig.ask("hello")
    assert rig.chat.texts() == ["re: hello"]


async def test_one_that_was_added_by_hand_survives_a_scan(rigs: Rigs, root: Path) -> None:
    rig = await rigs(gateway={"workspace_root": str(root)}).start()
    repositories = rig.running.api.operations.repositories
    deep = make(root / "a" / "b" / "c" / "d" / "e")
    await repositories.add("a/b/c/d/e", "deep")
    assert (await repositories.scan()).gone == ()
    assert await repositories.resolve("deep") == deep
    (deep / ".git").rmdir()
    assert (await repositories.scan()).gone == ("deep",)


@pytest.mark.req("S000-34")
async def test_a_conversation_is_bound_when_its_agent_is_first_started(rigs: Rigs, root: Path) -> None:
    rig = await rigs(gateway={"workspace_root": str(root)}).start()
    await rig.ask("hello")
    session, persist = await rig.session(), rig.running.api.operations.repositories.persist
    with pytest.raises(UnknownRepo):
        await of_session(persist, root, session.public_id, "three")
    assert (await rig.session()).repo_id is None
    assert await of_session(persist, root, session.public_id, "one") == root / "one"
    # Another one that is wanted later is not for this session.
    assert await of_session(persist, root, session.public_id, "group/two") == root / "one"
    assert (await rig.session()).repo_id == (await rig.read(lambda db: repos.find(db, "one"))).public_id
