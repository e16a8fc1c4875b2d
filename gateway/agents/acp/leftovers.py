"""At start: what a killed daemon left running is ended, before anything new is started."""

from __future__ import annotations

import asyncio
import logging

from gateway.agents.acp import kin
from gateway.logs import Event, log
from gateway.persist import Persist
from store import agent_processes
from store.agent_processes import Lease


async def reap(persist: Persist) -> None:
    for lease in await persist.read(agent_processes.every):
        ended = await asyncio.to_thread(kin.kill, lease.mark, _group(lease))
        await persist.must(lambda db, mark=lease.mark: agent_processes.drop(db, mark))  # type: ignore[misc]
        if ended:
            log(Event.AGENT_REAPED, logging.WARNING, session=lease.session_id, pid=lease.pid, processes=ended)


def _group(lease: Lease) -> int | None:
    """The process group, if the number is still that of the process that we started."""
    if lease.pid is None or lease.started is None or kin.started(lease.pid) != lease.started:
        return None
    return lease.pid
