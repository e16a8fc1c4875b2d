"""The commands' side of HTTP: small, synchronous, and it never shows the token."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gateway.cli.failing import Failure

#: For an answer that should come at once.
SOON = 30.0
#: For work on all the data, such as a backup.
LONG = 3600.0

_PIECE = 65_536

Query = Mapping[str, object]


class Unreachable(Failure):
    """Nothing that speaks HTTP answers."""


class Refused(Failure):
    """The daemon answered that it will not."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Query | None
    body: bytes | Iterable[bytes] | None
    timeout: float
    kind: str = "application/json"
    #: Error codes whose answer is wanted as well.
    accept: Collection[int] = ()

    @property
    def target(self) -> str:
        given = {name: value for name, value in (self.query or {}).items() if value is not None}
        return f"{self.path}?{urlencode(given)}" if given else self.path


def path_of(*parts: str) -> str:
    """A path of the API, with whatever ids hold kept inside their parts."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


class Client:
    """Requests to one daemon, each on a connection of its own."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._authorization = f"Bearer {token.strip()}".encode()
        if any(byte < 32 or byte == 127 for byte in self._authorization):
            raise Failure("The admin token holds a line break or another character that HTTP cannot carry.")

    def get(self, path: str, query: Query | None = None) -> Any:
        return self.ask("GET", path, query)

    def post(self, path: str, body: object = None, query: Query | None = None, *, timeout: float = SOON) -> Any:
        return self.ask("POST", path, query, body, timeout=timeout)

    def delete(self, path: str, body: object = None) -> Any:
        return self.ask("DELETE", path, None, body)

    def ask(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: object = None,
        *,
        timeout: float = SOON,
        accept: Collection[int] = (),
    ) -> Any:
        """One request with an answer in JSON; `accept` names error codes whose answer is wanted as well."""
        sent = None if body is None else json.dumps(body).encode()
        with self._open(_Request(method, path, query, sent, timeout, accept=accept)) as response:
            return self._json(response)

    def upload(self, path: str, content: Iterable[bytes], query: Query | None = None) -> Any:
        """Send lines of JSON, however many."""
        with self._open(_Request("POST", path, query, content, LONG, "application/x-ndjson")) as response:
            return self._json(response)

    @contextlib.contextmanager
    def stream(self, path: str, query: Query | None = None, *, timeout: float = LONG) -> Iterator[Iterator[bytes]]:
        """The lines of an answer, as they come."""
        with self._open(_Request("GET", path, query, None, timeout)) as response:
            yield self._lines(response)

    @contextlib.contextmanager
    def _open(self, request: _Request) -> Iterator[http.client.HTTPResponse]:
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=request.timeout)
        headers: dict[str, str | bytes] = {"Authorization": self._authorization, "Connection": "close"}
        if request.body is not None:
            headers["Content-Type"] = request.kind
        try:
            with self._clearly():
                # Who refuses a long body does so before its end: the answer says why, the broken pipe does not.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.request(request.method, request.target, request.body, headers)
                response = connection.getresponse()
                if response.status >= 400 and response.status not in request.accept:
                    raise _refusal(response, request)
            yield response
        finally:
            connection.close()

    def _json(self, response: http.client.HTTPResponse) -> Any:
        with self._clearly():
            content = response.read()
        try:
            return json.loads(content)
        except ValueError:
            raise Unreachable(f"What answers at {self.url} does not speak as Trunkline does.") from None

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        begun = b""
        while piece := self._piece(response):
            *whole, begun = (begun + piece).split(b"\n")
            yield from (line + b"\n" for line in whole)
        if begun:
            yield begun

    def _piece(self, response: http.client.HTTPResponse) -> bytes:
        # Not readline, which takes a stream that breaks off for one that has ended.
        with self._clearly():
            piece = response.read1(_PIECE)
            if not piece and response.length:
                raise http.client.IncompleteRead(b"")
            return piece

    @contextlib.contextmanager
    def _clearly(self) -> Iterator[None]:
        """Trouble with the connection as a sentence."""
        try:
            yield
        except TimeoutError:
            why = "it does not answer in time"
        except http.client.HTTPException as error:
            why = f"the answer broke off or is not HTTP ({type(error).__name__})"
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
        raise Unreachable(f"The daemon at {self.url} cannot be reached: {why}.")


def _refusal(response: http.client.HTTPResponse, request: _Request) -> Failure:
    try:
        error = json.loads(response.read())["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, LookupError, TypeError):
        code, message = "", f"The daemon answered {response.status} {response.reason}."
    if code in {"not_found", "method_not_allowed"}:
        asked = f"{request.method} {request.path}"
        message = f"The daemon does not know {asked}: it is of another version. Restart it after an update."
    return Refused(response.status, code, message)
