"""What counts as how long, how wide, how visible; and where a text may be cut."""

from __future__ import annotations

import re
import unicodedata

#: Drawn as nothing although Unicode does not call them spaces, controls or formats.
HOLLOW = "\u115f\u1160\u2800\u3164\uffa0\ufffc\u034f\u17b4\u17b5"
JOINER = "\u200d"
#: Steps back in search of a whole character. Longer ones are not for reading.
PATIENCE = 64
SENTENCE_END = re.compile(r"[.!?…][\"')\]»”’]*(?=\s)|[。！？]")
SPACE = re.compile(r"\s")
#: An address in running text. It ends before what is rather markup or punctuation of the sentence.
URL = re.compile(
    r"https?://(?:[^\s<>\[\]()`|*\\]|\([^\s<>\[\]()`|*\\]*\))*[^\s<>\[\]()`|*\\.,;:!?'\"_~]", re.IGNORECASE
)


def utf16_length(text: str) -> int:
    """The length in UTF-16 units, in which Telegram counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing. Platforms refuse such messages."""
    return all(is_invisible(char) for char in text)


def is_invisible(char: str) -> bool:
    if char.isascii():
        return char <= " " or char == "\x7f"
    return unicodedata.category(char) in INVISIBLE or char in HOLLOW or "\ufe00" <= char <= "\ufe0f"


INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf", "Cs"})


def display_width(text: str) -> int:
    """The width in columns of a terminal: East Asian characters and emoji take two."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def best_cut(text: str, room: int) -> int:
    """Where to cut a text so that the first piece has at most `room` characters, and at least one.

    A line's end is better than a sentence's, a sentence's better than a word's, if the piece is at least half full.
    """
    if len(text) <= room:
        return len(text)
    window = text[: room + 1]
    half = room // 2
    if (line := window.rfind("\n")) > half:
        return line
    sentence = max((match.end() for match in SENTENCE_END.finditer(window, half)), default=0)
    if half < sentence <= room:
        return sentence
    spaces = [match.start() for match in SPACE.finditer(window, room // 4)]
    if spaces and spaces[-1] > 0:
        return spaces[-1]
    return whole_characters(text, max(room, 1))


def whole_characters(text: str, index: int) -> int:
    """The nearest place at or before `index` that is not inside a character as readers see it; else `index`."""
    for place in range(index, max(0, index - PATIENCE), -1):
        if not _sticks(text, place):
            return place
    return index


def _sticks(text: str, place: int) -> bool:
    """Whether the character at `place` belongs to the one before."""
    if place >= len(text):
        return False
    char, before = text[place], text[place - 1]
    if char.isascii():
        return False
    if char == JOINER or before == JOINER or unicodedata.category(char) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f":
        return True
    if "\u1160" <= char <= "\u11ff":
        return "\u1100" <= before <= "\u11ff"
    return _is_flag_half(char) and _flag_halves_before(text, place) % 2 == 1


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_halves_before(text: str, place: int) -> int:
    start = place
    while start > max(0, place - PATIENCE) and _is_flag_half(text[start - 1]):
        start -= 1
    return place - start
