"""What the chat shows of a run: its tools in one line, its changes as a file, its thoughts if wanted, never nothing."""

from __future__ import annotations

import asyncio

import pytest

from gateway import changes, phrases
from gateway.agents.protocol import (
    Diff,
    Done,
    Notice,
    PlanUpdate,
    TextDelta,
    Thought,
    ToolStatus,
    ToolUpdate,
)
from store.content import Plan, Tool
from store.records import Role, TurnStatus
from tests.fakes.agents import AskingAgent, ScriptedAgent, Step, says
from tests.fakes.harness import Rig, Rigs

STREAMING = {"main": {"streaming": True}}


def tool(name: str, status: ToolStatus = ToolStatus.COMPLETED, call: str | None = None, **how: object) -> ToolUpdate:
    return ToolUpdate(call or name, name, status=status, **how)  # type: ignore[arg-type]


async def running(rigs: Rigs, *steps: Step, **how: object) -> tuple[Rig, asyncio.Event]:
    """A run that stands still after these steps, until the event is set."""
    go_on = asyncio.Event()
    rig = await rigs(ScriptedAgent([*steps, go_on, *says("At the end.")]), memory=STREAMING, **how).start()
    await rig.ask("go")
    await rig.advance(2)
    return rig, go_on


# -- while it runs -----------------------------------------------------------------------------------------------------


async def test_tools_are_one_line_that_changes_and_is_gone_at_the_end(rigs: Rigs) -> None:
    rig, go_on = await running(rigs, TextDelta("Let me see."), tool("list"), tool("read", ToolStatus.IN_PROGRESS))
    line = phrases.TOOL_LINE.format(tool="`read`", done=1)
    assert rig.chat.texts() == [f"Let me see.\n\n{line}"]
    go_on.set()
    await rig.advance(2)
    assert rig.chat.texts() == ["Let me see.\n\nAt the end."]
    assert [text for role, text in await rig.said() if role == Role.AGENT] == ["Let me see.", "At the end."]


async def test_a_plan_is_counted(rigs: Rigs) -> None:
    steps = ({"content": "a", "status": "completed"}, {"content": "b", "status": "pending"})
    rig, _ = await running(rigs, PlanUpdate(steps))
    assert rig.chat.texts() == [phrases.PLAN_LINE.format(done=1, count=2)]


async def test_what_a_tool_is_called_cannot_be_markup(rigs: Rigs) -> None:
    rig, _ = await running(rigs, tool("`x` **@all**\n# now " + "y" * 500, ToolStatus.PENDING))
    [shown] = rig.chat.texts()
    assert "\n" not in shown
    assert shown.startswith("⚙ `` `x` **@all** # now yyy")
    assert len(shown) < 100


async def test_a_notice_is_a_message_at_once_and_stays_in_the_history(rigs: Rigs) -> None:
    rig, go_on = await running(rigs, TextDelta("So"), lambda: asyncio.sleep(0), Notice("It was started anew."))
    assert "It was started anew." in rig.chat.texts()
    go_on.set()
    await rig.advance(2)
    assert rig.chat.texts()[-1].endswith("At the end.")
    assert ("system", "It was started anew.") in await rig.said()


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("S002-33", "S002-34")
async def test_a_plan_is_one_row_with_the_newest_steps(rigs: Rigs) -> None:
    first = ({"content": "a", "status": "pending"},)
    second = ({"content": "a", "status": "completed"}, {"content": "b"})
    rig = await rigs(ScriptedAgent([PlanUpdate(first), PlanUpdate(second), *says("done")])).start()
    await rig.ask("go")
    [row] = [row for row in await rig.history() if isinstance(row.content, Plan)]
    assert (row.role, row.content) == (Role.SYSTEM, Plan(second))


@pytest.mark.req("S002-35", "S002-36")
async def test_a_call_is_one_row_that_is_completed(rigs: Rigs) -> None:
    states: list[Step] = [
        tool("read", ToolStatus.PENDING, args={"path": "x"}),
        tool("read", ToolStatus.IN_PROGRESS, args={"path": "x"}),
        tool("read", ToolStatus.COMPLETED, args={"path": "x"}, result={"text": "42"}),
    ]
    rig, go_on = await running(rigs, *states[:2])
    [row] = [row for row in await rig.history() if isinstance(row.content, Tool)]
    assert row.content == Tool("read", {"path": "x"}, {"status": "in_progress"})
    rig = await rigs(ScriptedAgent([*states, *says("done")])).start()
    await rig.ask("go")
    [row] = [row for row in await rig.history() if isinstance(row.content, Tool)]
    assert (row.role, row.content) == (Role.SYSTEM, Tool("read", {"path": "x"}, {"text": "42"}))
    go_on.set()


async def test_a_call_under_way_is_cancelled_with_its_turn(rigs: Rigs) -> None:
    rig, _ = await running(rigs, tool("read"), tool("make", ToolStatus.IN_PROGRESS, args={"what": "all"}))
    await rig.ask("/stop")
    calls = [row.content for row in await rig.history() if isinstance(row.content, Tool)]
    assert calls == [Tool("read", {}, {}), Tool("make", {"what": "all"}, {"status": "cancelled"})]


@pytest.mark.req("S002-30", "S002-31", "P37")
async def test_text_is_not_cut_by_the_progress_of_a_tool(rigs: Rigs) -> None:
    busy = tool("make", ToolStatus.IN_PROGRESS)
    script = [busy, TextDelta("one wo"), busy, TextDelta("rd"), tool("make"), *says("after")]
    rig = await rigs(ScriptedAgent(script)).start()
    await rig.ask("go")
    assert [text for role, text in await rig.said() if role == Role.AGENT] == ["one word", "after"]
    assert rig.chat.texts() == ["one word\n\nafter"]


# -- never nothing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([tool("rm", ToolStatus.REJECTED)], phrases.ONLY_REJECTED),
        ([tool(name, ToolStatus.REJECTED) for name in "ab"], phrases.ONLY_REJECTED_SEVERAL.format(count=2)),
        ([tool("a"), tool("b", ToolStatus.FAILED)], phrases.ONLY_TOOLS.format(count=2, failed=1)),
        ([TextDelta(" \n"), tool("a")], phrases.ONLY_TOOLS.format(count=1, failed=0)),
    ],
)
async def test_a_run_that_says_nothing_ends_with_a_sentence(rigs: Rigs, script: list[Step], said: str) -> None:
    rig = await rigs(ScriptedAgent([*script, Done()])).start()
    await rig.ask("go")
    assert rig.chat.texts() == [said]
    [turn] = await rig.turns()
    assert (turn.status, turn.answer_summary) == (TurnStatus.COMPLETED, said)
    assert (await rig.said())[-1] == ("system", said)


async def test_a_rejection_by_time_is_told_too(rigs: Rigs) -> None:
    class Silent(AskingAgent):
        async def run(self, turn):  # type: ignore[no-untyped-def]
            async for event in super().run(turn):
                if not isinstance(event, TextDelta):
                    yield event

    rig = await rigs(Silent(), memory={"main": {"allow": ["1"]}}).start()
    await rig.ask("go")
    await rig.advance(600)
    assert rig.chat.texts()[-1] == phrases.ONLY_REJECTED


# -- on request --------------------------------------------------------------------------------------------------------


async def test_tools_of_the_last_request(rigs: Rigs) -> None:
    calls = [
        tool("read", args={"path": "x" * 500}),
        tool("run", ToolStatus.REJECTED),
        tool("write", ToolStatus.FAILED),
    ]
    rig = await rigs(ScriptedAgent([*calls, *says("done")], says("nothing done"))).start()
    await rig.ask("/tools")
    await rig.ask("go")
    await rig.ask("/tools")
    none, _, told = rig.chat.texts()
    assert none == phrases.NO_TOOLS
    head, read, run, write = told.splitlines()
    assert head == phrases.TOOLS.format(count=3)
    assert read.startswith('✓ `read` `{"path":"xxx')
    assert len(read) < 160
    assert (run, write) == ("⊘ `run` (rejected)", "✗ `write` (failed)")
    await rig.ask("again")
    await rig.ask("/tools")
    assert rig.chat.texts()[-1] == phrases.NO_TOOLS


async def test_thoughts_are_shown_only_where_they_are_wanted(rigs: Rigs) -> None:
    thinking = [Thought("first this,\n"), Thought("then that"), *says("so it is")]
    rig = await rigs(ScriptedAgent(thinking)).start()
    await rig.ask("go")
    await rig.ask("/thoughts on")
    await rig.ask("go")
    await rig.ask("/thoughts off")
    await rig.ask("/thoughts perhaps")
    await rig.ask("go")
    shown = [(one.filename, one.text) for one in rig.chat.shown]
    assert shown == [
        (None, "so it is"),
        (None, phrases.THOUGHTS_ON),
        (None, "so it is"),
        ("thoughts-2.md", "first this,\nthen that"),
        (None, phrases.THOUGHTS_OFF),
        (None, phrases.THOUGHTS_HOW),
        (None, "so it is"),
    ]
    assert not any("then that" in text for _, text in await rig.said())


async def test_thoughts_while_they_come(rigs: Rigs) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Thought("hm\nwell"), tool("read", ToolStatus.PENDING), go_on, *says("so")]
    rig = await rigs(ScriptedAgent(script), memory=STREAMING).start()
    await rig.ask("/thoughts on")
    await rig.ask("go")
    await rig.advance(3)
    assert rig.chat.texts()[1] == "> hm\n> well\n\n" + phrases.TOOL_LINE.format(tool="`read`", done=0)
    go_on.set()
    await rig.advance(3)
    assert rig.chat.texts()[1] == "so"


# -- changes -----------------------------------------------------------------------------------------------------------


async def test_changes_come_as_one_file_after_the_answer(rigs: Rigs) -> None:
    edit, new, not_done = Diff("a.py", "one\ntwo\n", "one\n2\n"), Diff("b.py", None, "new"), Diff("c.py", "x", "y")
    script = [
        tool("edit", diffs=(edit,)),
        tool("create", diffs=(new,)),
        tool("no", ToolStatus.REJECTED, diffs=(not_done,)),
        *says("changed"),
    ]
    rig = await rigs(ScriptedAgent(script)).start()
    await rig.ask("go")
    answer, file = rig.chat.shown
    assert (answer.text, file.filename) == ("changed", "changes-1.diff")
    assert file.text == (
        "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        "--- /dev/null\n+++ b.py\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n"
    )


def test_too_much_is_left_out() -> None:
    large = Diff("big", "x\n" * 200_000, "y\n" * 200_000)
    assert changes.unified([large]) == f"--- big\n+++ big\n{phrases.CHANGE_TOO_LARGE}\n"
    many = [Diff(f"f{number}", None, f"{number}\n" * 30_000) for number in range(20)]
    text = changes.unified(many)
    assert len(text) < 510_000
    assert text.endswith(" more files were changed; they are left out here.\n")
