"""What must be there before a local model can be started: the library, and a file that can be a model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gateway import phrases

_MAGIC = b"GGUF"


def runtime_installed() -> bool:
    importlib.invalidate_caches()  # it may have been installed since the daemon was started
    return importlib.util.find_spec("xllamacpp") is not None


def why_not(path: Path) -> str | None:
    """Why a file cannot be a model, as far as its beginning tells."""
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_MAGIC))
    except FileNotFoundError:
        return "there is no such file"
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return None if beginning == _MAGIC else "it is not a GGUF file"


def missing(path: Path) -> str | None:
    """What has to be done first, in words for people; None if everything is there."""
    if not runtime_installed():
        return phrases.LOCAL_NO_RUNTIME
    why = why_not(path)
    return phrases.LOCAL_NO_MODEL.format(why=why) if why else None
