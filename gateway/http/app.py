"""The application: routes, authorisation, errors; and the socket it listens on."""

from __future__ import annotations

import asyncio

from aiohttp import web

from gateway.api import Api
from gateway.config import Listen
from gateway.http import admin, events, sessions
from gateway.http.auth import require
from gateway.http.errors import errors
from routing.errors import PortInUse

_SHUTDOWN_SECONDS = 5.0


def application(api: Api, token: str) -> web.Application:
    app = web.Application(middlewares=[errors, require(token)])
    app[sessions.API] = api
    app[events.STOPPING] = asyncio.Event()
    app.on_shutdown.append(_end_streams)
    for module in (sessions, events, admin):
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
        raise PortInUse(listen=listen, why=exc.strerror or str(exc)) from exc
    host, port = runner.addresses[0][:2]
    return runner, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _end_streams(app: web.Application) -> None:
    app[events.STOPPING].set()
