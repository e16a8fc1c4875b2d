"""The token that an installation makes for itself, and the address it listens on."""

import socket
import stat
from pathlib import Path

import pytest

from gateway.http.auth import TOKEN_FILE, local_token
from routing.errors import DataDirUnusable, PortInUse
from tests.fakes.api import configure, connected, started


@pytest.mark.req("CARD-28")
def test_a_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    token = local_token(tmp_path)
    file = tmp_path / TOKEN_FILE
    assert len(token) >= 32
    assert file.read_text() == f"{token}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert local_token(tmp_path) == token


@pytest.mark.req("CARD-28")
def test_two_installations_have_two_tokens(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    assert len({local_token(place) for place in places}) == 2


@pytest.mark.parametrize("content", ["", "\n", " \n "])
def test_an_empty_file_is_filled(tmp_path: Path, content: str) -> None:
    """A crash may have come between making the file and writing it."""
    (tmp_path / TOKEN_FILE).write_text(content)
    token = local_token(tmp_path)
    assert token
    assert local_token(tmp_path) == token


def test_a_file_may_be_written_by_hand(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).write_text("  of my own \n")
    assert local_token(tmp_path) == "of my own"


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).write_bytes(b"\xff")
    with pytest.raises(DataDirUnusable, match=r"admin\.token: it is not text; delete it"):
        local_token(tmp_path)


def test_a_file_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(DataDirUnusable, match=r"admin\.token: No such file or directory"):
        local_token(tmp_path / "nowhere")


@pytest.mark.req("CARD-28")
async def test_a_token_with_space_around_it(tmp_path: Path) -> None:
    async with started(configure(tmp_path, http={"admin_token": " of my own\n"})) as live, connected(live) as client:
        answer = await client.ask("GET", "/api/sessions", headers={"Authorization": "Bearer of my own"})
        assert answer.status == 200


async def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ExceptionGroup) as group:
            async with started(configure(tmp_path, http={"listen": listen})):
                pass
    assert group.group_contains(PortInUse, match=f"^Cannot listen on {listen}: Address already in use. Set another")
