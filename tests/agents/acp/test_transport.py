"""The transport alone: whatever bytes come, the connection lives, and the messages among them arrive."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.acp.client import connect
from gateway.agents.acp.transport import Lines, Refused, Transport, understand
from gateway.clock import SystemClock
from tests.fakes.clock import breathe

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
#: Shapes that are nearly messages are more dangerous than noise.
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": JSON,
        "id": JSON,
        "method": JSON | st.sampled_from(["session/update", "session/request_permission", "fs/read_text_file", "_x"]),
        "params": JSON | st.fixed_dictionaries({}, optional={"sessionId": JSON, "update": JSON, "_meta": JSON}),
        "result": JSON,
        "error": JSON,
    },
)
NOISE = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    NEARLY.map(lambda value: json.dumps(value).encode()),
)


class Pipe:
    """The half of a process that the transport knows."""

    def __init__(self) -> None:
        self.on_output: Any = None
        self.written: list[dict[str, Any]] = []
        self.paused = False
        self.resumed = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.written.append(json.loads(data))

    async def sent(self) -> None: ...

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.resumed.set()


@pytest.mark.req("S002-62", "P34")
@given(noise=st.lists(NOISE, max_size=8), cuts=st.lists(st.integers(1, 40), max_size=10))
def test_no_bytes_end_the_connection(noise: list[bytes], cuts: list[int]) -> None:
    asyncio.run(_survives(noise, cuts))


async def _survives(noise: list[bytes], cuts: list[int]) -> None:
    pipe = Pipe()
    updates: list[dict[str, Any]] = []
    transport = Transport(
        pipe,  # type: ignore[arg-type]
        SystemClock(),
        on_update=updates.append,
        on_answer=lambda: None,
        on_refused=lambda why, line: None,
    )

    async def nobody(*_: Any) -> None:
        return None

    connection = connect(transport, nobody)
    asked = asyncio.create_task(connection.new_session(cwd="/", mcp_servers=[]))
    await breathe()
    number = pipe.written[0]["id"]
    lines = [one for one in noise if not _answers(one, number)]
    update = {"method": "session/update", "params": {"sessionId": "s", "update": {"marker": 1}, "_meta": {"x": 1}}}
    good = [json.dumps(update), json.dumps({"id": str(number), "result": {"sessionId": "s"}})]
    data = b"\n".join([*lines, *(one.encode() for one in good), b""])
    for size in cuts:
        pipe.on_output(data[:size])
        data = data[size:]
    if data:
        pipe.on_output(data)
    async with asyncio.timeout(5):
        assert (await asked).session_id == "s"
    assert updates[-1] == {"sessionId": "s", "update": {"marker": 1}}
    await connection.close()


def _answers(noise: bytes, number: int) -> bool:
    """Whether the noise happens to be an answer to what was asked."""
    for line in noise.split(b"\n"):
        try:
            message = understand(line)
        except Refused:
            continue
        if message is not None and "method" not in message and message["id"] == number:
            return True
    return False


@given(parts=st.lists(st.binary(max_size=30)), longest=st.integers(0, 40))
def test_lines_are_whole_and_bounded(parts: list[bytes], longest: int) -> None:
    lines = Lines(longest)
    found = [line for part in parts for line in lines.feed(part)]
    whole = b"".join(parts).split(b"\n")
    assert found == [line for line in whole[:-1] if len(line) <= longest]
    assert lines.refused == sum(len(line) > longest for line in whole)


@pytest.mark.parametrize("line", [b"null", b"42", b"[]", b"{}", b'{"id": {}}', b'{"id": true, "result": 1}', b"\xff"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(Refused):
        understand(line)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(Refused):
        understand(b"[" * 200_000)


@pytest.mark.req("S002-51")
async def test_a_child_that_is_ahead_has_to_wait() -> None:
    pipe = Pipe()
    transport = Transport(
        pipe,  # type: ignore[arg-type]
        SystemClock(),
        on_update=lambda params: None,
        on_answer=lambda: None,
        on_refused=lambda why, line: None,
    )
    pipe.on_output(b'{"method": "session/update", "params": {}}\n' * 1000)
    assert pipe.paused
    receiving = asyncio.create_task(transport.receive())
    async with asyncio.timeout(5):
        await pipe.resumed.wait()
    pipe.on_output(b"")
    assert await receiving is None
