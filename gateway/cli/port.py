"""The port that the system chose for a daemon with `listen = "…:0"`, in a file beside the data, for the commands."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from urllib.parse import urlsplit

from gateway.config import Config
from store.lock import NAME as LOCK

NAME = "trunkline.port"


def publish(config: Config, url: str) -> None:
    """Called by a daemon that is ready, and so holds the lock. A fixed port is in the configuration already."""
    if config.http.listen.port != 0:
        return
    path = _path(config)
    draft = path.with_suffix(".new")
    with contextlib.suppress(OSError):  # a full disk: no reason not to serve
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            file.write(f"{urlsplit(url).port}\n")
        os.replace(draft, path)


def published(config: Config) -> int | None:
    """The port of the daemon that holds the lock; None until it is ready.

    The lock's file is written when the lock is taken. A file that is older was left behind by an earlier daemon: who
    listens there now may be a stranger, who must not be shown the token.
    """
    path = _path(config)
    try:
        if path.stat().st_mtime_ns < (config.gateway.data_dir / LOCK).stat().st_mtime_ns:
            return None
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _path(config: Config) -> Path:
    return config.gateway.data_dir / NAME
