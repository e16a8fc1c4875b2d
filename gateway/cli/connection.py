"""The way to the data: the daemon that runs, or a quiet one in this process, under the same lock and the same HTTP.

The lock is asked first, because whoever holds it is the daemon of this installation. The token is never sent while
the lock is free: what listens on the address then is somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import quote

import click

from gateway.cli import port
from gateway.cli.client import Client, Refused, Unreachable
from gateway.cli.failing import Failure, cause, failed
from gateway.config import Config, Listen
from gateway.logs import LogFormat, setup
from routing.errors import AlreadyRunning, DataDirUnusable, StartError
from store.lock import holder

TOKEN_FILE = "admin.token"
#: A daemon that starts holds the lock before it answers; another command holds it until it has ended.
_PATIENCE = 10.0
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Found:
    """A daemon that answers."""

    client: Client
    token: str

    @property
    def login(self) -> str:
        """The address of the page that lets a browser in."""
        return f"{self.client.url}/?token={quote(self.token, safe='')}"


@contextlib.contextmanager
def reach(config: Config) -> Iterator[Client]:
    """Whoever answers for the data: the daemon, or else a quiet one for as long as the block takes."""
    deadline = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as stack:
        while (found := find(config)) is None:
            try:
                client = stack.enter_context(_quiet(config))
            except AlreadyRunning as beaten:  # to the lock, since it was looked at
                if time.monotonic() > deadline:
                    raise Failure(str(beaten), beaten.exit_code) from None
            else:
                break
        yield client if found is None else found.client


def must_find(config: Config) -> Found:
    """The daemon that runs, for what only a running one can do."""
    found = find(config)
    if found is None:
        option = "" if config.path is None else f" --config {config.path}"
        raise Failure(
            f"No daemon runs on {config.gateway.data_dir}. Start one in another terminal: trunkline run{option}"
        )
    return found


def find(config: Config) -> Found | None:
    """The daemon that runs, or None; one that runs and does not answer is a failure."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            held = holder(config.gateway.data_dir)
        except DataDirUnusable as error:
            # It is another user's. Who was given the token can ask its daemon all the same.
            if config.http.admin_token is None:
                raise Failure(str(error), error.exit_code) from None
            return _answering(config)
        if held is None:
            return None
        try:
            return _answering(config)
        except Unreachable as error:
            if time.monotonic() > deadline:
                raise _silent(config, held, error) from None
            time.sleep(_PAUSE)


def url_of(listen: Listen) -> str:
    """Where a daemon that listens there is reached from this machine."""
    host = listen.host
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.is_unspecified:
            host = "127.0.0.1" if address.version == 4 else "::1"
    return f"http://{Listen(host, listen.port)}"


def _answering(config: Config) -> Found:
    listen, token = config.http.listen, _token(config)
    if token is None:
        raise Unreachable(f"There is no token in {config.gateway.data_dir / TOKEN_FILE}.")
    if listen.port == 0:
        chosen = port.published(config)
        if chosen is None:
            raise Unreachable("It has not said at which port.")
        listen = Listen(listen.host, chosen)
    client = Client(url_of(listen), token)
    try:
        client.ask("GET", "/api/me", timeout=_PATIENCE)
    except Refused as refused:
        if refused.status == 401:
            raise Failure(f"The daemon at {client.url} does not accept the token of this configuration.") from None
        raise
    return Found(client, token)


def _token(config: Config) -> str | None:
    given = config.http.admin_token
    if given is not None:
        return given.get_secret_value().strip()
    path = config.gateway.data_dir / TOKEN_FILE
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Failure(f"The token in {path} cannot be read: {why}.") from None


def _silent(config: Config, held: str, error: Unreachable) -> Failure:
    data_dir, listen = config.gateway.data_dir, config.http.listen
    who = f"Another trunkline{held} uses the data directory {data_dir}"
    where = "" if listen.port == 0 else f" at {url_of(listen)}"
    return Failure(f"{who} and does not answer{where}: {error.message}")


@contextlib.contextmanager
def _quiet(config: Config) -> Iterator[Client]:
    """A daemon in a thread of this process that serves the API to us and does nothing else."""
    from gateway.daemon import Daemon, Running  # it brings the HTTP server along, which is slow to import

    here = replace(config, http=config.http.model_copy(update={"listen": Listen("127.0.0.1", 0)}))
    setup(LogFormat.TEXT, logging.ERROR, config.secrets())
    ready: Future[tuple[Client, Callable[[], object]]] = Future()

    async def serve() -> None:
        daemon = Daemon(here, quiet=True)
        stop = partial(asyncio.get_running_loop().call_soon_threadsafe, daemon.stop)

        def on_ready(running: Running) -> None:
            ready.set_result((Client(running.url, running.token), stop))

        await daemon.run(on_ready)

    def work() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # told in the thread that waits for it
            if ready.done():
                failed(cause(error))
            else:
                ready.set_exception(error)

    # As a daemon thread it does not keep a process alive that was interrupted while this one starts.
    thread = threading.Thread(target=work, name="quiet daemon", daemon=True)
    thread.start()
    try:
        client, stop = ready.result()
    except Exception as error:
        raise _not_started(cause(error)) from None
    try:
        yield client
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended already
            stop()
        thread.join()


def _not_started(error: BaseException) -> Exception:
    if isinstance(error, AlreadyRunning):
        return error
    if isinstance(error, StartError):
        return Failure(str(error), error.exit_code)
    return click.exceptions.Exit(failed(error))
