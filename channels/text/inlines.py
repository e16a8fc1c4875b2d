"""The text of a paragraph, heading or cell becomes styled runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from markdown_it.token import Token

from channels.text.characters import best_cut
from channels.text.grammar import inline_parser
from channels.text.links import link_target
from channels.text.tree import Run, Runs, Style, merged, text_of

PARSER = inline_parser()
#: Without any of these there is nothing to parse.
MARKUP = re.compile(r"[\\`*_~\[<&|]")
BREAK = re.compile(r"[ \t]*\n[ \t]*")
#: markdown-it takes quadratic time on some texts, so that it is given no more than this at once.
MOST_AT_ONCE = 8000

STYLES = {"strong": Style.BOLD, "em": Style.ITALIC, "s": Style.STRIKE, "spoiler": Style.SPOILER}


def inline_runs(source: str) -> Runs:
    """The runs of some inline Markdown."""
    if MARKUP.search(source) is None:
        return (Run(BREAK.sub("\n", source)),) if source else ()
    return merged(run for piece in _pieces(source) for run in _Reader(_tokens(piece)).runs())


def _pieces(source: str) -> Iterator[str]:
    start = 0
    while len(source) - start > MOST_AT_ONCE:
        end = start + best_cut(source[start : start + MOST_AT_ONCE + 1], MOST_AT_ONCE)
        yield source[start:end]
        start = end
    yield source[start:]


def _tokens(source: str) -> list[Token]:
    tokens: list[Token] = []
    PARSER.inline.parse(source, PARSER, {}, tokens)
    return tokens


class _Reader:
    """Walks over the tokens of one text, keeping the styles that are open."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = iter(tokens)
        self.open: list[Style] = []
        self.style = Style.NONE

    def runs(self, until: str = "") -> Iterator[Run]:
        """The runs up to a closing token, or to the end."""
        for token in self.tokens:
            if token.type == until:
                return
            if token.type == "link_open":
                yield from self._link(token)
            elif token.type == "image":
                yield from self._image(token)
            elif token.nesting:
                self._switch(token)
            else:
                yield self._leaf(token)

    def _switch(self, token: Token) -> None:
        if token.nesting > 0:
            self.open.append(STYLES[token.type.removesuffix("_open")])
        else:
            self.open.pop()
        self.style = Style.NONE
        for style in self.open:
            self.style |= style

    def _leaf(self, token: Token) -> Run:
        if token.type == "code_inline":
            return Run(token.content, self.style | Style.CODE)
        if token.type in ("softbreak", "hardbreak"):
            return Run("\n", self.style)
        if token.info == "entity" and token.content.isspace() and token.content != "\xa0":
            return Run(" ", self.style)
        return Run(token.content, self.style)

    def _link(self, token: Token) -> Iterator[Run]:
        label = merged(self.runs(until="link_close"))
        yield from _linked(label, str(token.attrs["href"]), str(token.attrs.get("title", "")), self.style)

    def _image(self, token: Token) -> Iterator[Run]:
        label = (Run(text_of(_Reader(token.children or []).runs()), self.style),)
        yield from _linked(label, str(token.attrs["src"]), str(token.attrs.get("title", "")), self.style)


def _linked(label: Runs, url: str, title: str, style: Style) -> Iterator[Run]:
    """A link; or its text with the address, where the address is none to link to or the text has links itself."""
    target = link_target(url)
    text = text_of(label)
    if not text.strip():
        label, text = (Run(url, style),), url
    if target and not any(run.link for run in label):
        yield from (replace(run, link=target) for run in label)
    else:
        yield from label
        if url and url not in (text, f"mailto:{text}"):
            yield Run(f" ({one_line(url)})", style)
    if title:
        yield Run(f" ({one_line(title)})", style)


def one_line(text: str) -> str:
    return " ".join(text.split())
