"""A rough count of tokens for what no provider counted; used to fill a context, never shown as a fact."""

from __future__ import annotations

from store.content import Plan, Text, Tool, encode
from store.records import Message

#: A message costs a little beyond its words.
_PER_MESSAGE = 4


def estimate(text: str) -> int:
    """About four bytes a token, which errs on the high side for most languages and code."""
    return len(text.encode(errors="replace")) // 4 + 1


def of_message(message: Message) -> int:
    if message.token_count is not None:
        return message.token_count + _PER_MESSAGE
    match message.content:
        case Text(text):
            return estimate(text) + _PER_MESSAGE
        case Plan() | Tool():
            return estimate(encode(message.content)) + _PER_MESSAGE
