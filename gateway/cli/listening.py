"""The events of a session, read in a thread of their own; a stream that breaks off is taken up where it ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from gateway.cli.client import Client, Refused, Unreachable, path_of

#: The daemon gives a sign of life every 15 seconds.
_SILENCE = 45.0
#: For so long a daemon may be away, to be restarted.
_PATIENCE = 20.0
_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Happened:
    #: `message` or `turn`.
    kind: str
    row: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """There will be no more events."""

    why: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user pressed Ctrl-C, while this prompt was being answered."""

    prompt: str


Event = Happened | Lost | Interrupted


def listen(client: Client, session: str, since: str, events: SimpleQueue[Event]) -> None:
    """Put what happens after a time into the queue, until the process ends."""
    thread = threading.Thread(target=_listen, args=(client, session, since, events), name="events", daemon=True)
    thread.start()


def _listen(client: Client, session: str, since: str, events: SimpleQueue[Event]) -> None:
    path, alive = path_of("api", "sessions", session, "events"), time.monotonic()
    why = ""
    while time.monotonic() - alive < _PATIENCE:
        try:
            with client.stream(path, {"since": since}, timeout=_SILENCE) as lines:
                alive = time.monotonic()
                for happened, last in _parse(lines):
                    events.put(happened)
                    since = last or since
                alive = time.monotonic()
        except Unreachable as error:
            why = error.message
        except Refused as error:
            events.put(Lost(error.message))
            return
        time.sleep(_PAUSE)
    events.put(Lost(why or "The daemon has stopped."))


def _parse(lines: Iterator[bytes]) -> Iterator[tuple[Happened, str]]:
    """Each event, with the id from which a stream can go on after it."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif not line.strip():
            if "data" in fields:
                yield Happened(fields.get("event", "message"), json.loads(fields["data"])), fields.get("id", "")
            fields = {}
