"""What a run is doing, in one line; and what there is to say of one that said nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway import phrases
from gateway.agents.protocol import Diff, PlanUpdate, ToolStatus, ToolUpdate
from gateway.questions.wording import code
from store.content import Json

_NAME = 60
#: Nothing more comes of a call in one of these.
_ENDED = frozenset({ToolStatus.COMPLETED, ToolStatus.FAILED, ToolStatus.REJECTED, ToolStatus.CANCELLED})
#: What a call in one of these wanted to change was not changed, or not surely.
_UNDONE = frozenset({ToolStatus.FAILED, ToolStatus.REJECTED, ToolStatus.CANCELLED})


class Progress:
    def __init__(self) -> None:
        self._calls: dict[str, ToolUpdate] = {}
        self._steps: Sequence[dict[str, Json]] = ()
        #: People are asked for something.
        self.waiting = False

    @property
    def line(self) -> str:
        """Empty if there is nothing to tell."""
        if self.waiting:
            return phrases.WAITING_FOR_PERMISSION
        parts = [self._plan(), self._tools()]
        return " ".join(part for part in parts if part)

    @property
    def busy(self) -> bool:
        """Something is under way that is worth a line beside a text that grows."""
        return self.waiting or any(call.status not in _ENDED for call in self._calls.values())

    @property
    def diffs(self) -> tuple[Diff, ...]:
        """What was changed, in the order of the calls."""
        done = (call for call in self._calls.values() if call.status not in _UNDONE)
        return tuple(diff for call in done for diff in call.diffs)

    @property
    def in_words(self) -> str | None:
        """Instead of an answer; None if there is nothing to tell."""
        statuses = [call.status for call in self._calls.values()]
        if not statuses:
            return None
        if rejected := sum(status is ToolStatus.REJECTED for status in statuses):
            return phrases.ONLY_REJECTED if rejected == 1 else phrases.ONLY_REJECTED_SEVERAL.format(count=rejected)
        failed = sum(status is ToolStatus.FAILED for status in statuses)
        return phrases.ONLY_TOOLS.format(count=len(statuses), failed=failed)

    def planned(self, update: PlanUpdate) -> None:
        self._steps = update.steps

    def called(self, update: ToolUpdate) -> bool:
        """Take the state of a call; false if it only goes on."""
        before = self._calls.get(update.call_id)
        if before is not None and before.status is ToolStatus.REJECTED:
            # What agents make of it afterwards, a failure mostly, says less.
            update = replace(update, status=ToolStatus.REJECTED)
        self._calls[update.call_id] = update
        return before is None or update.status in _ENDED

    def known(self, call_id: str) -> bool:
        return call_id in self._calls

    def call(self, call_id: str) -> ToolUpdate:
        return self._calls[call_id]

    def _plan(self) -> str:
        if not self._steps:
            return ""
        done = sum(step.get("status") == "completed" for step in self._steps)
        return phrases.PLAN_LINE.format(done=done, count=len(self._steps))

    def _tools(self) -> str:
        if not self._calls:
            return ""
        running = [call for call in self._calls.values() if call.status not in _ENDED]
        done = len(self._calls) - len(running)
        if not running:
            return phrases.TOOLS_LINE.format(done=done)
        return phrases.TOOL_LINE.format(tool=code(running[-1].tool, _NAME), done=done)
