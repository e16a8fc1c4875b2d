"""Whether it is alive, and how it comes back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from channels.discord import DiscordChannel
from tests.channels.discord.doubles import QUICK, HostDouble, Rig
from tests.fakes.discord.faults import Kind
from tests.fakes.discord.server import FakeDiscord


@pytest.mark.req("P40")
async def test_every_acknowledged_heartbeat_is_a_sign_of_life(rig: Rig) -> None:
    lives = rig.host.lives
    await rig.host.until(lambda: rig.host.lives >= lives + 3, patience=3.0)
    assert rig.discord.gateway.heartbeats >= 3
    assert rig.channel.silent_after == 60


@pytest.mark.req("P40")
async def test_without_acknowledgements_there_is_no_life_and_it_begins_anew(discord: FakeDiscord) -> None:
    rig = Rig(discord, timing=replace(QUICK, silent=0.8))
    await rig.start()
    discord.gateway.acks = False
    await discord.until(lambda: discord.gateway.heartbeats >= 3)
    lives = rig.host.lives
    assert rig.task is not None
    with pytest.raises(ConnectionError, match="heartbeat"):
        await asyncio.wait_for(rig.task, 5)
    assert rig.host.lives - lives <= 1
    assert rig.host.troubles
    await rig.stop()


@pytest.mark.req("P40")
async def test_a_zombie_is_noticed_and_what_it_missed_is_read_once(discord: FakeDiscord) -> None:
    rig = Rig(discord, timing=replace(QUICK, heartbeat=0.5, silent=3.0))
    await rig.start()
    discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    discord.gateway.mute = True
    for number in range(5):
        discord.say(rig.ann, rig.general, f"unheard {number}")
    await discord.until(lambda: not discord.gateway.sockets)  # it gave up
    discord.gateway.mute = False
    await rig.host.received(6)
    assert rig.host.texts == ["before", *(f"unheard {number}" for number in range(5))]
    await rig.stop()


@pytest.mark.req("P40")
async def test_a_gateway_that_ends_every_session_is_left_after_a_few_attempts(rig: Rig) -> None:
    gateway = rig.discord.gateway
    gateway.refuse_resume.extend([-1] * 50)
    gateway.abort()
    assert rig.task is not None
    with pytest.raises(ConnectionError, match="gateway"):
        await asyncio.wait_for(rig.task, 10)
    assert 3 <= len(gateway.resumed) <= 5
    assert rig.host.troubles
    gateway.refuse_resume.clear()
    await rig.restart()  # by IDENTIFY
    assert len(gateway.identified) == 2


@pytest.mark.req("P40")
async def test_a_resume_that_is_refused_becomes_an_identify(rig: Rig) -> None:
    gateway = rig.discord.gateway
    gateway.forget_sessions()
    gateway.abort()
    await rig.discord.until(lambda: len(gateway.identified) == 2)
    await rig.ready()


@pytest.mark.req("P40")
async def test_a_gateway_that_cannot_be_reached_at_the_start(idle: Rig) -> None:
    idle.discord.gateway.down = True
    with pytest.raises(ConnectionError):
        await asyncio.wait_for(idle.channel.run(idle.host), 10)
    assert idle.host.troubles == ["Discord's gateway cannot be reached, or ends every session at once"]
    assert idle.host.lives == 0


@pytest.mark.req("P40")
async def test_a_platform_that_is_down_ends_the_run_with_a_reason(idle: Rig) -> None:
    await idle.discord.stop()
    with pytest.raises(ConnectionError, match="cannot be reached"):
        await asyncio.wait_for(idle.channel.run(idle.host), 10)
    assert idle.host.troubles == ["Discord cannot be reached"]
    await idle.discord.start()
    await idle.start()


@pytest.mark.req("P54")
async def test_a_wrong_token_is_named_in_plain_words(idle: Rig) -> None:
    idle.discord.bot.token = "another one"
    with pytest.raises(ConnectionError):
        await idle.channel.run(idle.host)
    [why] = idle.host.troubles
    assert "[discord.main]" in why
    assert "token" in why
    assert "Developer Portal" in why


async def test_a_token_that_is_revoked_while_it_runs(rig: Rig) -> None:
    rig.discord.gateway.close(4004)
    assert rig.task is not None
    with pytest.raises(ConnectionError, match="refuses the token"):
        await asyncio.wait_for(rig.task, 10)


async def test_a_missing_intent_is_named_with_where_to_switch_it_on(idle: Rig) -> None:
    idle.discord.bot.message_content = False
    with pytest.raises(ConnectionError):
        await idle.channel.run(idle.host)
    [why] = idle.host.troubles
    assert "Message Content Intent" in why
    assert "Developer Portal" in why


@pytest.mark.req("P40")
async def test_an_event_that_the_library_cannot_parse_ends_the_run_aloud(rig: Rig) -> None:
    rig.discord.gateway.dispatch([rig.discord.bot], "MESSAGE_CREATE", {"id": "nonsense"})
    assert rig.task is not None
    with pytest.raises(ConnectionError) as failed:
        await asyncio.wait_for(rig.task, 10)
    assert isinstance(failed.value.__cause__, KeyError)
    assert rig.host.troubles
    await rig.restart()


async def test_a_failure_of_our_own_ends_the_run_aloud(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> dict[str, str]:
        raise ValueError("broken")

    monkeypatch.setattr(rig.host, "seen", fail)
    rig.discord.gateway.invalidate()
    assert rig.task is not None
    with pytest.raises(ConnectionError) as failed:
        await asyncio.wait_for(rig.task, 10)
    assert isinstance(failed.value.__cause__, ValueError)


@pytest.mark.req("P40")
async def test_stopping_does_not_wait_for_a_silent_server(rig: Rig) -> None:
    rig.discord.gateway.freeze()
    began = asyncio.get_running_loop().time()
    await rig.stop()
    assert asyncio.get_running_loop().time() - began < 3


@pytest.mark.req("P39", "P40")
async def test_a_connection_that_fell_into_a_black_hole_is_replaced(discord: FakeDiscord) -> None:
    rig = Rig(discord, timing=replace(QUICK, heartbeat=0.4))
    await rig.start()
    discord.gateway.freeze()
    discord.say(rig.ann, rig.general, "unheard")
    await rig.host.received(1)
    assert len(discord.gateway.resumed) == 1
    await rig.stop()


@pytest.mark.req("P39", "P40")
async def test_a_black_hole_that_stays_ends_the_run_in_time(discord: FakeDiscord) -> None:
    """The library alone would wait a minute for the first packet of each new connection."""
    rig = Rig(discord, timing=replace(QUICK, heartbeat=0.4, silent=0.8))
    await rig.start()
    discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    discord.gateway.hole = True
    discord.gateway.freeze()
    discord.say(rig.ann, rig.general, "unheard")
    assert rig.task is not None
    with pytest.raises(ConnectionError, match="heartbeat"):
        await asyncio.wait_for(rig.task, 3)
    discord.gateway.hole = False
    await rig.restart()
    await rig.host.received(2)
    assert rig.host.texts == ["before", "unheard"]
    await rig.stop()


async def test_stopping_while_it_waits_to_identify_leaves_nothing_behind(discord: FakeDiscord) -> None:
    rig = Rig(discord, timing=replace(QUICK, identify=30.0))
    await rig.start()
    discord.gateway.invalidate()
    await discord.until(lambda: len(discord.gateway.sockets) == 1 and not discord.gateway.sessions)
    await rig.host.until(lambda: rig.host.lives)
    await rig.stop()
    await discord.until(lambda: not discord.gateway.sockets)


@pytest.mark.req("P12")
async def test_two_accounts_do_not_hear_each_others_words(rig: Rig) -> None:
    discord = rig.discord
    second = discord.add_bot("Second", "token-of-the-second")
    other_host = HostDouble()
    other = DiscordChannel("second", second.token, discord.base_url, discord.gateway_url, timing=rig.timing)
    task = asyncio.create_task(other.run(other_host))
    await other_host.until(lambda: other_host.lives)
    discord.say(rig.ann, discord.dm(rig.ann, second), "to the second")
    discord.say(rig.ann, rig.dm, "to the first")
    await other_host.received(1)
    await rig.host.received(1)
    assert (rig.host.texts, other_host.texts) == (["to the first"], ["to the second"])
    assert other_host.inbox[0].address.account == "second"
    await other.send(rig.item("from the second", other_host.inbox[0]))
    [answer] = discord.visible(discord.dm(rig.ann, second))[1:]
    assert answer.author is second
    # One falls, the other does not notice.
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    discord.say(rig.ann, rig.dm, "still there?")
    await rig.host.received(2)


@pytest.mark.req("P40")
async def test_an_outage_is_outlived(rig: Rig) -> None:
    discord = rig.discord
    discord.say(rig.ann, rig.general, "before")
    await rig.host.received(1)
    discord.outage(True)
    discord.say(rig.ann, rig.general, "meanwhile")
    assert rig.task is not None
    await discord.until(lambda: not discord.gateway.sockets)
    discord.outage(False)
    await rig.host.received(2)
    assert rig.host.texts == ["before", "meanwhile"]


@pytest.mark.req("P01")
async def test_answers_go_out_while_the_gateway_is_away(rig: Rig) -> None:
    rig.discord.gateway.down = True
    rig.discord.gateway.abort()
    await rig.discord.until(lambda: not rig.discord.gateway.sockets)
    await rig.channel.send(rig.item("answer", rig.general))
    assert rig.discord.texts(rig.general) == ["answer"]
    rig.discord.gateway.down = False


async def test_a_first_login_that_fails_is_tried_anew(idle: Rig) -> None:
    idle.discord.fail(Kind.CUT_BEFORE, "me", times=2)  # aiohttp repeats what only reads, once
    with pytest.raises(ConnectionError):
        await idle.channel.run(idle.host)
    await idle.start()
