"""A rough count of tokens for what no provider counted; used to fill a context, never shown as a fact."""

from __future__ import annotations

from store.records import Message

#: A message costs a little beyond its words.
_PER_MESSAGE = 4


def estimate(text: str) -> int:
    """About four bytes a token, which errs on the high side for most languages and code."""
    return len(text.encode(errors="replace")) // 4 + 1


def of_message(message: Message) -> int:
    """By its stored form, so that counting a history does not decode it."""
    count = message.token_count
    return (estimate(message.raw_content) if count is None else count) + _PER_MESSAGE
