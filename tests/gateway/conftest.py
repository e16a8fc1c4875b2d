"""Fixtures of the gateway's tests: whole daemons, started on demand and ended with the test."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.agents.protocol import Agent
from gateway.clock import Clock
from tests.fakes.agents import ScriptedAgent
from tests.fakes.harness import Journal, Rig, Rigs


@pytest.fixture
async def rigs(tmp_path: Path) -> AsyncIterator[Rigs]:
    """Make a daemon: `await rigs(agent, main={"queue": "collect"}).start()`."""
    made: list[Rig] = []
    journal = Journal()
    journal.open()

    def make(
        agent: Agent | None = None,
        *,
        agents: Mapping[str, Agent] | None = None,
        main: Mapping[str, Any] | None = None,
        builtin: bool = False,
        clock: Clock | None = None,
        **tables: Any,
    ) -> Rig:
        """With one agent called main (its table is `main`), several (theirs are `agent_tables`), or the built-in."""
        answering = None if builtin else agents or {"main": agent or ScriptedAgent()}
        tables["agents"] = {"main": main} if main else tables.pop("agent_tables", {})
        folder = tmp_path / f"rig{len(made)}"
        made.append(Rig(folder, journal, answering, clock=clock, tables=tables))
        return made[-1]

    yield make
    try:
        for rig in made:
            for one in (rig.agents or {}).values():
                if isinstance(one, ScriptedAgent):
                    one.stubborn = False
            await rig.cut()
    finally:
        journal.close()
