"""Tokens stay where they belong."""

from __future__ import annotations

import asyncio
import logging
import traceback
from urllib.parse import quote

import pytest

from channels.discord import secrecy
from routing.errors import DeliveryFailed
from tests.channels.discord.doubles import Rig
from tests.fakes.discord.faults import Kind


@pytest.mark.req("P54")
async def test_no_failure_shows_a_token_at_debug(idle: Rig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rig, discord = idle, idle.discord
    said: list[str] = []
    await rig.start()
    for number, kind in enumerate(set(Kind) - {Kind.HOLE, Kind.HOLE_AFTER}):
        discord.press(rig.ann, rig.general, "help", bot=discord.bot)
        found = (await rig.host.received(number + 1))[number]
        for item in (rig.item(f"answer {kind}", found), rig.item(f"plain {kind}", rig.dm)):
            discord.fail(kind, "send", "edit_original", status=503, retry_after=0.01)
            try:
                await rig.channel.send(item)
            except DeliveryFailed as exc:
                said.append(str(exc) + "".join(traceback.format_exception(exc)))
    discord.faults.plan.clear()
    discord.gateway.invalidate()
    await rig.ready()
    discord.gateway.close(4004)
    assert rig.task is not None
    with pytest.raises(ConnectionError) as failed:
        await asyncio.wait_for(rig.task, 10)
    said.append("".join(traceback.format_exception(failed.value)))
    token, rig.discord.bot.token = discord.bot.token, "changed"
    with pytest.raises(ConnectionError) as failed:
        await rig.channel.run(rig.host)
    said.append("".join(traceback.format_exception(failed.value)))
    formatter = logging.Formatter("%(name)s %(message)s")
    lines = [formatter.format(record) for record in caplog.records if record.name.startswith(("discord", "channels"))]
    assert any("/webhooks/" in line for line in lines)
    assert any("INTERACTION_CREATE" in line for line in lines)
    everything = "\n".join([*lines, *said, *rig.host.troubles])
    for secret in (token, *discord.pressed):
        assert secret not in everything
        assert quote(secret, safe="") not in everything


@pytest.mark.req("P54")
def test_the_shapes_that_are_hidden() -> None:
    packet = {"op": 2, "d": {"token": "aSecret", "name": "kept"}}
    assert "aSecret" not in secrecy.hide(str(packet))
    assert "kept" in secrecy.hide(str(packet))
    assert secrecy.hide("POST https://x/api/v10/webhooks/1/aSecret/messages/@original with") == (
        "POST https://x/api/v10/webhooks/1/***/messages/@original with"
    )
    assert secrecy.hide("/interactions/12/aSecret/callback") == "/interactions/12/***/callback"
    assert secrecy.hide("GET /channels/1/messages") == "GET /channels/1/messages"
