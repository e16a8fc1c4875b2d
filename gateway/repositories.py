"""Repositories under the workspace root: the one place that looks at the disk for them.

A path is looked at when it is listed and again each time it is used, because a link may have been put in its place.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gateway.clock import Clock
from gateway.logs import Event, log
from gateway.persist import Persist
from routing.errors import NotARepo, NoWorkspace, PathViolation, UnknownRepo
from routing.workspace import inside
from store import repos, sessions
from store.database import Database
from store.records import Session
from store.repos import Repo, Scanned

#: How far below the root a scan looks. Deeper ones can be added by hand.
_DEPTH = 4
_LONGEST_NAME = 200
#: Where no repository of anybody is, and much else.
_SKIPPED = frozenset({"node_modules", "__pycache__"})


def resolve(db: Database, root: Path | None, wanted: str) -> Path:
    """The directory of a repository, by id or name, in which an agent may be started now.

    Raises UnknownRepo, PathViolation or NoWorkspace; each is in the log then.
    """
    try:
        repo = repos.find(db, wanted)
    except UnknownRepo:
        log(Event.REPOSITORY_UNKNOWN, logging.WARNING, repo=wanted)
        raise
    path = locate(root, str(repo.path), repo=repo.public_id)
    if path != repo.path:
        raise _violation(str(repo.path), repo.public_id, "it leads to another directory than the one that was listed")
    if not _is_repo(path):
        log(Event.REPOSITORY_UNKNOWN, logging.WARNING, repo=wanted, path=path)
        raise UnknownRepo(repo=wanted)
    return path


async def of_session(persist: Persist, root: Path | None, session_id: str, wanted: str) -> Path:
    """Where the agent of a session works now: in what the session is bound to, or else in what is wanted for it.

    The first time binds it, for life: a repository that is wanted later is one for new sessions.
    """

    def look(db: Database) -> tuple[Session, Path]:
        session = sessions.get(db, session_id)
        return session, resolve(db, root, session.repo_id or wanted)

    session, path = await persist.read(look)
    if session.repo_id is None:
        await persist.once(lambda db: sessions.bind(db, session.id, repos.find(db, wanted).public_id))
    return path


def locate(root: Path | None, text: str, *, repo: str | None = None) -> Path:
    """The real directory that a path leads to, which lies inside the root; a relative path starts there."""
    real_root = _real_root(root)
    try:
        path = (real_root / Path(text).expanduser()).resolve(strict=True)
    except FileNotFoundError:
        return _missing(real_root, text, repo)
    except (OSError, RuntimeError, ValueError) as exc:  # a loop of links, a name too long, a zero byte
        raise _violation(text, repo, "it cannot be resolved") from exc
    if not inside(real_root, path):
        raise _violation(text, repo, "it lies outside the workspace root")
    if not path.is_dir():
        raise NotARepo(path=text)
    return path


def _missing(root: Path, text: str, repo: str | None) -> Path:
    """Whether something exists outside is nobody's business: there the answer is the same for both."""
    try:
        outside = not inside(root, (root / Path(text).expanduser()).resolve())
    except (OSError, RuntimeError, ValueError):
        outside = True
    if outside:
        raise _violation(text, repo, "it lies outside the workspace root")
    if repo is not None:
        log(Event.REPOSITORY_UNKNOWN, logging.WARNING, repo=repo, path=text)
        raise UnknownRepo(repo=repo)
    raise NotARepo(path=text)


def _real_root(root: Path | None) -> Path:
    if root is None:
        raise NoWorkspace(why="no workspace root is set")
    try:
        real = root.resolve(strict=True)
    except (OSError, RuntimeError) as exc:
        raise NoWorkspace(why=f"the workspace root {root} cannot be used: {getattr(exc, 'strerror', exc)}") from exc
    if not real.is_dir():
        raise NoWorkspace(why=f"the workspace root {root} is no directory")
    if real == Path(real.anchor):
        raise NoWorkspace(why="the workspace root must not be the whole file system")
    return real


def _violation(path: str, repo: str | None, why: str) -> PathViolation:
    log(Event.PATH_VIOLATION, logging.WARNING, path=path, repo=repo, why=why)
    return PathViolation(path=path, why=why)


def _is_repo(path: Path) -> bool:
    """A directory in worktrees and clones, a file in linked worktrees and submodules."""
    try:
        return (path / ".git").exists()
    except OSError:
        return False


def look(root: Path) -> dict[Path, str]:
    """The repositories below a real root, path → name. Links are not followed: what they lead to is found itself."""
    return {path: _name(root, path) for path in _walk(root, 0) if _speakable(_name(root, path))}


def _look(root: Path, listed: list[Repo]) -> dict[Path, str]:
    """With those that were added by hand, deeper than a scan looks, as long as they are there."""
    by_hand = {one.path: one.name for one in listed if inside(root, one.path) and _is_repo(one.path)}
    return {path: name for path, name in by_hand.items() if path.resolve() == path} | look(root)


def _walk(folder: Path, depth: int) -> Iterator[Path]:
    found = _is_repo(folder)
    if found:
        yield folder
    if depth < _DEPTH and (not found or depth == 0):
        for below in _folders(folder):
            yield from _walk(below, depth + 1)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(one.path)
                for one in entries
                if one.name not in _SKIPPED and not one.name.startswith(".") and one.is_dir(follow_symlinks=False)
            )
    except OSError:  # unreadable, or gone meanwhile
        return []


def _name(root: Path, path: Path) -> str:
    return root.name if path == root else path.relative_to(root).as_posix()


def _speakable(name: str) -> bool:
    """Printable text: names stand in logs, tables and chats."""
    return name.isprintable() and len(name) <= _LONGEST_NAME


@dataclass(frozen=True, slots=True)
class Repositories:
    """The operations behind HTTP and command line."""

    root: Path | None
    persist: Persist
    clock: Clock

    async def every(self) -> list[Repo]:
        return await self.persist.read(repos.every)

    async def named(self, public_id: str) -> Repo:
        """Listed or not: what a session is bound to."""
        return await self.persist.read(lambda db: repos.get(db, public_id))

    async def scan(self) -> Scanned:
        root = await asyncio.to_thread(_real_root, self.root)
        listed = await self.every()
        found = await asyncio.to_thread(_look, root, listed)
        done = await self.persist.once(lambda db: repos.record(db, found, self.clock.now()))
        log(Event.REPOSITORIES_SCANNED, root=root, found=done.found, new=len(done.new), gone=len(done.gone))
        return done

    async def scan_at_start(self) -> None:
        """A root that cannot be used is told and does not stop anybody: agents without a repository go on."""
        if self.root is None:
            return
        try:
            await self.scan()
        except NoWorkspace as exc:
            log(Event.CONFIG_WARNING, logging.WARNING, why=str(exc))

    async def add(self, text: str, name: str | None) -> Repo:
        """List one repository, under a name of its own if wished."""
        root = await asyncio.to_thread(_real_root, self.root)
        path = await asyncio.to_thread(locate, root, text)
        if not _is_repo(path) or not _speakable(wanted := name or _name(root, path)):
            raise NotARepo(path=text)
        repo = await self.persist.once(lambda db: repos.add(db, wanted, path, self.clock.now()))
        log(Event.REPOSITORY_ADDED, repo=repo.public_id, name=repo.name, path=repo.path)
        return repo

    async def remove(self, wanted: str) -> Repo:
        repo = await self.persist.once(lambda db: repos.remove(db, wanted))
        log(Event.REPOSITORY_REMOVED, repo=repo.public_id, name=repo.name, path=repo.path)
        return repo

    async def resolve(self, wanted: str) -> Path:
        return await self.persist.read(lambda db: resolve(db, self.root, wanted))
