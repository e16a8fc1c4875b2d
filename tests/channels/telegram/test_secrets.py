"""The token is in no log, no exception, no word of trouble, whatever happens."""

import asyncio
import logging
import traceback
from urllib.parse import quote

import pytest

from channels.base import MenuItem
from channels.telegram import TelegramChannel
from channels.telegram.failures import scrub
from routing.errors import DeliveryFailed
from routing.messages import Attachment, AttachmentKind
from tests.channels.telegram.host import IMPATIENT, HostDouble, message, to
from tests.fakes.telegram.faults import CUT_AFTER, CUT_BEFORE, HANG, HTML, Fault, error, retry_after
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat

FAULTS = {
    "cut": CUT_BEFORE,
    "cut late": CUT_AFTER,
    "hang": HANG,
    "page": HTML,
    "page of 404": Fault(HTML.kind, 404, "Not Found"),
    "page of 400": Fault(HTML.kind, 400, "Bad Request"),
    "page of 403": Fault(HTML.kind, 403, "Forbidden"),
    "page of 409": Fault(HTML.kind, 409, "Conflict"),
    "page of 200": Fault(HTML.kind, 200, "Welcome"),
    "refused": error(400, "Bad Request: no"),
    "unauthorized": error(401, "Unauthorized"),
    "conflict": error(409, "Conflict: x"),
    "flood": retry_after(1),
    "server": error(500, "Internal Server Error"),
}


def spellings(token: str) -> list[str]:
    secret = token.partition(":")[2]
    return [token, quote(token, safe=""), secret]


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Log all there is, as an operator does who looks for a fault."""
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "telegram", "channels", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    return caplog


@pytest.mark.req("P54")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_no_failure_shows_the_token(
    server: FakeTelegram, bot: Bot, dm: Chat, everything: pytest.LogCaptureFixture, fault: Fault
) -> None:
    host = HostDouble([MenuItem(name="new", description="new")])
    channel = TelegramChannel("main", bot.token, server.url, timing=IMPATIENT)
    said = [repr(channel)]
    task = asyncio.create_task(channel.run(host))
    await host.until(lambda: host.health)
    server.faults.add("*", fault, for_ever=True)
    file = Attachment(kind=AttachmentKind.DOCUMENT, ref="x")
    for call in (
        channel.send(message(to(dm))),
        channel.send(message(to(dm), "x", "a.md")),
        channel.edit("1", message(to(dm))),
        channel.typing(to(dm)),
        channel.fetch(file, 10),
    ):
        with pytest.raises(DeliveryFailed) as failure:
            await call
        said += traceback.format_exception(failure.value)
    await host.until(lambda: len(host.troubles) >= 2)
    task.cancel()
    await asyncio.wait({task})
    said += [everything.text, *host.troubles, repr(channel)]
    whole = "\n".join(said)
    for secret in spellings(bot.token):
        assert secret not in whole


@pytest.mark.req("P54")
async def test_no_start_shows_the_token(server: FakeTelegram, bot: Bot, everything: pytest.LogCaptureFixture) -> None:
    """From the first line on: the library itself logs the URL when a bot is made."""
    for fault in FAULTS.values():
        server.faults.add("getMe", fault)
    host = HostDouble()
    channel = TelegramChannel("main", bot.token, server.url, timing=IMPATIENT)
    task = asyncio.create_task(channel.run(host))
    await host.until(lambda: "alive" in host.health)
    task.cancel()
    await asyncio.wait({task})
    assert not server.faults.waiting
    whole = "\n".join([everything.text, *host.troubles])
    for secret in spellings(bot.token):
        assert secret not in whole


@pytest.mark.req("P54")
async def test_a_download_that_fails_does_not_show_the_token(
    server: FakeTelegram, bot: Bot, everything: pytest.LogCaptureFixture, channel: TelegramChannel
) -> None:
    file = Attachment(kind=AttachmentKind.DOCUMENT, ref=server.file("a", b"data")["file_id"])
    said: list[str] = []
    for fault in (CUT_BEFORE, HTML, error(404, "Not Found")):
        server.faults.add("file", fault)
        with pytest.raises(DeliveryFailed) as failure:
            await channel.fetch(file, 10)
        said += traceback.format_exception(failure.value)
    whole = "\n".join([*said, everything.text])
    for secret in spellings(bot.token):
        assert secret not in whole


def test_scrubbing() -> None:
    token = "123:AAb-c_d"
    for text in ("/bot123:AAb-c_d/x", "/bot123%3AAAb-c_d/x", "/bot123%3aAAb-c_d/x", "AAb-c_d"):
        assert "AAb-c_d" not in scrub(text, token)
    assert scrub("nothing", token) == "nothing"
