"""The Markdown that is understood: CommonMark, tables, strikethrough and spoilers, and no way to lose text.

markdown-it drops text in three places, all mended here: what is nested too deeply, cells beyond a table's header, and
(rules that are left out) HTML and reference definitions.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, getLine, table
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token

from channels.text import spoilers
from channels.text.characters import URL

#: Deeper lists and quotes are shown as they are written.
MAX_DEPTH = 24
#: What is rather a name in Python than a word in bold.
DUNDER = re.compile(r"(?<!\w)__[a-z][a-z0-9]*(?:_[a-z0-9]+)*__(?!\w)")
UNSAFE = ["html_block", "reference", "html_inline", "linkify"]


class Parser(MarkdownIt):
    """markdown-it that leaves addresses as they are; what is a link is decided when the tree is built."""

    def validateLink(self, url: str) -> bool:
        return True

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link


def block_parser() -> MarkdownIt:
    parser = Parser("js-default", {"maxNesting": 10 * MAX_DEPTH}).disable([*UNSAFE[:2]])
    parser.block.ruler.at("table", whole_table, {"alt": ["paragraph", "reference"]})
    parser.block.ruler.before("table", "too_deep", too_deep)
    return parser


def inline_parser() -> MarkdownIt:
    # A low depth, because brackets inside brackets cost a level of Python's stack each.
    parser = Parser("js-default", {"maxNesting": 20}).disable(UNSAFE[2:])
    parser.inline.ruler.at("link", link_if_closed)
    parser.inline.ruler.at("image", image_if_closed)
    parser.inline.ruler.before("newline", "bare_url", bare_url)
    parser.inline.ruler.before("emphasis", "dunder", dunder)
    spoilers.enable(parser)
    return parser


def too_deep(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take everything below the deepest level as one paragraph."""
    if state.level < MAX_DEPTH:
        return False
    if silent:
        return True
    state.push("paragraph_open", "p", 1).map = [start, end]
    token = state.push("inline", "", 0)
    token.content = state.getLines(start, end, state.blkIndent, False).strip()
    state.push("paragraph_close", "p", -1)
    state.line = end
    return True


def whole_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table whose rows keep cells beyond the last column, in the last column."""
    first = len(state.tokens)
    if not table(state, start, end, silent):
        return False
    cells: list[Token] = []
    for token in state.tokens[first:]:
        if token.type == "tr_open":
            cells = []
        elif token.type == "inline":
            cells.append(token)
        elif token.type == "tr_close":
            _append_extra_cells(state, cells)
    return True


def _append_extra_cells(state: StateBlock, cells: list[Token]) -> None:
    assert cells[0].map
    written = getLine(state, cells[0].map[0]).strip()
    if written.count("|") < len(cells):
        return
    values = escapedSplit(written.removeprefix("|"))
    if values[-1] == "":
        values.pop()
    for value in values[len(cells) :]:
        cells[-1].content += f" | {value.strip()}"


def link_if_closed(state: StateInline, silent: bool) -> bool:
    # Without this a line of brackets is read from each of its brackets to its end.
    return state.src[state.pos] == "[" and state.src.find("](", state.pos) != -1 and link(state, silent)


def image_if_closed(state: StateInline, silent: bool) -> bool:
    return state.src.startswith("![", state.pos) and state.src.find("](", state.pos) != -1 and image(state, silent)


def bare_url(state: StateInline, silent: bool) -> bool:
    """Take an address in running text as it is: underscores in it are no emphasis."""
    if not state.src.startswith("://", state.pos):
        return False
    before = state.src[max(0, state.pos - 5) : state.pos].lower()
    scheme = next((name for name in ("https", "http") if before.endswith(name)), None)
    if scheme is None:
        return False
    match = URL.match(state.src, state.pos - len(scheme), state.posMax)
    if match is None:
        return False
    if not silent:
        state.append_pending(state.src[state.pos : match.end()])
    state.pos = match.end()
    return True


def dunder(state: StateInline, silent: bool) -> bool:
    """Take a name like `__init__` as it is: models write bold words with asterisks."""
    if state.src[state.pos] != "_":
        return False
    match = DUNDER.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        state.append_pending(match.group())
    state.pos = match.end()
    return True
