"""The directory in which an agent works: always inside the workspace root, whatever a path looks like."""

from __future__ import annotations

from pathlib import Path

from routing.errors import RepositoryOutside, UnknownRepository, WorkspaceNotSet


def resolve(root: Path | None, repo: str) -> Path:
    """The absolute directory of a repository, given by its path in the root or by an absolute one.

    Symlinks are followed before it is looked at. Raises WorkspaceNotSet, RepositoryOutside or UnknownRepository.
    """
    if root is None:
        raise WorkspaceNotSet(repo=repo)
    try:
        base = root.resolve(strict=True)
        found = (base / repo).resolve()
    except (OSError, RuntimeError, ValueError):
        raise UnknownRepository(repo=repo) from None
    if not found.is_relative_to(base):
        raise RepositoryOutside(repo=repo, path=found, root=base)
    if not repo.strip() or not found.is_dir():
        raise UnknownRepository(repo=repo)
    return found


def inside(repo: Path, path: str) -> bool:
    """Whether a path that an agent names lies in its repository, with symlinks followed."""
    try:
        return (repo / path).resolve().is_relative_to(repo)
    except (OSError, RuntimeError, ValueError):
        return False
