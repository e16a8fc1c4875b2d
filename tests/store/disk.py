"""Disks that are really full: a small tmpfs where mounting is allowed, a limit of the process everywhere.

As a program (`python -m tests.store.disk DIR`) it goes through `fill_and_free` under a limit and prints the outcome:
the limit binds the whole process, so it is not for the process that runs the tests.
"""

import asyncio
import contextlib
import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from routing.errors import StoreUnavailable
from store.database import NAME, Store
from tests.store.helpers import add, integrity, names, one_batch

#: More than a full disk has left, in one row.
BIG = 1 << 20


class Disk(Protocol):
    def fill(self) -> None: ...

    def free(self) -> None: ...


class Tmpfs:
    def __init__(self, place: Path) -> None:
        self._filler = place / "filler"

    def fill(self) -> None:
        # Unbuffered, so that the last write stores what still fits.
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass

    def free(self) -> None:
        self._filler.unlink()


class Limit:
    """No file of this process grows beyond the size that the log has now."""

    def __init__(self, data_dir: Path) -> None:
        self._log = data_dir / f"{NAME}-wal"
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._log.stat().st_size, self._before[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@dataclasses.dataclass(frozen=True)
class Outcome:
    #: Names of the errors that the callers of the batch got.
    errors: list[str]
    stored_when_full: list[str]
    stored_at_last: list[str]
    integrity: str


async def fill_and_free(store: Store, disk: Disk) -> Outcome:
    """A row; a full disk and a batch; room again and another row."""
    await store.write(add("before"))
    disk.fill()
    try:
        results = await one_batch(store, add("small"), add("big", BIG), add("last"))
        stored_when_full = await store.read(names)
    finally:
        disk.free()
    await store.write(add("after", BIG))
    return Outcome(
        errors=[type(result).__name__ for result in results if isinstance(result, StoreUnavailable)],
        stored_when_full=stored_when_full,
        stored_at_last=await store.read(names),
        integrity=await store.read(integrity),
    )


@contextlib.contextmanager
def mounted(place: Path, size: str = "4m") -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def may_mount() -> bool:
    with tempfile.TemporaryDirectory() as place:
        try:
            with mounted(Path(place)):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


async def _main(data_dir: Path) -> None:
    store = await Store.open(data_dir)
    try:
        outcome = await fill_and_free(store, Limit(data_dir))
    finally:
        await store.close()
    print(json.dumps(dataclasses.asdict(outcome)))


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
