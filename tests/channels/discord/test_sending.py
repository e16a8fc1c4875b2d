"""What we say, as people see it, and what goes wrong on the way."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from channels.base import Channel, Edits, Fetches, Finds, Splits, Types
from channels.discord import DiscordChannel
from routing.errors import DeliveryFailed
from tests.channels.discord.doubles import QUICK, Rig, address
from tests.fakes.discord.faults import Kind

NO_EMBEDS = 1 << 2


@pytest.fixture
async def hasty(idle: Rig) -> Rig:
    """Waits for nobody."""
    idle.how["timing"] = replace(QUICK, call=0.3)
    idle.channel = idle.make()
    await idle.start()
    return idle


def test_it_can_do_what_it_says() -> None:
    channel: Channel = DiscordChannel("main", "token")
    for ability in (Edits, Splits, Types, Fetches, Finds):
        assert isinstance(channel, ability)
    assert isinstance(channel, DiscordChannel)
    assert channel.typing_every == 8
    assert channel.split("short") == ["short"]
    assert "token" not in repr(channel)
    parts = channel.split("word " * 1000)
    assert all(len(part) <= 2000 for part in parts)


@pytest.mark.req("P08", "P09")
async def test_an_answer_replies_to_its_trigger_where_it_was_said(rig: Rig) -> None:
    thread = rig.discord.add_thread(rig.general, "matter")
    for place in (rig.general, thread, rig.dm):
        asked = rig.discord.say(rig.ann, place, "question")
        sent = await rig.channel.send(rig.item("**answer**", asked))
        answer = place.messages[int(sent)]
        assert (answer.content, answer.reply_to) == ("**answer**", asked.id)
        assert answer.flags & NO_EMBEDS


@pytest.mark.req("P08")
async def test_a_trigger_that_is_gone_is_answered_all_the_same(rig: Rig) -> None:
    asked = rig.discord.say(rig.ann, rig.general, "question")
    rig.discord.delete(asked)
    sent = await rig.channel.send(rig.item("answer", asked))
    assert rig.general.messages[int(sent)].reply_to is None


async def test_nobody_is_pinged_by_a_model(rig: Rig) -> None:
    role = rig.discord.add_role(rig.guild, "Cooks")
    asked = rig.discord.say(rig.ann, rig.general, "question")
    sent = await rig.channel.send(rig.item(f"@everyone @here <@{rig.ann.id}> <@&{role.id}>", asked))
    await rig.channel.edit(sent, rig.item(f"@everyone again <@{rig.ann.id}>", asked))
    message = rig.general.messages[int(sent)]
    assert len(message.texts) == 2
    assert message.pinged == set()


@pytest.mark.req("P02")
@pytest.mark.parametrize("kind", [Kind.CUT_AFTER, Kind.HOLE_AFTER, Kind.ERROR_AFTER])
async def test_an_answer_that_got_lost_is_uncertain_and_its_repeat_is_seen_once(hasty: Rig, kind: Kind) -> None:
    rig = hasty
    item = rig.item("answer", rig.general, nonce="a-nonce-longer-than-25-characters-of-ours")
    rig.discord.fail(kind, "send", status=503)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(item)
    assert (failed.value.retryable, failed.value.ambiguous) == (True, True)
    again = await rig.channel.send(item)
    assert rig.discord.texts(rig.general) == ["answer"]
    assert again == str(max(rig.general.messages))


@pytest.mark.req("P02")
async def test_a_repeat_that_gives_back_a_preview_is_still_edited(hasty: Rig) -> None:
    rig = hasty
    rig.discord.fail(Kind.CUT_AFTER, "send")
    with pytest.raises(DeliveryFailed):
        await rig.channel.send(rig.item("1 2", rig.general, nonce="the-same"))
    whole = rig.item("1 2 3 done.", rig.general, nonce="the-same")
    sent = await rig.channel.send(whole)
    assert rig.discord.texts(rig.general) == ["1 2"]
    await rig.channel.edit(sent, whole)
    assert rig.discord.texts(rig.general) == ["1 2 3 done."]


@pytest.mark.req("P02")
async def test_after_an_edit_that_got_lost_nobody_knows_what_is_shown(hasty: Rig) -> None:
    rig = hasty
    sent = await rig.channel.send(rig.item("one", rig.general))
    rig.discord.fail(Kind.CUT_AFTER, "edit")
    with pytest.raises(DeliveryFailed):
        await rig.channel.edit(sent, rig.item("two", rig.general))
    assert rig.discord.texts(rig.general) == ["two"]
    await rig.channel.edit(sent, rig.item("one", rig.general))
    assert rig.discord.texts(rig.general) == ["one"]


@pytest.mark.req("P01", "P02")
@pytest.mark.parametrize("kind", [Kind.CUT_BEFORE, Kind.HOLE, Kind.ERROR, Kind.HTML])
async def test_a_send_that_never_arrived_can_be_repeated(hasty: Rig, kind: Kind) -> None:
    rig = hasty
    item = rig.item("answer", rig.general)
    rig.discord.fail(kind, "send", status=503)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(item)
    assert failed.value.retryable
    assert await rig.channel.find(item) is None
    await rig.channel.send(item)
    assert rig.discord.texts(rig.general) == ["answer"]


@pytest.mark.req("P01", "P02")
async def test_a_platform_that_is_down_is_not_uncertain(rig: Rig) -> None:
    await rig.discord.stop()
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(rig.item("answer", rig.general))
    assert (failed.value.retryable, failed.value.ambiguous) == (True, False)
    await rig.discord.start()


@pytest.mark.req("P01")
async def test_before_it_is_connected_it_says_so(idle: Rig) -> None:
    idle.how["timing"] = replace(QUICK, login=0.05)
    idle.channel = idle.make()
    with pytest.raises(DeliveryFailed) as failed:
        await idle.channel.send(idle.item("answer", idle.general))
    assert (failed.value.retryable, failed.value.ambiguous) == (True, False)


@pytest.mark.req("P41")
async def test_a_short_rate_limit_is_waited_for(rig: Rig) -> None:
    rig.discord.fail(Kind.RATE_LIMIT, "send", retry_after=0.2)
    await rig.channel.send(rig.item("answer", rig.general))
    refused, taken = rig.discord.calls("send")
    assert (refused.status, taken.status) == (429, 200)
    assert taken.at - refused.at >= 0.2


@pytest.mark.req("P41")
async def test_a_long_rate_limit_is_told_and_holds_only_that_chat(rig: Rig) -> None:
    rig.discord.fail(Kind.RATE_LIMIT, "send", retry_after=300.0)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(rig.item("answer", rig.general))
    assert (failed.value.retryable, failed.value.ambiguous) == (True, False)
    assert failed.value.retry_after == pytest.approx(300, abs=1)
    await rig.channel.send(rig.item("elsewhere", rig.dm))
    assert rig.discord.texts(rig.dm) == ["elsewhere"]


@pytest.mark.req("P41")
async def test_a_ban_by_the_proxy_in_front_is_no_reason_to_hurry(rig: Rig) -> None:
    rig.discord.fail(Kind.HTML, "send", status=429)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(rig.item("answer", rig.general))
    assert (failed.value.retryable, failed.value.retry_after) == (True, 60)
    assert len(rig.discord.calls("send")) == 1


@pytest.mark.req("P41")
async def test_the_bucket_is_kept_without_being_told(rig: Rig) -> None:
    rig.discord.buckets.limits["send"] = (5, 0.3)
    for number in range(12):
        await rig.channel.send(rig.item(str(number), rig.general))
    assert rig.discord.texts(rig.general) == [str(number) for number in range(12)]
    assert [call.status for call in rig.discord.calls("send")] == [200] * 12


@pytest.mark.req("P16")
@pytest.mark.parametrize(("status", "code"), [(403, 50007), (403, 50001), (403, 50013), (404, 10003), (400, 50083)])
async def test_a_closed_chat_is_blocked_after_one_attempt(rig: Rig, status: int, code: int) -> None:
    rig.dm.refuses = (status, code)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(rig.item("answer", rig.dm))
    assert (failed.value.retryable, failed.value.blocked, failed.value.ambiguous) == (False, True, False)
    assert len(rig.discord.calls("send")) == 1
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.typing(address(rig.dm))
    assert failed.value.blocked
    rig.dm.refuses = None
    await rig.channel.send(rig.item("answer", rig.dm))


@pytest.mark.req("P16")
async def test_channels_that_are_gone_and_threads_that_are_locked(rig: Rig) -> None:
    thread = rig.discord.add_thread(rig.general, "locked")
    thread.locked = True
    gone = rig.discord.add_channel(rig.guild, "gone")
    gone.gone = True
    for place in (thread, gone):
        with pytest.raises(DeliveryFailed) as failed:
            await rig.channel.send(rig.item("answer", place))
        assert (failed.value.retryable, failed.value.blocked) == (False, True)


async def test_an_archived_thread_opens_again(rig: Rig) -> None:
    thread = rig.discord.add_thread(rig.general, "old", announce=False)
    await rig.channel.send(rig.item("answer", thread))
    assert rig.discord.texts(thread) == ["answer"]


@pytest.mark.req("P44", "P43")
async def test_what_is_too_long_after_all_goes_as_a_file_and_nothing_is_lost(rig: Rig) -> None:
    text = "x" * 2001
    sent = await rig.channel.send(rig.item(text, rig.general))
    [file] = rig.general.messages[int(sent)].files
    assert file.content == text.encode()
    item = rig.item("ok", rig.general)
    sent = await rig.channel.send(item)
    await rig.channel.edit(sent, rig.item(text, rig.general))
    [file] = rig.general.messages[int(sent)].files
    assert file.content == text.encode()


@pytest.mark.req("P43")
async def test_a_form_that_is_refused_goes_as_a_file(rig: Rig) -> None:
    rig.discord.fail(Kind.ERROR, "send", status=400, code=50035)
    sent = await rig.channel.send(rig.item("odd", rig.general))
    [file] = rig.general.messages[int(sent)].files
    assert file.content == b"odd"
    rig.discord.fail(Kind.ERROR, "edit", status=400, code=50035)
    await rig.channel.edit(sent, rig.item("odder", rig.general))
    assert [one.content for one in rig.general.messages[int(sent)].files] == [b"odder"]


async def test_a_file_goes_under_its_name(rig: Rig) -> None:
    asked = rig.discord.say(rig.ann, rig.dm, "export")
    sent = await rig.channel.send(rig.item("größer\n", asked, filename="history.md"))
    message = rig.dm.messages[int(sent)]
    [file] = message.files
    assert (file.name, file.content) == ("history.md", "größer\n".encode())
    assert (message.reply_to, message.pinged) == (asked.id, set())


@pytest.mark.req("P43")
async def test_an_empty_message_is_refused_for_good(rig: Rig) -> None:
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(rig.item("  ", rig.general))
    assert (failed.value.retryable, failed.value.blocked) == (False, False)


@pytest.mark.req("P46")
async def test_an_edit_that_changes_nothing_is_not_made(rig: Rig) -> None:
    sent = await rig.channel.send(rig.item("one", rig.general))
    for text in ("one", "two", "two", "three"):
        await rig.channel.edit(sent, rig.item(text, rig.general))
    assert rig.general.messages[int(sent)].texts == ["one", "two", "three"]
    assert len(rig.discord.calls("edit")) == 2
    assert rig.discord.calls("delete") == []
    assert rig.channel.edit_spacing(address(rig.general)) == 1.5


@pytest.mark.req("P03")
@pytest.mark.parametrize("kind", [Kind.CUT_BEFORE, Kind.CUT_AFTER, Kind.ERROR])
async def test_an_edit_that_failed_is_simply_repeated(rig: Rig, kind: Kind) -> None:
    sent = await rig.channel.send(rig.item("one", rig.general))
    rig.discord.fail(kind, "edit", status=503)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.edit(sent, rig.item("two", rig.general))
    assert (failed.value.retryable, failed.value.ambiguous) == (True, False)
    await rig.channel.edit(sent, rig.item("two", rig.general))
    assert rig.discord.texts(rig.general) == ["two"]


async def test_an_edit_of_a_message_that_is_gone_fails_for_good(rig: Rig) -> None:
    sent = await rig.channel.send(rig.item("one", rig.general))
    rig.discord.delete(rig.general.messages[int(sent)])
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.edit(sent, rig.item("two", rig.general))
    assert (failed.value.retryable, failed.value.blocked) == (False, False)


@pytest.mark.req("P47")
async def test_typing(rig: Rig) -> None:
    thread = rig.discord.add_thread(rig.general, "matter")
    await rig.channel.typing(address(thread))
    assert rig.discord.rest.typed == [thread.id]
    rig.discord.fail(Kind.CUT_BEFORE, "typing")
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.typing(address(thread))
    assert (failed.value.retryable, failed.value.ambiguous) == (True, False)


async def test_a_revoked_token_does_not_park_what_waits(rig: Rig) -> None:
    rig.discord.fail(Kind.ERROR, "send", status=401)
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.send(rig.item("answer", rig.general))
    assert (failed.value.retryable, failed.value.blocked) == (True, False)
    assert failed.value.retry_after


async def test_every_send_carries_a_nonce_that_discord_must_honour(rig: Rig) -> None:
    await rig.channel.send(rig.item("answer", rig.general, nonce="01234567-89ab-cdef-0123-456789abcdef"))
    [call] = rig.discord.calls("send")
    body = json.loads(call.body)
    assert body["enforce_nonce"] is True
    assert 0 < len(body["nonce"]) <= 25
