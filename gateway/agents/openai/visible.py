"""What of a model's text is for people: without thoughts and control tokens that a server left in it."""

from __future__ import annotations

import re

#: How thoughts begin and end. They count as thoughts only where an answer begins: later it is a text about them.
_THOUGHTS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
    "<|start|>assistant<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}

#: Marks of chat templates; a person never wants to see one.
_CONTROL = (
    "<|im_start|>assistant",
    "<|start|>assistant",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|assistant|>",
    "<|channel|>final<|message|>",
    "<end_of_turn>",
    "<start_of_turn>",
)
_LONGEST = max(map(len, _CONTROL))
_PATTERN = re.compile("|".join(map(re.escape, _CONTROL)))


class Visible:
    """Takes text as it comes, in pieces cut anywhere, and gives back what may be shown. Nothing else is changed."""

    def __init__(self) -> None:
        self._held = ""
        #: What ends the thoughts that are going on.
        self._until: str | None = None
        self._begun = False
        self._thought = False

    def feed(self, piece: str) -> str:
        self._held += piece
        while not self._begun:
            if self._until is None and not self._opened():
                return ""
            if self._until is not None and not self._closed():
                return ""
        return self._clean()

    def rest(self) -> str:
        """What was held back in case that more of a mark came."""
        rest = "" if self._until is not None else _PATTERN.sub("", self._held)
        self._held = ""
        return rest

    def _opened(self) -> bool:
        """Whether it is known how the answer begins."""
        start = self._held.lstrip()
        if not start or any(mark != start and mark.startswith(start) for mark in _THOUGHTS):
            return False
        mark = next((mark for mark in _THOUGHTS if start.startswith(mark)), None)
        if mark is None:
            # The space between thoughts and the answer belongs to neither.
            self._held = start if self._thought else self._held
            self._begun = True
        else:
            self._held, self._until, self._thought = start[len(mark) :], _THOUGHTS[mark], True
        return True

    def _closed(self) -> bool:
        """Whether the thoughts are over; of what came, only what may be half a mark is kept."""
        mark = self._until or ""
        _, found, after = self._held.partition(mark)
        if not found:
            self._held = self._held[-(len(mark) - 1) :]
            return False
        self._held, self._until = after, None
        return True

    def _clean(self) -> str:
        ready = len(self._held) - _half(self._held)
        text, self._held = self._held[:ready], self._held[ready:]
        return _PATTERN.sub("", text)


def _half(text: str) -> int:
    """How many characters at the end may be the beginning of a mark, or of a longer one."""
    at = text.find("<", max(0, len(text) - _LONGEST))
    while at >= 0:
        tail = text[at:]
        if any(mark != tail and mark.startswith(tail) for mark in _CONTROL):
            return len(tail)
        at = text.find("<", at + 1)
    return 0
