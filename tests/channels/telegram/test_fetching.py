"""Files of people."""

import pytest

from channels.telegram import TelegramChannel
from routing.errors import DeliveryFailed
from routing.messages import Attachment, AttachmentKind
from tests.channels.telegram.host import HostDouble
from tests.fakes.telegram.faults import CUT_BEFORE, HTML, error
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Chat

LIMIT = 1000


async def attached(server: FakeTelegram, host: HostDouble, dm: Chat, data: bytes) -> Attachment:
    dm.post(document={**server.file("a.txt", data), "file_name": "../../a.txt"})
    (found,) = (await host.one()).attachments
    return found


async def failed(channel: TelegramChannel, attachment: Attachment) -> DeliveryFailed:
    with pytest.raises(DeliveryFailed) as failure:
        await channel.fetch(attachment, LIMIT)
    assert failure.value.__suppress_context__ or failure.value.__context__ is None
    assert not failure.value.ambiguous
    return failure.value


@pytest.mark.req("P58")
async def test_a_file_is_fetched_by_its_id_and_its_name_is_only_a_name(
    channel: TelegramChannel, server: FakeTelegram, host: HostDouble, dm: Chat
) -> None:
    attachment = await attached(server, host, dm, b"x" * LIMIT)
    assert attachment.name == "../../a.txt"
    assert await channel.fetch(attachment, LIMIT) == b"x" * LIMIT


async def test_a_file_that_is_too_large_is_not_even_asked_for(
    channel: TelegramChannel, server: FakeTelegram, host: HostDouble, dm: Chat
) -> None:
    attachment = await attached(server, host, dm, b"x" * (LIMIT + 1))
    assert not (await failed(channel, attachment)).retryable
    assert not server.calls("file")


async def test_a_file_that_is_larger_than_it_said(
    channel: TelegramChannel, server: FakeTelegram, host: HostDouble, dm: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    attachment = await attached(server, host, dm, b"x" * 1_000_000)
    real = server._methods._get_file
    monkeypatch.setattr(server._methods, "_get_file", lambda ref: {**real(ref), "file_size": 5})
    failure = await failed(channel, attachment)
    assert not failure.retryable
    assert "larger than 1000 bytes" in failure.why


async def test_a_file_that_telegram_does_not_give_to_bots(
    channel: TelegramChannel, server: FakeTelegram, host: HostDouble, dm: Chat
) -> None:
    attachment = await attached(server, host, dm, b"x" * (20 * 1024 * 1024 + 1))
    failure = await failed(channel, attachment)
    assert not failure.retryable
    assert "too big" in failure.why


async def test_a_file_that_nobody_knows(channel: TelegramChannel) -> None:
    unknown = Attachment(kind=AttachmentKind.DOCUMENT, ref="unknown")
    assert not (await failed(channel, unknown)).retryable


@pytest.mark.parametrize("fault", [CUT_BEFORE, HTML, error(500, "Internal Server Error")])
async def test_trouble_on_the_way(
    channel: TelegramChannel, server: FakeTelegram, host: HostDouble, dm: Chat, fault: object
) -> None:
    attachment = await attached(server, host, dm, b"data")
    for method in ("getFile", "file"):
        server.faults.add(method, fault)  # type: ignore[arg-type]
        assert (await failed(channel, attachment)).retryable
    assert await channel.fetch(attachment, LIMIT) == b"data"


async def test_a_server_in_local_mode_is_named(
    channel: TelegramChannel, server: FakeTelegram, host: HostDouble, dm: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives paths on its own disk, and what it names is not ours to read."""
    attachment = await attached(server, host, dm, b"data")
    monkeypatch.setattr(
        server._methods, "_get_file", lambda ref: {"file_id": ref, "file_unique_id": "u", "file_path": "/etc/passwd"}
    )
    failure = await failed(channel, attachment)
    assert not failure.retryable
    assert "local mode" in failure.why
