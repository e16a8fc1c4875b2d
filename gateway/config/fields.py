"""The types of single values: what is accepted in the file, and what it becomes."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from gateway.config import environment
from gateway.config.environment import surroundings
from routing.keys import normalise_id

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LISTEN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]{1,253})):([0-9]{1,5})")
_INTEGER = re.compile(r"-?[0-9]+")
_LONGEST_ID = 128
_LARGEST_ID = 10**_LONGEST_ID


def wrong(rule: str) -> PydanticCustomError:
    """A value that is not allowed; the rule says what is."""
    return PydanticCustomError("wrong", "{rule}", {"rule": rule})


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the HTTP server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        address = _ip(self.host)
        return self.host == "localhost" if address is None else address.is_loopback


def _listen(value: object) -> Listen:
    rule = 'must be "host:port", such as "127.0.0.1:8787" or "[::1]:8787"'
    found = _LISTEN.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong(rule)
    six, host, port = found[1], found[2] or found[1], int(found[3])
    # Digits and dots, or brackets, promise an address; a name is looked up when the server starts.
    if port > 65_535 or (_ip(host) is None and (six or not re.search("[^0-9.]", host))):
        raise wrong(rule)
    return Listen(host, port)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise PydanticCustomError("name", 'is not a name: use 1 to 64 of A-Z, a-z, 0-9, "_" and "-"')
    return text


def _label(text: str) -> str:
    if not 0 < len(text) <= 64 or not text.isprintable() or text.isspace():
        raise wrong("must be a text of 1 to 64 characters on one line")
    return text


def read_id(value: object) -> str | None:
    """The id that a number or a text stands for, if it does."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID:
        return str(value)
    text = normalise_id(value) if isinstance(value, str) else ""
    return text if 0 < len(text) <= _LONGEST_ID else None


def _id(value: object) -> str:
    text = read_id(value)
    if text is None:
        raise wrong(f"must be an id: a whole number, or a text of 1 to {_LONGEST_ID} characters")
    return text


def _numeric(text: str) -> str:
    if not _INTEGER.fullmatch(text):
        raise wrong("must be the numeric id: a name can be reassigned to somebody else")
    return text


def _directory(value: object, info: ValidationInfo) -> Path:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise wrong("must be the path of a directory, as a text in quotes")
    return surroundings(info).path(value)


def _zone(text: str, info: ValidationInfo) -> str:
    name = text or environment.timezone(surroundings(info).env)
    if environment.is_zone(name):
        return name
    raise wrong('must be the name of a time zone, such as "Europe/Berlin" or "UTC"')


def zone(name: str) -> tzinfo:
    """UTC needs no table of zones, which a small system may lack."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _chat(text: str) -> str:
    channel, colon, chat = text.partition(":")
    if text != "*" and not (channel and colon and normalise_id(chat)):
        raise wrong('must be "*" or a group as "channel:id", such as "telegram:-10012345"')
    return text if text == "*" else f"{channel}:{normalise_id(chat)}"


def _approvers(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
        raise wrong('must be a list of people, such as ["ada", "telegram:12345"]')
    return tuple(map(_approver, value))


def _approver(text: str) -> str:
    channel, colon, user = text.partition(":")
    if not colon:
        return text.strip()
    if not channel.strip() or not _INTEGER.fullmatch(normalise_id(user)):
        raise wrong('must be a name of [people], or "channel:id" with the numeric id, such as "telegram:12345"')
    return f"{channel.strip()}:{normalise_id(user)}"


Address = Annotated[Listen, BeforeValidator(_listen)]
Directory = Annotated[Path, BeforeValidator(_directory)]
#: The name of an account, an agent or a person.
Name = Annotated[str, AfterValidator(_name)]
#: A text to show.
Label = Annotated[str, AfterValidator(_label)]
Id = Annotated[str, BeforeValidator(_id)]
NumericId = Annotated[str, AfterValidator(_numeric), BeforeValidator(_id)]
#: People, by their names in the file or by a platform's ids.
Approvers = Annotated[tuple[str, ...], BeforeValidator(_approvers)]
Ids = Annotated[frozenset[Id], Field(strict=False)]
NumericIds = Annotated[frozenset[NumericId], Field(strict=False)]
#: The machine's own unless given.
Zone = Annotated[str, AfterValidator(_zone)]
#: A group or channel of a platform, or each one.
Chat = Annotated[str, AfterValidator(_chat)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


def _url(*schemes: str) -> AfterValidator:
    def check(text: str) -> str:
        parts = urlsplit(text)
        if parts.scheme not in schemes or not parts.hostname or parts.username or parts.query or parts.fragment:
            raise wrong(f"must be an address that begins with {' or '.join(f'{one}://' for one in schemes)}")
        return text.rstrip("/")

    return AfterValidator(check)


#: A base URL without credentials.
Url = Annotated[str, _url("http", "https")]
SocketUrl = Annotated[str, _url("ws", "wss")]
