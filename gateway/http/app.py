"""The application: routes, authorisation, errors; and the socket it listens on."""

from __future__ import annotations

import asyncio
import os

from aiohttp import web

from gateway.api import Api
from gateway.config import Listen
from gateway.http import (
    admin,
    budgets,
    chat,
    events,
    listing,
    operations,
    page,
    pairings,
    questions,
    reports,
    repos,
    sessions,
)
from gateway.http.auth import DOOR, Door, require
from gateway.http.errors import LARGEST, errors
from routing.errors import PortInUse

_SHUTDOWN_SECONDS = 5.0


def application(api: Api, token: str, host: str = "localhost") -> web.Application:
    """Opened by the token, and by requests that name this host or a loopback one."""
    door = Door(token, host)
    app = web.Application(middlewares=[errors, require(door)], client_max_size=LARGEST)
    app[DOOR] = door
    app[sessions.API] = api
    app[events.STOPPING] = asyncio.Event()
    app.on_shutdown.append(_end_streams)
    app.on_response_prepare.append(page.harden)
    for module in (
        listing,
        sessions,
        chat,
        events,
        admin,
        operations,
        pairings,
        questions,
        reports,
        budgets,
        repos,
        page,
    ):
        app.add_routes(module.routes)
    return app


async def serve(app: web.Application, listen: Listen) -> tuple[web.AppRunner, str]:
    """Listen, and return the runner to clean up and the address that was bound."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, listen.host, listen.port).start()
    except OSError as exc:
        await runner.cleanup()
        raise PortInUse(listen=listen, why=_why(exc)) from exc
    host, port = runner.addresses[0][:2]
    return runner, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _why(exc: OSError) -> str:
    """The system's word for it; asyncio wraps it in words of its own. A name that is unknown has no system error."""
    if exc.errno is not None and exc.errno > 0:
        return os.strerror(exc.errno)
    return exc.strerror or str(exc)


async def _end_streams(app: web.Application) -> None:
    app[events.STOPPING].set()
