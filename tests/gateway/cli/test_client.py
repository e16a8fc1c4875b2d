"""The commands' HTTP client against servers that behave badly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from gateway.cli.client import Client, Refused, Unreachable, path_of
from gateway.cli.failing import Failure

Serve = Callable[[bytes], Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that gives one fixed answer, whatever it is asked."""
    threads: list[threading.Thread] = []

    def serve(answer: bytes) -> Client:
        server = socket.create_server(("127.0.0.1", 0))

        def work() -> None:
            with server, server.accept()[0] as connection:
                connection.recv(65_536)
                connection.sendall(answer)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return Client(f"http://127.0.0.1:{server.getsockname()[1]}", "secret")

    yield serve
    for thread in threads:
        thread.join()


def test_an_answer(serve: Serve) -> None:
    client = serve(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a": 1}\n')
    assert client.get("/x", {"q": "a b", "none": None}) == {"a": 1}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "the answer broke off or is not HTTP (RemoteDisconnected)"),
        (b"220 mail.example.org ESMTP\r\n", "the answer broke off or is not HTTP (BadStatusLine)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}", "the answer broke off or is not HTTP (IncompleteRead)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "does not speak as Trunkline does"),
    ],
)
def test_what_is_no_answer(serve: Serve, answer: bytes, words: str) -> None:
    client = serve(answer)
    with pytest.raises(Unreachable) as failure:
        client.get("/x")
    assert words in failure.value.message
    assert client.url in failure.value.message
    assert "secret" not in failure.value.message


def test_a_stream_that_breaks_off_is_not_taken_for_whole(serve: Serve) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    client = serve(head + b"7\r\none\ntwo\r\n")
    with client.stream("/x") as lines:
        assert next(lines) == b"one\n"
        with pytest.raises(Unreachable, match="broke off"):
            list(lines)
    client = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\none\ntwo")
    with client.stream("/x") as lines, pytest.raises(Unreachable, match="broke off"):
        list(lines)
    client = serve(head + b"7\r\none\ntwo\r\n0\r\n\r\n")
    with client.stream("/x") as lines:
        assert list(lines) == [b"one\n", b"two"]


def test_a_refusal_says_why(serve: Serve) -> None:
    body = b'{"error": {"code": "session_ended", "message": "It has ended."}}'
    client = serve(b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    with pytest.raises(Refused) as refused:
        client.post("/x", {})
    assert (refused.value.message, refused.value.status, refused.value.code) == ("It has ended.", 409, "session_ended")
    client = serve(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>")
    with pytest.raises(Refused, match="The daemon answered 502 Bad Gateway."):
        client.get("/x")


def test_a_refusal_in_the_middle_of_a_long_upload(serve: Serve) -> None:
    """The server answers after the first bytes and closes: what counts is what it said."""
    body = b'{"error": {"code": "bad_request", "message": "Line 1 is wrong."}}'
    client = serve(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    with pytest.raises(Failure) as failure:
        client.upload("/x", (b"x" * 65_536 for _ in range(10_000)))
    # Its kernel may throw the answer away with the connection; then at least it is no traceback.
    assert failure.value.message in {
        "Line 1 is wrong.",
        f"The daemon at {client.url} cannot be reached: Connection reset by peer.",
    }


@pytest.mark.parametrize("token", ["two\nlines", "a\x00b", "tab\there"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str) -> None:
    with pytest.raises(Failure) as failure:
        Client("http://127.0.0.1:1", token)
    assert token not in failure.value.message


def test_ids_stay_inside_their_part_of_a_path() -> None:
    assert path_of("api", "a/b?c#d", "ü") == "/api/a%2Fb%3Fc%23d/%C3%BC"
