"""`||hidden||`: a rule for markdown-it, built like its own rule for strikethrough."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter

BAR = ord("|")


def enable(parser: MarkdownIt) -> None:
    parser.inline.add_terminator_char("|")
    parser.inline.ruler.before("emphasis", "spoiler", tokenize)
    parser.inline.ruler2.before("emphasis", "spoiler", resolve)


def tokenize(state: StateInline, silent: bool) -> bool:
    """Note each pair of bars as a possible begin or end."""
    if silent or state.src[state.pos] != "|":
        return False
    # Not within words, so that `a||b` in prose stays an "or".
    scanned = state.scanDelims(state.pos, False)
    if scanned.length != 2:
        state.append_pending("|" * scanned.length)
        state.pos += scanned.length
        return True
    state.push("text", "", 0).content = "||"
    state.delimiters.append(
        Delimiter(
            marker=BAR,
            length=0,
            token=len(state.tokens) - 1,
            end=-1,
            open=scanned.can_open,
            close=scanned.can_close,
        )
    )
    state.pos += 2
    return True


def resolve(state: StateInline) -> None:
    """Turn the pairs that markdown-it has matched into tokens."""
    for delimiters in _lists(state):
        for opening in delimiters:
            if opening.marker != BAR or opening.end == -1:
                continue
            _become(state, opening.token, "spoiler_open", 1)
            _become(state, delimiters[opening.end].token, "spoiler_close", -1)


def _lists(state: StateInline) -> Iterator[list[Delimiter]]:
    yield state.delimiters
    for meta in state.tokens_meta:
        if meta and "delimiters" in meta:
            yield meta["delimiters"]


def _become(state: StateInline, index: int, kind: str, nesting: int) -> None:
    token = state.tokens[index]
    token.type, token.tag, token.content, token.markup = kind, "span", "", "||"
    token.nesting = 1 if nesting > 0 else -1
