"""Permissions: decided by the configuration, or by a person through the turn; never for paths outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from gateway import phrases
from gateway.agents.acp.permissions import Mode, Verdict, inside, judge
from gateway.agents.protocol import Diff, Event, Permission, TextDelta, ToolStatus, ToolUpdate, TurnContext
from store.content import Text, encode
from store.records import Message, Role
from tests.agents.acp.conftest import Scenes
from tests.fakes.acp.scene import Scene, eventually


def call(kind: str = "execute", **more: Any) -> dict[str, Any]:
    return {"toolCallId": "t1", "title": "rm -rf build", "kind": kind, "status": "pending", **more}


def decided(option: str | None) -> str:
    outcome = {"outcome": "cancelled"} if option is None else {"optionId": option, "outcome": "selected"}
    return f"decided: {json.dumps({'outcome': outcome}, sort_keys=True)}"


@pytest.mark.parametrize(
    ("mode", "kind", "chosen"),
    [
        ("allow", "execute", "yes"),
        ("deny", "read", "no"),
        ("allow-reads", "read", "yes"),
        ("allow-reads", "search", "yes"),
        # Nobody answers in time, and that is no permission.
        ("allow-reads", "execute", "no"),
        ("ask", "read", "no"),
    ],
)
async def test_the_configuration_decides(scenes: Scenes, mode: str, kind: str, chosen: str) -> None:
    scene = await scenes({"permissions": mode, "permission_timeout": 0.1}, prompt=[["ask", call(kind)]]).start()
    await scene.rig.say("go")
    await eventually(lambda: decided(chosen) in scene.answers())


@pytest.mark.parametrize("mode", ["ask", "allow", "allow-reads"])
async def test_nothing_outside_the_repository_is_allowed(scenes: Scenes, mode: str) -> None:
    asked = call("read", locations=[{"path": "/etc/passwd"}])
    scene = await scenes({"permissions": mode}, prompt=[["ask", asked]]).start()
    assert await scene.say("go") == decided("no")
    assert phrases.ACP_OUTSIDE.format(tool="rm -rf build") in await scene.told()


async def test_meta_does_not_pose_as_an_argument(scenes: Scenes) -> None:
    """The SDK would let it replace what is asked."""
    harmless = {"toolCallId": "t1", "title": "ls", "kind": "read"}
    meta = {"tool_call": harmless, "session_id": "HIJACKED", "options": []}
    table = {"permissions": "allow-reads", "permission_timeout": 0.1}
    scene = await scenes(table, prompt=[["ask", call("execute", _meta=meta)]]).start()
    assert "rm -rf build" in await scene.say("go"), "it is asked about what the agent does"
    await eventually(lambda: decided("no") in scene.answers())


async def test_a_rejected_turn_without_a_word_says_so(scenes: Scenes) -> None:
    request = {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "session/request_permission",
        "params": {
            "sessionId": "x",
            "toolCall": call(),
            "options": [{"optionId": "no", "name": "No", "kind": "reject_once"}],
        },
    }
    prompt = [["raw", json.dumps(request)], ["sleep", 0.2]]
    scene = await scenes({"permissions": "deny"}, prompt=prompt).start()
    why = phrases.ACP_REJECTED
    assert await scene.say("go") == phrases.FAILED.format(why=why[:1].upper() + why[1:])


async def test_a_request_that_is_not_well_formed_is_refused(scenes: Scenes) -> None:
    request = {"jsonrpc": "2.0", "id": "a", "method": "session/request_permission", "params": {"options": 7}}
    scene = await scenes(prompt=[["raw", json.dumps(request)], ["sleep", 0.2], ["say", "ok"]]).start()
    assert await scene.say("go") == "ok"
    [answer] = [line for line in scene.sent() if line.get("id") == "a"]
    assert answer["error"]["code"] == -32602


# A turn of the test's own, which decides like a person would.


async def _events(scene: Scene) -> AsyncGenerator[Event, None]:
    session = await scene.rig.session()
    turn = TurnContext(
        agent="main", session_id=session.public_id, turn=2, summary=None, history=(), instruction=(_message(),)
    )
    async with aclosing(scene.agent.run(turn)) as events:
        async for event in events:
            yield event


def _message() -> Message:
    return Message(1, "m", None, Role.USER, encode(Text("go")), None, None, None, "{}", 0, 0)


@pytest.mark.parametrize(
    ("answer", "chosen", "status"),
    [("yes", "yes", ToolStatus.PENDING), ("no", "no", ToolStatus.REJECTED), (None, "no", ToolStatus.REJECTED)],
)
async def test_a_person_decides_and_the_clock_stands_still_meanwhile(
    scenes: Scenes, answer: str | None, chosen: str, status: ToolStatus
) -> None:
    scene = await scenes({"silence_timeout": 0.2}, prompts={"go": [["ask", call()]]}).start()
    await scene.say("hello")
    seen: list[Event] = []
    async with aclosing(_events(scene)) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, Permission):
                assert [option.id for option in event.options] == ["yes", "no"]
                assert event.call.tool == "rm -rf build"
                await asyncio.sleep(0.5)  # longer than the silence that is told
                event.answer.set_result(answer)
    assert decided(chosen) in [event.text for event in seen if isinstance(event, TextDelta)]
    updates = [event for event in seen if isinstance(event, ToolUpdate)]
    assert updates[0].status is ToolStatus.PENDING
    assert status in {one.status for one in updates}
    assert not [event for event in seen if getattr(event, "text", "") == phrases.ACP_SILENT.format(seconds=0.2)]


async def test_what_is_open_is_answered_as_cancelled_when_the_run_is_broken_off(scenes: Scenes) -> None:
    scene = await scenes(prompts={"go": [["ask", call()], ["until cancelled"]]}).start()
    await scene.say("hello")
    async with aclosing(_events(scene)) as events:
        async for event in events:
            if isinstance(event, Permission):
                question = event
                break
    assert question.answer.cancelled()
    await eventually(lambda: [line for line in scene.sent() if line.get("id") == "ask-1"])
    [told] = [line for line in scene.sent() if line.get("id") == "ask-1"]
    assert told["result"] == {"outcome": {"outcome": "cancelled"}}
    assert await scene.say("next") == "You said: next"


# The pure part.


@pytest.mark.req("S000-39")
def test_paths_are_followed_before_they_are_judged(tmp_path: Path) -> None:
    repo = (tmp_path / "repo").resolve()
    repo.mkdir()
    (tmp_path / "repo-evil").mkdir()
    (repo / "link").symlink_to(tmp_path)
    (repo / "in").symlink_to(repo)
    outside = ["../x", "/etc/passwd", "link/x", "a/../../x", str(tmp_path / "repo-evil" / "x"), "x\0y"]
    within = ["x", "a/b", "./x", "a/../x", str(repo / "new"), "in/x", "~/x"]
    assert [inside(repo, path) for path in outside] == [False] * len(outside)
    assert [inside(repo, path) for path in within] == [True] * len(within)


@pytest.mark.parametrize(
    "update",
    [
        ToolUpdate("1", "t", args={"kind": "read", "locations": ["/etc/x"]}),
        ToolUpdate("1", "t", args={"kind": "read", "input": {"file_path": "../x"}}),
        ToolUpdate("1", "t", args={"kind": "edit"}, diffs=(Diff("/etc/x", None, "new"),)),
    ],
)
def test_a_path_is_found_wherever_it_stands(update: ToolUpdate, tmp_path: Path) -> None:
    assert judge(Mode.ALLOW, update, tmp_path) is Verdict.OUTSIDE
    assert judge(Mode.DENY, update, tmp_path) is Verdict.REJECT
