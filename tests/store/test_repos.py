"""The list of repositories: what scans and operators make of it, and what sessions keep."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.errors import RepoBound, RepoExists, UnknownRepo
from routing.keys import PeerKind, SessionKey
from store import repos, sessions
from tests.store.helpers import in_memory

KEY = SessionKey("coder", "api", "owner", PeerKind.DM, "x")


def names(db: sqlite3.Connection) -> list[str]:
    return [repo.name for repo in repos.every(db)]


def scan(db: sqlite3.Connection, *found: str, now: int = 5) -> repos.Scanned:
    return repos.record(db, {Path("/root", name): name for name in found}, now)


@pytest.mark.req("S000-35", "S002-10")
def test_a_scan_makes_the_list(db: sqlite3.Connection) -> None:
    assert scan(db, "b", "a") == repos.Scanned(found=2, new=("b", "a"), gone=())
    assert names(db) == ["a", "b"]
    first = repos.find(db, "a")
    assert (repos.find(db, first.public_id), first.path) == (first, Path("/root/a"))
    assert scan(db, "b", "c", now=9) == repos.Scanned(found=2, new=("c",), gone=("a",))
    assert names(db) == ["b", "c"]
    assert (repos.find(db, "b").created_at, repos.find(db, "b").scanned_at) == (5, 9)
    with pytest.raises(UnknownRepo):
        repos.find(db, first.public_id)
    assert repos.get(db, first.public_id) == first


def test_what_comes_back_has_its_old_id(db: sqlite3.Connection) -> None:
    scan(db, "a")
    before = repos.find(db, "a").public_id
    scan(db)
    scan(db, "a")
    assert repos.find(db, "a").public_id == before


def test_what_was_removed_stays_away_until_it_is_added(db: sqlite3.Connection) -> None:
    scan(db, "a")
    repo = repos.remove(db, "a")
    assert scan(db, "a") == repos.Scanned(found=1, new=(), gone=())
    assert names(db) == []
    with pytest.raises(UnknownRepo):
        repos.remove(db, "a")
    assert repos.add(db, "a", repo.path, 7).public_id == repo.public_id


def test_a_name_is_given_once(db: sqlite3.Connection) -> None:
    repos.add(db, "a", Path("/root/x"), 1)
    with pytest.raises(RepoExists, match="/root/x"):
        repos.add(db, "a", Path("/root/y"), 1)
    # What a scan finds is listed in any case, and a name that was chosen stays.
    scan(db, "a", "x")
    assert names(db) == ["/root/a", "a"]
    assert repos.find(db, "a").path == Path("/root/x")


def test_a_name_that_looks_like_an_id_hides_nothing(db: sqlite3.Connection) -> None:
    scan(db, "a")
    repo = repos.find(db, "a")
    repos.add(db, repo.public_id, Path("/root/evil"), 1)
    assert repos.find(db, repo.public_id) == repo


@pytest.mark.req("S000-34")
def test_a_session_keeps_its_repository(db: sqlite3.Connection) -> None:
    scan(db, "a", "b")
    one, other = repos.find(db, "a").public_id, repos.find(db, "b").public_id
    session = sessions.create(db, KEY, 1)
    assert session.repo_id is None
    assert sessions.bind(db, session.id, one).repo_id == one
    assert sessions.bind(db, session.id, one).repo_id == one
    with pytest.raises(RepoBound):
        sessions.bind(db, session.id, other)
    for value in ("NULL", "2"):
        with pytest.raises(sqlite3.IntegrityError, match="keeps its repository"):
            db.execute(f"UPDATE sessions SET repo = {value}")
    repos.remove(db, "a")
    assert sessions.get(db, session.public_id).repo_id == one


@pytest.mark.req("S000-35")
def test_a_session_is_bound_to_what_exists(db: sqlite3.Connection) -> None:
    session = sessions.create(db, KEY, 1)
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("UPDATE sessions SET repo = 77 WHERE id = ?", (session.id,))


@given(scans=st.lists(st.sets(st.sampled_from("abcd")), max_size=6), removed=st.sets(st.sampled_from("abcd")))
def test_the_list_is_what_the_last_scan_found_but_for_what_was_removed(
    scans: list[set[str]], removed: set[str]
) -> None:
    db = in_memory()
    seen: set[str] = set()
    for found in scans:
        seen |= found
        scan(db, *sorted(found))
        for name in removed & set(names(db)):
            repos.remove(db, name)
    last = scans[-1] if scans else set()
    assert set(names(db)) == last - removed
    assert db.execute("SELECT count(*) FROM repos").fetchone() == (len(seen),)
    db.close()
