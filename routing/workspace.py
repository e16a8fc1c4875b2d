"""The workspace root: which paths lie in it. Whoever asks has resolved both against the disk."""

from __future__ import annotations

from pathlib import PurePath


def inside(root: PurePath, path: PurePath) -> bool:
    """Whether a resolved path is the root or lies below it, by whole names: `/root-evil` is not below `/root`.

    What is not resolved is never inside: a relative path, or one that still goes up.
    """
    resolved = all(one.is_absolute() and ".." not in one.parts for one in (root, path))
    # Two slashes at the beginning are a root of their own in POSIX, and Python keeps them.
    return resolved and root.anchor == path.anchor and path.parts[: len(root.parts)] == root.parts
