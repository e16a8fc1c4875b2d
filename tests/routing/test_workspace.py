"""Which resolved paths lie inside the workspace root: by whole names, and never before they are resolved."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from routing.workspace import inside

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in {".", ".."}
)
RESOLVED = st.lists(NAMES, max_size=4).map(lambda names: PurePosixPath("/", *names))


@pytest.mark.req("S000-41")
@given(root=RESOLVED, below=st.lists(NAMES, max_size=4))
def test_what_is_below_is_inside(root: PurePosixPath, below: list[str]) -> None:
    assert inside(root, root.joinpath(*below))


@pytest.mark.req("S000-42")
@given(root=RESOLVED, path=RESOLVED)
@example(root=PurePosixPath("/srv/root"), path=PurePosixPath("/srv/root-evil"))
@example(root=PurePosixPath("/srv/root"), path=PurePosixPath("/srv"))
@example(root=PurePosixPath("/srv/root"), path=PurePosixPath("/srv/ROOT/x"))
def test_inside_means_that_the_root_is_on_the_way_up(root: PurePosixPath, path: PurePosixPath) -> None:
    assert inside(root, path) == (root in {path, *path.parents})
    assert inside(root, path) == (os.path.commonpath([root, path]) == str(root))


@pytest.mark.req("S000-41", "S000-42")
@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/srv/root", "/srv/root/../etc"),
        ("/srv/root", "/srv/root/a/.."),
        ("/srv/root", "root/a"),
        ("/srv/root", ""),
        ("srv/root", "/srv/root/a"),
        ("/srv/..", "/srv/../a"),
        ("/srv/root", "//srv/root/a"),
        ("//srv/root", "/srv/root/a"),
        ("/srv/root", "~/a"),
    ],
)
def test_what_is_not_resolved_is_outside(root: str, path: str) -> None:
    assert not inside(PurePosixPath(root), PurePosixPath(path))
