"""Files are fetched from Discord only, and no more than asked for."""

from __future__ import annotations

import pytest

from routing.errors import DeliveryFailed
from routing.messages import Attachment, AttachmentKind
from tests.channels.discord.doubles import Rig


def at(url: str, size: int | None = None) -> Attachment:
    return Attachment(kind=AttachmentKind.DOCUMENT, ref=url, size=size)


@pytest.mark.req("P58")
async def test_a_file_is_fetched_whole(rig: Rig) -> None:
    content = bytes(range(256)) * 1000
    rig.discord.say(rig.ann, rig.dm, files=[("../../x.png", content, "image/png")])
    [found] = await rig.host.received(1)
    assert await rig.channel.fetch(found.attachments[0], len(content)) == content


async def test_a_larger_one_is_not(rig: Rig) -> None:
    rig.discord.say(rig.ann, rig.dm, files=[("x.png", b"1" * 5000, "image/png")])
    [found] = await rig.host.received(1)
    file = found.attachments[0]
    for attachment in (file, at(file.ref)):  # whether its size was told or not
        with pytest.raises(DeliveryFailed, match="larger") as failed:
            await rig.channel.fetch(attachment, 4999)
        assert not failed.value.retryable


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:1/attachments/1/2/x",
        "http://cdn.discordapp.com/attachments/1/2/x",
        "https://cdn.discordapp.com.evil.example/x",
        "https://cdn.discordapp.com:8443/x",
        "https://cdn.discordapp.com@127.0.0.1/x",
        "file:///etc/passwd",
        "/etc/passwd",
        "",
    ],
)
async def test_only_discord_is_asked(rig: Rig, url: str) -> None:
    with pytest.raises(DeliveryFailed, match="not at Discord") as failed:
        await rig.channel.fetch(at(url), 100)
    assert not failed.value.retryable


async def test_a_redirect_is_not_followed(rig: Rig) -> None:
    with pytest.raises(DeliveryFailed, match="302") as failed:
        await rig.channel.fetch(at(f"{rig.discord.root}/elsewhere/x"), 100)
    assert not failed.value.retryable


async def test_a_file_that_is_gone_and_a_server_that_is_down(rig: Rig) -> None:
    url = f"{rig.discord.root}/attachments/{rig.dm.id}/1/x"
    with pytest.raises(DeliveryFailed, match="404") as failed:
        await rig.channel.fetch(at(url), 100)
    assert not failed.value.retryable
    await rig.discord.stop()
    with pytest.raises(DeliveryFailed) as failed:
        await rig.channel.fetch(at(url), 100)
    assert failed.value.retryable
    await rig.discord.start()
