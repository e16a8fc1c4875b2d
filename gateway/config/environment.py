"""What the configuration takes from its surroundings: environment variables and the usual places."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import SecretStr, ValidationInfo

from gateway.quoting import quote

ADMIN_TOKEN = "TRUNKLINE_ADMIN_TOKEN"
IDLE_TIMEOUT = "AGENT_SESSION_IDLE_TIMEOUT"
WORKSPACE_ROOT = "AGENT_WORKSPACE_ROOT"
GEMINI_CLI_PATH = "GEMINI_CLI_PATH"

SYSTEM_FILE = Path("/etc/trunkline/config.toml")

MINUTES_PER_YEAR = 525_600

_LOCALTIME = Path("/etc/localtime")

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the values of a file refer to, and what comes to light when they are resolved."""

    env: Mapping[str, str]
    #: Relative paths of the file start here.
    base: Path
    warnings: list[str] = field(default_factory=list)
    secrets: list[SecretStr] = field(default_factory=list)

    def path(self, text: str) -> Path:
        start, _, rest = text.partition("/")
        if start == "~" and (home := _home(self.env)):
            return home / rest
        return self.base / text


def surroundings(info: ValidationInfo) -> Surroundings:
    """What `File.model_validate(…, context=…)` was given."""
    if not isinstance(info.context, Surroundings):
        raise TypeError("the configuration is validated in the context of its Surroundings")
    return info.context


def config_files(env: Mapping[str, str]) -> Iterator[Path]:
    """Where a configuration is looked for when none is named."""
    if folder := _xdg(env, "XDG_CONFIG_HOME", ".config"):
        yield folder / "config.toml"
    yield SYSTEM_FILE


def data_dir(env: Mapping[str, str]) -> Path | None:
    """Where the data is kept unless the file says so; None when there is no home directory either."""
    # systemd separates several directories by colons; the first is the unit's own.
    if state := env.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(state)
    return _xdg(env, "XDG_DATA_HOME", ".local/share")


def admin_token(env: Mapping[str, str]) -> SecretStr | None:
    return SecretStr(env[ADMIN_TOKEN]) if env.get(ADMIN_TOKEN) else None


def idle_minutes(env: Mapping[str, str]) -> float | None:
    """The minutes that the variable gives; None when it is not set or, which `problems` tells, wrong."""
    text = env.get(IDLE_TIMEOUT, "").strip()
    minutes = float(text) if _NUMBER.fullmatch(text) else 0.0
    return minutes if 0 < minutes <= MINUTES_PER_YEAR else None


def workspace_root(env: Mapping[str, str]) -> Path | None:
    """The directory that the variable gives; None when it is not set or, which `problems` tells, wrong."""
    text = env.get(WORKSPACE_ROOT, "")
    return Path(text) if text.startswith("/") and is_text(text) and is_workspace(Path(text)) else None


def is_workspace(path: Path) -> bool:
    """Whether it can keep anything out: below the root of the file system everything lies."""
    return os.path.normpath(path).strip("/") != ""


def gemini_cli(env: Mapping[str, str]) -> str | None:
    return env.get(GEMINI_CLI_PATH, "").strip() or None


def timezone(env: Mapping[str, str]) -> str:
    """The machine's time zone; UTC if it does not tell."""
    _, _, linked = str(_LOCALTIME.resolve()).partition("/zoneinfo/")
    return next((name for name in (env.get("TZ", "").removeprefix(":"), linked) if name and is_zone(name)), "UTC")


def is_zone(name: str) -> bool:
    if name == "UTC":
        return True
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def problems(env: Mapping[str, str]) -> Iterator[str]:
    if ADMIN_TOKEN in env and not (env[ADMIN_TOKEN].strip() and is_text(env[ADMIN_TOKEN])):
        yield f"The environment variable {ADMIN_TOKEN} is empty or not UTF-8 text: set it to a token, or unset it."
    if IDLE_TIMEOUT in env and idle_minutes(env) is None:
        yield (
            f"The environment variable {IDLE_TIMEOUT} = {quote(env[IDLE_TIMEOUT])}: must be a number of "
            f"minutes, greater than 0 and at most {MINUTES_PER_YEAR}."
        )
    if GEMINI_CLI_PATH in env and ((path := gemini_cli(env)) is None or "\0" in path):
        yield f"The environment variable {GEMINI_CLI_PATH} is empty: set it to the path of the program, or unset it."
    if WORKSPACE_ROOT in env and workspace_root(env) is None:
        yield (
            f"The environment variable {WORKSPACE_ROOT} = {quote(env[WORKSPACE_ROOT])}: must be the absolute path of "
            "a directory, and not the whole file system."
        )


def is_text(value: str) -> bool:
    """Whether the bytes of a variable were UTF-8; Python smuggles others in as lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _xdg(env: Mapping[str, str], variable: str, default: str) -> Path | None:
    folder = Path(env.get(variable, ""))
    if folder.is_absolute():  # the specification wants relative ones ignored
        return folder / "trunkline"
    home = _home(env)
    return home / default / "trunkline" if home else None


def _home(env: Mapping[str, str]) -> Path | None:
    if home := env.get("HOME"):
        return Path(home)
    try:
        return Path.home()
    except RuntimeError:
        return None
