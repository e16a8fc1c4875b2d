"""Conflicts, refused tokens, outages and silence: named in plain words, and over by themselves."""

import asyncio

import pytest
from aiohttp import web

from channels.telegram import TelegramChannel
from routing.messages import Inbound
from tests.channels.telegram.host import IMPATIENT, HostDouble, running
from tests.fakes.telegram.faults import CONFLICT, CUT_AFTER, CUT_BEFORE, HANG, HTML, error, retry_after
from tests.fakes.telegram.server import FakeTelegram
from tests.fakes.telegram.world import Bot, Chat


@pytest.mark.req("P38")
async def test_a_second_program_is_named_and_its_end_noticed(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    async with running(server, bot, host):
        await server.until(lambda: bot.polling)
        server.faults.add("getUpdates", CONFLICT, for_ever=True)
        dm.say("one")
        await host.count(1)
        await host.until(lambda: len(host.troubles) >= 3)
        dm.say("two")
        assert all("another program polls with the same token" in one for one in host.troubles)
        server.faults.clear()
        assert [one.text for one in await host.messages(2)] == ["one", "two"]
        assert host.health[-1] == "alive"
    assert bot.conflicts == 0


@pytest.mark.req("P38")
async def test_a_webhook_is_named_without_its_path(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    bot.webhook = "https://hooks.example.org/secret-path"
    async with running(server, bot, host, connected=False):
        await host.until(lambda: host.troubles)
        assert "a webhook is set for this bot (at hooks.example.org)" in host.troubles[0]
        assert "secret-path" not in host.troubles[0]
        bot.webhook = ""
        dm.say("hi")
        await host.one()


async def test_a_conflict_is_named_even_if_telegram_does_not_say_more(
    server: FakeTelegram, bot: Bot, host: HostDouble
) -> None:
    bot.webhook = "https://hooks.example.org/x"
    server.faults.add("getWebhookInfo", error(500, "Internal Server Error"), for_ever=True)
    async with running(server, bot, host, connected=False):
        await host.until(lambda: host.troubles)
    assert host.troubles[0].startswith("a webhook is set for this bot, so")


async def test_the_real_conflict_of_two_channels(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    """The server ends the older poll: each of the two says so, and the one that stays is heard."""
    second = HostDouble()
    async with running(server, bot, host):
        async with running(server, bot, second):
            await host.until(lambda: host.troubles)
        dm.say("hi")
        await host.until(lambda: host.taken or second.taken)
    assert "another program" in host.troubles[0]


async def test_a_token_that_telegram_does_not_know(server: FakeTelegram, bot: Bot, host: HostDouble) -> None:
    wrong = server.bot("gone_bot")
    server._bots.remove(wrong)
    async with running(server, wrong, host, connected=False):
        await host.until(lambda: len(host.troubles) >= 2)
        assert "Telegram refused the token (Unauthorized)" in host.troubles[0]
        server._bots.append(wrong)
        await host.until(lambda: host.health[-1] == "alive")


async def test_a_token_that_is_taken_back_while_polling(server: FakeTelegram, bot: Bot, host: HostDouble) -> None:
    async with running(server, bot, host):
        server._bots.remove(bot)
        server.cut_all()
        await host.until(lambda: host.troubles)
    assert "refused the token" in host.troubles[-1]


@pytest.mark.req("P39")
async def test_an_outage_at_the_start_and_in_between(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    await server.go_down()
    async with running(server, bot, host, connected=False):
        await host.until(lambda: len(host.troubles) >= 3)
        assert "cannot reach Telegram (ConnectError)" in host.troubles[0]
        await server.come_up()
        dm.say("one")
        await host.count(1)
        await server.go_down()
        before = len(host.troubles)
        await host.until(lambda: len(host.troubles) > before)
        dm.say("two")
        await server.come_up()
        assert [one.text for one in await host.messages(2)] == ["one", "two"]


@pytest.mark.req("P39")
async def test_a_black_hole_is_noticed_and_left(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    async with running(server, bot, host, IMPATIENT):
        server.black_hole = True
        await host.until(lambda: len(host.troubles) >= 2)
        assert set(host.troubles) == {"Telegram did not answer in time"}
        dm.say("hi")
        server.black_hole = False
        await host.one()
        assert host.health[-1] == "alive"


async def test_one_hanging_poll_is_given_up(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    server.faults.add("getUpdates", HANG)
    async with running(server, bot, host, IMPATIENT, connected=False):
        dm.say("hi")
        await host.one()


@pytest.mark.req("P39")
async def test_a_pool_whose_only_connection_hangs_is_left_behind(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    """As if the library had lost one: no poll could ever be sent again."""
    async with running(server, bot, host, IMPATIENT) as channel:
        assert channel._line
        host.gate.clear()
        dm.say("one")
        await host.until(lambda: host.offered)
        server.faults.add("getMe", HANG)
        url = f"{server.url}/bot{bot.token}/getMe"
        lost = asyncio.create_task(channel._line.poller.post(url, read_timeout=None))
        await server.until(lambda: not server.faults.waiting)
        host.gate.set()
        dm.say("two")
        await host.count(2)
        assert host.troubles[0] == "cannot reach Telegram (PoolTimeout)"
        await asyncio.wait({lost})
        assert lost.exception()


async def test_a_server_that_trickles_is_given_up_too(bot: Bot, host: HostDouble) -> None:
    """Each byte would start the library's time for an answer again."""

    async def trickle(request: web.Request) -> web.StreamResponse:
        if request.match_info["method"] != "getUpdates":
            return web.json_response({"ok": True, "result": bot.user.json()})
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        while True:
            await answer.write(b" ")
            await asyncio.sleep(0.05)

    app = web.Application()
    app.router.add_route("*", "/bot{token}/{method}", trickle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    task = asyncio.create_task(TelegramChannel("main", bot.token, url, timing=IMPATIENT).run(host))
    await host.until(lambda: host.troubles)
    task.cancel()
    await asyncio.wait({task})
    await runner.cleanup()
    assert host.troubles[0] == "Telegram did not answer in time"


async def test_faults_of_all_kinds_lose_nothing(server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat) -> None:
    async with running(server, bot, host):
        for number, fault in enumerate([CUT_BEFORE, CUT_AFTER, HTML, error(500, "x"), retry_after(0)], 1):
            server.faults.add("getUpdates", fault)
            server.cut_all()
            await server.until(lambda: not server.faults.waiting)
            dm.say(str(number))
            await host.until(lambda: len({_text(one) for one in host.taken}) == number)  # noqa: B023
    assert {_text(one) for one in host.taken} == {"1", "2", "3", "4", "5"}


def _text(what: object) -> str:
    assert isinstance(what, Inbound)
    return what.text


async def test_a_closed_connection_is_not_worth_a_word(
    server: FakeTelegram, bot: Bot, host: HostDouble, dm: Chat
) -> None:
    async with running(server, bot, host):
        for _ in range(3):
            alive = host.health.count("alive")
            await server.until(lambda: bot.polling)
            server.cut_all()
            await host.until(lambda: host.health.count("alive") > alive)  # noqa: B023
    assert host.troubles == []
