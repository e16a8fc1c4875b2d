"""One row of the outbox as the messages that carry it: cut at the channel's limit, a file where it is very long."""

from __future__ import annotations

from dataclasses import replace

from channels.base import Asks, Button, Channel, Outgoing, Splits
from gateway import phrases
from store.records import Delivery as Row

#: A text of more messages than this goes out as its beginning and a file.
_MOST = 5
_FILE = "answer.md"
#: Characters that surely need more messages than that.
_LONGEST = 30_000
#: Characters that surely fill the first message.
_ENOUGH = 16_000


def parts(channel: Channel, row: Row) -> list[Outgoing]:
    """The same every time, so that what was sent of a row before a crash is known by its number."""
    if row.filename is not None:
        return [_outgoing(row, 0, row.text, row.filename)]
    if len(row.text) > _LONGEST and len(split(channel, row.text[:_ENOUGH])) > 1:
        return _as_file(channel, row)
    texts = split(channel, row.text)
    if len(texts) > _MOST:
        return _as_file(channel, row)
    return [_outgoing(row, number, text) for number, text in enumerate(texts)]


def _as_file(channel: Channel, row: Row) -> list[Outgoing]:
    with_note = with_words(channel, beginning(channel, row.text), phrases.REST_IN_FILE)
    return [_outgoing(row, 0, with_note), _outgoing(row, 1, row.text, _FILE)]


def split(channel: Channel | None, text: str) -> list[str]:
    return (channel.split(text) if isinstance(channel, Splits) else []) or [text]


def beginning(channel: Channel | None, text: str) -> str:
    """The first message of a text, without a look at all of it: cutting a book into messages takes seconds."""
    start = split(channel, text[:_ENOUGH])
    return start[0] if len(start) > 1 else split(channel, text)[0]


def with_words(channel: Channel, text: str, words: str) -> str:
    """A text and more words after it, if there is room for them in the same message."""
    longer = f"{text}\n\n{words}"
    return longer if len(split(channel, longer)) == 1 else text


def preview(row: Row, text: str) -> Outgoing:
    """The first message of a row while its text still grows."""
    return _outgoing(row, 0, text)


def asked(channel: Channel, row: Row, buttons: tuple[Button, ...]) -> list[Outgoing]:
    """A question: one message, with its buttons where there are such things."""
    outgoing = _outgoing(row, 0, beginning(channel, row.text))
    if isinstance(channel, Asks):
        fitting = tuple(replace(one, label=one.label[: channel.longest_label]) for one in buttons)
        outgoing = replace(outgoing, buttons=fitting)
    return [outgoing]


def _outgoing(row: Row, number: int, text: str, filename: str | None = None) -> Outgoing:
    # With its time, because another database counts its rows from one again. Platforms take 25 characters.
    nonce = f"{row.id:x}-{row.created_at:x}-{number}"
    return Outgoing(nonce=nonce, address=row.address, text=text, filename=filename)
