"""A daemon with its application behind pytest-aiohttp's client."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpClient

from gateway.http.app import application
from tests.fakes.api import AUTH, Client, Live, configure, started


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with started(configure(tmp_path)) as running:
        yield running


@pytest.fixture
async def client(live: Live, aiohttp_client: AiohttpClient) -> Client:
    """With the token of the administrator."""
    test_client = await aiohttp_client(application(live.running.api, live.running.token), headers=AUTH)
    return Client(test_client.request)
