"""A count of tokens for what no provider counted; used to fill a context, never shown as a provider's.

Tokenizers cut text into pieces of words, and how long a piece is depends on the script. So the bytes of a text are
sorted into classes and each class has a weight, which costs a few microseconds for a page. The weights were set
by hand after a fit to the counts of o200k_base on other texts (message catalogues in many languages, library code,
made-up JSON). `tests/gateway/test_tokens.py` holds the bound, on one short text of each kind that was not used for it.
"""

from __future__ import annotations

from store.records import Message

#: A message costs a little beyond its words.
_PER_MESSAGE = 4

#: Bytes that count, and tokens for each. In UTF-8 the first byte of a character tells its script; others count nothing.
_WEIGHTS = (
    (bytes(range(ord("a"), ord("z") + 1)), 0.225),
    (bytes(range(ord("A"), ord("Z") + 1)), 0.33),
    (b" ", 0.03),
    (b"\n\r\t", 0.5),
    (b"0123456789", 0.45),
    (bytes(code for code in range(0x21, 0x7F) if not chr(code).isalnum()), 0.5),
    # Latin letters with marks; Greek, Cyrillic, Hebrew, Arabic; Indic, Thai and symbols.
    (bytes(range(0xC2, 0xCE)), 0.6),
    (bytes(range(0xCE, 0xE0)), 0.36),
    (bytes(range(0xE0, 0xE3)), 0.45),
    # Kana and the marks of Chinese and Japanese; Han; Hangul; wide forms; emoji.
    (b"\xe3", 0.75),
    (bytes(range(0xE4, 0xEA)), 0.82),
    (bytes(range(0xEA, 0xEE)), 0.8),
    (b"\xee\xef", 1.0),
    (bytes(range(0xF0, 0xF5)), 1.8),
)

#: However a model differs, its tokens are not longer or shorter than these times ours.
SCALES = (0.5, 2.0)


def estimate(text: str) -> int:
    """About how many tokens; at least one."""
    data = text.encode(errors="replace")
    size = len(data)
    return int(sum((size - len(data.translate(None, kind))) * weight for kind, weight in _WEIGHTS)) + 1


def of_message(message: Message) -> int:
    """By its stored form, so that counting a history does not decode it."""
    count = message.token_count
    return (estimate(message.raw_content) if count is None else count) + _PER_MESSAGE


def scaled(count: int, ratio: float) -> int:
    """An estimate as a model's own reports say that it has to be corrected."""
    low, high = SCALES
    return max(round(count * min(max(ratio, low), high)), 1)
