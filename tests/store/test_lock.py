"""One daemon per data directory: the second is refused by name, and a dead one never stands in the way."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from routing.errors import AlreadyRunning, DataDirUnusable
from store import lock
from store.lock import NAME, InstanceLock

HOLD = """
import sys
from pathlib import Path
from store.lock import InstanceLock
InstanceLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""

#: The same on a disk that takes not a single byte.
HOLD_ON_FULL_DISK = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + HOLD


@contextmanager
def holder(data_dir: Path, checkout: Path, program: str = HOLD) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its input ends."""
    command = [sys.executable, "-c", program, str(data_dir)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=checkout, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child


def test_another_process_is_refused_and_told_who_it_is(tmp_path: Path, checkout: Path) -> None:
    with holder(tmp_path, checkout) as child:
        with pytest.raises(AlreadyRunning) as refused:
            InstanceLock(tmp_path).acquire()
        assert f"Another trunkline (process {child.pid}) uses the data directory {tmp_path}." in str(refused.value)
    with InstanceLock(tmp_path):
        pass


def test_the_same_process_is_refused_as_well(tmp_path: Path) -> None:
    with InstanceLock(tmp_path), pytest.raises(AlreadyRunning, match=rf"\(process {os.getpid()}\)"):
        InstanceLock(tmp_path).acquire()


def test_a_refused_one_takes_nothing_from_the_holder(tmp_path: Path) -> None:
    with InstanceLock(tmp_path) as lock:
        for _ in range(3):
            with pytest.raises(AlreadyRunning):
                InstanceLock(tmp_path).acquire()
        assert lock.path.read_text() == f"{os.getpid()}\n"


def test_kill_9_frees_the_lock(tmp_path: Path, checkout: Path) -> None:
    with holder(tmp_path, checkout) as child:
        child.kill()
        child.wait()
        assert (tmp_path / NAME).read_text() == f"{child.pid}\n"
        with InstanceLock(tmp_path) as lock:
            assert lock.path.read_text() == f"{os.getpid()}\n"


def test_a_longer_pid_from_before_leaves_no_rest(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("99999999999\n")
    with InstanceLock(tmp_path) as lock:
        assert lock.path.read_text() == f"{os.getpid()}\n"


def test_release_frees_the_lock_and_may_come_twice(tmp_path: Path) -> None:
    lock = InstanceLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()
    with InstanceLock(tmp_path):
        pass


def test_children_do_not_keep_the_lock(tmp_path: Path) -> None:
    with InstanceLock(tmp_path):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    with child, InstanceLock(tmp_path):
        assert child.poll() is None


def test_data_directories_do_not_share_a_lock(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with InstanceLock(tmp_path / "a"), InstanceLock(tmp_path / "b"):
        pass


def test_the_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with InstanceLock(tmp_path) as lock:
            assert oct(stat.S_IMODE(lock.path.stat().st_mode)) == "0o600"
    finally:
        os.umask(before)


def test_a_full_disk_does_not_keep_the_daemon_from_its_lock(tmp_path: Path, checkout: Path) -> None:
    with (
        holder(tmp_path, checkout, HOLD_ON_FULL_DISK),
        pytest.raises(AlreadyRunning, match="Another trunkline uses the data directory"),
    ):
        InstanceLock(tmp_path).acquire()


@pytest.mark.parametrize("place", ["/proc", "/dev/null", "/nowhere/at/all"])
def test_a_place_that_takes_no_files_is_refused(place: str) -> None:
    with pytest.raises(DataDirUnusable, match=f"Cannot write in the data directory {place}: "):
        InstanceLock(Path(place)).acquire()


def test_a_directory_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(DataDirUnusable, match="Is a directory"):
        InstanceLock(tmp_path).acquire()


def test_who_holds_it_can_be_asked_without_taking_it(tmp_path: Path, checkout: Path) -> None:
    assert lock.holder(tmp_path / "nowhere") is None
    assert lock.holder(tmp_path) is None
    assert [*tmp_path.iterdir()] == []
    with holder(tmp_path, checkout) as child:
        assert lock.holder(tmp_path) == f" (process {child.pid})"
        (tmp_path / NAME).write_text("")
        assert lock.holder(tmp_path) == ""
    assert lock.holder(tmp_path) is None
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).symlink_to(NAME)
    with pytest.raises(DataDirUnusable, match="Too many levels of symbolic links"):
        lock.holder(tmp_path)
