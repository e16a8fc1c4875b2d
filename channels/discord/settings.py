"""How long things may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """In seconds. Tests shorten them; nobody else has a reason to."""

    #: Nothing came for so long: reconnect. Discord's heartbeats are 41 s apart.
    heartbeat: float = 50.0
    #: No heartbeat was acknowledged for so long, whatever else came: connect anew.
    silent: float = 58.0
    #: A connection that does not close by itself is dropped.
    close: float = 2.0
    #: Wait before a second IDENTIFY; Discord refuses more than one in five seconds.
    identify: float = 5.0
    #: The stream of guilds after READY is over when nothing came for so long.
    guilds: float = 1.0
    #: No call takes longer, whatever the library waits for inside.
    call: float = 45.0
    #: How long a call waits for an account that is still logging in.
    login: float = 10.0
    #: A slash command that nobody answered stops "thinking" after so long.
    answer: float = 60.0
    #: Pauses between attempts to catch up, the first and the longest.
    retry: float = 1.0
    longest_retry: float = 30.0
