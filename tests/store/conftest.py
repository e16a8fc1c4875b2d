"""Fixtures of the store's tests: a real store on disk, and a database in memory for rules that need no file."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.database import Store
from tests.store.helpers import in_memory


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory that does not exist yet."""
    return tmp_path / "data"


@pytest.fixture
async def store(data_dir: Path) -> AsyncIterator[Store]:
    opened = await Store.open(data_dir)
    yield opened
    await opened.close()


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(in_memory()) as connection:
        yield connection
