"""Agents that do everything wrong. After each: the right words in the chat, the right status, and no process left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway import phrases
from gateway.agents.acp import transport
from gateway.logs import Event
from store.records import Status
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.scene import Scene, eventually

Script = dict[str, Any]

NAME = "main"
OPTIONAL = {"jsonrpc": "2.0", "method": "session/update"}


def failed(why: str) -> str:
    return phrases.FAILED.format(why=why[:1].upper() + why[1:])


NOT_STARTED = failed(phrases.ACP_NOT_STARTED.format(name=NAME))
BROKE = failed(phrases.ACP_BROKE.format(name=NAME))
END = ["answer", {"stopReason": "end_turn"}]

#: What is wrong → the script. It is answered all the same.
HARMLESS: dict[str, Script] = {
    "a banner": {"start": [["raw", "Welcome to the agent!"], ["raw", ""]]},
    "broken JSON": {"prompt": [["raw", '{"jsonrpc": "2.0", "met'], ["say", "ok"]]},
    "null": {"prompt": [["raw", "null"], ["say", "ok"]]},
    "a number": {"prompt": [["raw", "42"], ["say", "ok"]]},
    "a list": {"prompt": [["raw", "[]"], ["say", "ok"]]},
    "an id that is an object": {"prompt": [["raw", '{"jsonrpc": "2.0", "id": {}, "result": {}}'], ["say", "ok"]]},
    "an id that is null": {"prompt": [["raw", '{"jsonrpc": "2.0", "id": null, "method": "x"}'], ["say", "ok"]]},
    "an id that nobody used": {"prompt": [["raw", '{"id": 999, "result": {"stopReason": "refusal"}}'], ["say", "ok"]]},
    "an id as a text": {"prompt": [["say", "ok"], ["raw", '{"id": "{id}", "result": {"stopReason": "end_turn"}}']]},
    "an error that is no object": {"prompt": [["raw", '{"id": 998, "error": "no"}'], ["say", "ok"]]},
    "a method that is a number": {"prompt": [["raw", '{"method": 7}'], ["say", "ok"]]},
    "params that are a list": {"prompt": [["raw", '{"method": "session/update", "params": []}'], ["say", "ok"]]},
    "bytes that are no text": {"prompt": [["bytes", "fffe00c3280a"], ["say", "ok"]]},
    "half a line, then the rest": {"prompt": [["bytes", "7b"], ["sleep", 0.1], ["bytes", "7d0a"], ["say", "ok"]]},
    "1 MB on standard error": {"prompt": [["stderr", "x" * 1000, 1000], ["say", "ok"]]},
    "an unknown update": {"prompt": [["update", {"sessionUpdate": "dance", "steps": 3}], ["say", "ok"]]},
    "an unknown content": {
        "prompt": [["update", {"sessionUpdate": "agent_message_chunk", "content": {"type": "smell"}}], ["say", "ok"]]
    },
    "an unknown notification": {"prompt": [["raw", '{"method": "$/progress", "params": {}}'], ["say", "ok"]]},
    "an unknown request": {"prompt": [["raw", '{"id": 5, "method": "fs/format_disk", "params": {}}'], ["say", "ok"]]},
    "a request to read a file": {
        "prompt": [["raw", '{"id": 5, "method": "fs/read_text_file", "params": {"path": "/x"}}'], ["say", "ok"]]
    },
    "_meta that poses as an argument": {
        "prompt": [
            [
                "update",
                {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "ok"}},
                {"_meta": {"session_id": "HIJACKED", "update": None, "self": 1}},
            ]
        ]
    },
    "an update of another session": {
        "prompt": [
            ["raw", json.dumps({**OPTIONAL, "params": {"sessionId": "other", "update": {}}})],
            ["say", "ok"],
        ]
    },
    "an unknown way to stop": {"prompt": [["say", "ok"], ["answer", {"stopReason": "tired"}]]},
    "an answer that is no object": {"prompt": [["say", "ok"], ["answer", None]]},
    "empty chunks": {"prompt": [["say", ""], ["say", "ok"], ["say", ""]]},
}


@pytest.mark.req("S002-60", "S002-61", "S002-62", "S002-52", "P34")
@pytest.mark.parametrize("wrong", HARMLESS)
async def test_what_is_wrong_is_passed_over(scenes: Scenes, wrong: str) -> None:
    script = HARMLESS[wrong]
    scene = await scenes(**script).start()
    assert await scene.say("hi") == ("ok" if "prompt" in script else "You said: hi")
    assert (await scene.rig.session()).status is Status.ACTIVE
    assert await scene.say("hi") == ("ok" if "prompt" in script else "You said: hi")
    assert len(scene.born) == 1
    await _left_by(scene)


@pytest.mark.req("S002-60")
async def test_a_line_that_is_refused_is_logged_in_short_and_masked(scenes: Scenes) -> None:
    script: Script = {"prompt": [["raw", "token sk-verysecret " + "z" * 1000], ["say", "ok"]]}
    scene = await scenes({"env": {"API_KEY": "sk-verysecret"}}, **script).start()
    await scene.say("hi")
    [line] = scene.rig.journal.of(Event.AGENT_LINE_REFUSED)
    assert line["line"].startswith("token *** zzz")
    assert len(line["line"]) <= 300
    assert line["why"] == "not JSON"


@pytest.mark.req("P34")
@pytest.mark.parametrize("size", [2**16 + 1, 5 * 10**6, 20 * 10**6])
async def test_a_long_line_is_read(scenes: Scenes, size: int) -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "cat"}
    scene = await scenes(prompt=[["padded", tool, "rawOutput", size], ["say", "ok"]]).start()
    assert await scene.say("hi") == "ok"
    [kept] = [row for row in await scene.rig.history() if row.tool_call_id == "t"]
    assert len(kept.raw_content) < 30_000
    await _left_by(scene)


@pytest.mark.req("P34")
async def test_a_line_that_is_too_long_is_one_clean_error(scenes: Scenes) -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "cat"}
    prompts = {"big": [["padded", tool, "rawOutput", transport.MAX_LINE + 1], ["until cancelled"]]}
    scene = await scenes(prompts=prompts).start()
    assert await scene.say("big") == failed(phrases.ACP_TOO_LONG)
    assert await scene.say("and now") == "You said: and now"
    assert (await scene.rig.session()).status is Status.ACTIVE
    await _left_by(scene)


@pytest.mark.req("S002-51")
async def test_20000_updates_come_in_order(scenes: Scenes) -> None:
    scene = await scenes(prompt=[["flood", 20_000]]).start()
    await scene.say("hi")
    [answer] = [text for role, text in await scene.rig.said() if role == "agent"]
    assert answer == "".join(f"{number} " for number in range(20_000))


#: The stage → the script, the words, and whether the session can go on.
CRASHES: dict[str, tuple[Script, str, Status]] = {
    "at its start": ({"start": [["stderr", "boom"], ["exit", 1]]}, NOT_STARTED, Status.ACTIVE),
    "when it is greeted": ({"initialize": [["exit", 0]]}, NOT_STARTED, Status.ACTIVE),
    "when it makes a session": ({"session/new": [["exit", 3]]}, NOT_STARTED, Status.ACTIVE),
    "when it is asked": ({"prompt": [["stderr", "boom"], ["exit", 3]]}, BROKE, Status.ERROR),
    "without an error": ({"prompt": [["exit", 0]]}, BROKE, Status.ERROR),
    "in the middle of an answer": ({"prompt": [["say", "I think"], ["kill", 9]]}, BROKE, Status.ERROR),
    "in the middle of a line": ({"prompt": [["bytes", "7b22"], ["exit", 3]]}, BROKE, Status.ERROR),
    "by closing its output": ({"prompt": [["close", 1], ["hang"]]}, BROKE, Status.ERROR),
    "with an error for a session": (
        {"session/new": [["error", -32603, "no"]]},
        failed(phrases.ACP_ERROR.format(name=NAME)),
        Status.ACTIVE,
    ),
    "because nobody has logged in": (
        {"session/new": [["error", -32000, "log in"]]},
        failed(phrases.ACP_LOGIN.format(name=NAME)),
        Status.ACTIVE,
    ),
    "with an error for an answer": (
        {"prompt": [["error", 400, "the model is gone"]]},
        failed(phrases.ACP_ERROR.format(name=NAME)),
        Status.ACTIVE,
    ),
    "by refusing": (
        {"prompt": [["answer", {"stopReason": "refusal"}]]},
        failed(phrases.ACP_REFUSED),
        Status.ACTIVE,
    ),
    "by saying nothing": ({"prompt": [END]}, failed(phrases.EMPTY_ANSWER), Status.ACTIVE),
    "by speaking another version": (
        {"initialize": [["answer", {"protocolVersion": 2}]]},
        failed(phrases.ACP_VERSION.format(name=NAME, version=2)),
        Status.ACTIVE,
    ),
}


@pytest.mark.req("S002-42", "S002-43", "S002-45", "S002-50", "S002-66", "S002-67", "S002-68", "P32")
@pytest.mark.parametrize("stage", CRASHES)
async def test_a_failure_is_told(scenes: Scenes, stage: str) -> None:
    script, words, status = CRASHES[stage]
    scene = await scenes(**script).start()
    assert await scene.say("hi") == words
    await eventually(lambda: scene.pool.count == len(scene.processes))
    assert (await scene.rig.session()).status is status
    if status is Status.ERROR:
        assert scene.pool.children == {}
        assert scene.rig.journal.of(Event.AGENT_CRASHED)
    await _left_by(scene)


@pytest.mark.req("S002-44", "S002-69")
async def test_what_a_crashed_agent_complained_about_is_kept(scenes: Scenes) -> None:
    scene = await scenes(prompt=[["stderr", "boom, and my key is sk-verysecret"], ["exit", 3]]).start()
    await scene.say("hi")
    told = await scene.told()
    assert told[-1].startswith(phrases.NOTE_AGENT_BROKE.format(how="exit code 3"))
    assert "boom" in told[-1]
    [crash] = scene.rig.journal.of(Event.AGENT_CRASHED)
    assert (crash["ending"], "boom" in crash["stderr"]) == ("exit code 3", True)


@pytest.mark.req("P32")
async def test_an_agent_that_never_greets_is_ended_in_time(scenes: Scenes) -> None:
    scene = await scenes({"start_timeout": 0.5}, initialize=[["stderr", "waiting for a terminal"], ["hang"]]).start()
    assert await scene.say("hi") == failed(phrases.ACP_SLOW.format(name=NAME, seconds=0.5))
    [turn] = scene.rig.journal.of(Event.TURN_FAILED)
    assert "waiting for a terminal" in turn["detail"]
    await scene.gone()


@pytest.mark.req("S002-66", "S002-68", "S002-69")
async def test_an_agent_that_reads_nothing_is_ended(scenes: Scenes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "SEND_SECONDS", 0.5)
    scene = await scenes(prompts={"first": [["deaf"], ["say", "ok"]]}).start()
    assert await scene.say("first") == "ok"
    # It was waiting for one more line; the one after it does not fit into the pipe.
    assert await scene.say("second") == "You said: second"
    assert await scene.say("x" * 2_000_000) == BROKE
    assert (await scene.rig.session()).status is Status.ERROR
    [crash] = scene.rig.journal.of(Event.AGENT_CRASHED)
    assert "writing" in crash["reason"]
    await scene.gone()


@pytest.mark.req("S002-06", "S002-07")
async def test_a_program_that_is_not_installed_is_named(scenes: Scenes) -> None:
    scene = scenes({"command": ["/no/such/agent"]})
    await scene.start()
    assert await scene.say("hi") == failed(phrases.ACP_NOT_INSTALLED.format(name=NAME))
    [line] = scene.rig.journal.of(Event.AGENT_NOT_INSTALLED)
    assert line["path"] == "/no/such/agent"
    assert scene.pool.count == 0


async def _left_by(scene: Scene) -> None:
    """Stop the daemon, and look for what is left."""
    await scene.stop()
    await scene.gone()
