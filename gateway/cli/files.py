"""Files that commands write: whole or not at all, and for nobody else to read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from gateway.cli.failing import Failure


@contextlib.contextmanager
def new_file(path: Path, *, force: bool = False) -> Iterator[IO[bytes]]:
    """A file to fill under another name (its `name`), which takes its place when the block has ended well."""
    claimed = draft = None
    try:
        if not force:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            claimed = path
        fd, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}-")
        os.close(fd)
        with open(draft, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        claimed = draft = None
    except FileExistsError:
        raise Failure(f"{path} is there already: name another file, or replace it with --force.") from None
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        for left in (claimed, draft):
            if left is not None:
                os.unlink(left)
