"""Fixtures for every test, and the guard that keeps the suite on this machine."""

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The same examples every time, so that a run that failed can be seen again; `make fuzz` looks for others.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("fuzz", print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

#: They take minutes: begun first, they end while the others run.
LONG = ("platforms", "crash", "text", "browser")

LOCAL_NAMES = {None, "", b"", "localhost"}


def is_local(host: object) -> bool:
    """Whether a host is this machine: loopback, any-address or a local name."""
    if isinstance(host, bytes):
        host = host.decode()
    if host in LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@pytest.fixture(scope="session", autouse=True)
def stay_on_this_machine() -> Iterator[None]:
    """Refuse every connection and name lookup that would leave the machine."""

    def guard(call: Any, host_of: Any) -> Any:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            if not is_local(host := host_of(*args)):
                raise RuntimeError(f"tests stay on this machine, but this one calls {host!r}")
            return call(*args, **kwargs)

        return guarded

    def peer(sock: socket.socket, address: Any) -> Any:
        return None if sock.family == socket.AF_UNIX else address[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guard(socket.socket.connect, peer))
        patch.setattr(socket.socket, "connect_ex", guard(socket.socket.connect_ex, peer))
        patch.setattr(socket, "getaddrinfo", guard(socket.getaddrinfo, lambda host, *_: host))
        yield


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout."""
    return Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name not in LONG)
