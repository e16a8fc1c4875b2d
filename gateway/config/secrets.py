"""Secrets: written in the file, or named there by variable or file. Their value is never shown."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

from gateway.config.environment import Surroundings, is_text, surroundings
from gateway.quoting import quote

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST = 65_536


def _secret(value: object, info: ValidationInfo) -> SecretStr:
    around = surroundings(info)
    match value:
        case str(text):
            found, where = text, "the text"
        case {"env": str(name), **rest} if not rest:
            found, where = _from_env(name, around), f"the environment variable {name}"
        case {"file": str(name), **rest} if not rest:
            found, where = _from_file(name, around), f"the file {quote(name)}"
        case _:
            raise _refused('must be a text, {env = "NAME"} or {file = "PATH"}')
    if not found.strip() or not is_text(found):
        raise _refused(f"{where} is empty or not UTF-8 text")
    secret = SecretStr(found)
    around.secrets.append(secret)
    return secret


#: A field that holds a secret; it takes its surroundings from the validation context.
Secret = Annotated[SecretStr, BeforeValidator(_secret)]


def _env_value(value: object, info: ValidationInfo) -> SecretStr:
    """A text that stands in the file may be anything, such as a switch; what is named there is a secret."""
    if not isinstance(value, str):
        return _secret(value, info)
    if "\0" in value or not is_text(value):
        raise _refused("the text cannot be the value of a variable")
    return SecretStr(value)


def _env_name(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise _refused("is not the name of an environment variable: letters, digits and _")
    return name


#: A variable of a child process.
EnvName = Annotated[str, AfterValidator(_env_name)]
EnvValue = Annotated[SecretStr, BeforeValidator(_env_value)]


def _from_env(name: str, around: Surroundings) -> str:
    # Somebody who puts the secret itself here must not find it in the log.
    if not _VARIABLE.fullmatch(name):
        raise _refused("env must be the name of an environment variable: letters, digits and _")
    if name not in around.env:
        raise _refused(f"the environment variable {name} is not set")
    return around.env[name]


def _from_file(name: str, around: Surroundings) -> str:
    path = _place(name, around)
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LARGEST + 1)
        text = content.decode().strip()
    except UnicodeDecodeError:
        raise _refused(f"the file {quote(str(path))} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not a path"
        raise _refused(f"the file {quote(str(path))} cannot be read ({why})") from None
    if len(content) > _LARGEST:
        raise _refused(f"the file {quote(str(path))} is larger than {_LARGEST} bytes")
    if stat.S_ISREG(mode) and mode & stat.S_IROTH:
        around.warnings.append(f"Every user of this machine can read the secret file {path}: chmod o-r {path}")
    return text


def _place(name: str, around: Surroundings) -> Path:
    credentials = around.env.get("CREDENTIALS_DIRECTORY")
    if credentials and os.path.lexists(given := Path(credentials) / name):
        return given
    return around.path(name)


def _refused(why: str) -> PydanticCustomError:
    return PydanticCustomError("secret", "{why}", {"why": why})
