"""A random afternoon: people write, the platform fails, the daemon ends and starts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from channels.memory import Fault
from gateway import phrases
from tests.fakes.harness import Rig

PLACES = ("1", "2", "3")

#: What stands under a message that may be a repeat.
MARK = f"\n\n{phrases.MAYBE_REPEAT}"

_EVENTS = ["say", "say", "say", "fault", "fault", "time", "down", "stop", "cut"]
PASSING = (Fault.CUT_BEFORE, Fault.CUT_AFTER, Fault.RATE_LIMIT)
_OPEN = {"held", "ready", "sending"}
#: Every pause between two tries is shorter.
_LONGEST = 300.0


async def chance(rig: Rig, seed: int, faults: Sequence[Fault] = PASSING) -> Counter[str]:
    """Play it; return how many messages each place wrote. At the end the platform works and nothing waits."""
    rng = random.Random(seed)
    said = Counter[str]()
    rig.chat.retry_after = rng.choice([0.5, 5.0, 40.0])
    await rig.start()
    for _ in range(rng.randint(6, 14)):
        match rng.choice(_EVENTS):
            case "say":
                place = rng.choice(PLACES)
                said[place] += 1
                await rig.say(str(said[place]), sender=place)
                if rng.random() < 0.7:
                    await rig.settled()
            case "fault":
                rig.chat.faults.append(rng.choice(faults))
            case "time":
                await rig.advance(rng.choice([0.3, 1, 3, 20]))
            case "down":
                rig.chat.down = not rig.chat.down
            case "stop":
                await rig.stop()
                await rig.start()
            case _:
                await rig.cut()
                await rig.start()
    rig.chat.down = False
    rig.chat.faults.clear()
    await _rest(rig)
    return said


async def parked(rig: Rig, place: str) -> set[str]:
    """What operators see that did not go out."""
    return {one.text for one in await rig.running.api.parked() if one.address.chat == place}


async def _rest(rig: Rig) -> None:
    """Let time pass until everything that was accepted is answered and out; it may not take for ever."""
    end = rig.clock.monotonic() + 10 * _LONGEST
    while await _waits(rig):
        assert rig.clock.monotonic() < end, await rig.states()
        await rig.advance(5)


async def _waits(rig: Rig) -> bool:
    open_turns = await rig.read(
        lambda db: db.execute("SELECT count(*) FROM inbox WHERE state IN ('waiting', 'running')").fetchone()[0]
    )
    return bool(open_turns) or bool(_OPEN & set(await rig.states()))
