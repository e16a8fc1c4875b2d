"""What the model behind the fake server does, request by request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """As an invoice counts them: what came from the cache is part of what was read, thoughts of what was written."""

    read: int
    cached: int = 0
    written: int
    thought: int = 0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer, said in the same way over both APIs."""

    pieces: tuple[str, ...] = ("Hello", " there.")
    thoughts: tuple[str, ...] = ()
    #: None ends the stream without its closing event.
    finish: str | None = "stop"
    calls: tuple[tuple[str, str, str], ...] = ()
    refusal: str = ""
    tokens: Tokens | None = Tokens(read=10, written=2)
    #: Reports that are not the plain one, as they go over the wire.
    usage: Mapping[str, Any] | None = None
    #: Chat only: a report that grows with every piece, as some servers send it.
    growing: bool = False
    #: An id of the test's own.
    id: str | None = None
    #: An error as an event, after the pieces.
    error: tuple[str, str] | None = None
    #: Drop the connection after the pieces.
    drop: bool = False
    #: Go on after the pieces only when it is set.
    gate: asyncio.Event | None = None
    #: Responses only: every piece is a message of its own.
    apart: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """An error before anything was said. Nothing is charged for it."""

    status: int
    code: str | None = None
    kind: str = "invalid_request_error"
    message: str = "raw provider text"
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Instead of JSON.
    page: str | None = None


Step = Reply | Refuse
