"""Markdown becomes blocks. Every text can be read; what is no markup is text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from markdown_it.token import Token

from channels.text.characters import is_blank
from channels.text.grammar import block_parser
from channels.text.inlines import inline_runs, one_line
from channels.text.tables import drawn
from channels.text.tree import (
    Block,
    Blocks,
    Code,
    Heading,
    Item,
    Lines,
    List,
    Paragraph,
    Quote,
    Rule,
    Run,
    Runs,
    merged,
)

PARSER = block_parser()
LEADING_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")
LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,32}")
TASK = re.compile(r"\[([ xX])\]\s+")
#: NUL and halves of surrogate pairs cannot be sent.
UNSENDABLE = re.compile("[\0\ud800-\udfff]")


def parse(markdown: str) -> Blocks:
    """The blocks of a text; if nothing of them were visible, the text as it is written."""
    source = normalized(markdown)
    blocks = tuple(block for block in _Reader(source).blocks() if visible(block))
    return blocks or literal(source)


def normalized(markdown: str) -> str:
    """The text with Unix line ends and without what no platform can take."""
    return UNSENDABLE.sub("\ufffd", markdown.replace("\r\n", "\n").replace("\r", "\n"))


def literal(source: str) -> Blocks:
    """The text without any reading of it."""
    paragraphs = re.split(r"\n\s*\n", source)
    return tuple(Paragraph((Run(text.strip()),)) for text in paragraphs if not is_blank(text))


def visible(block: Block) -> bool:
    """Whether a reader sees anything of a block."""
    match block:
        case Paragraph() | Heading():
            return any(not is_blank(run.text) for run in block.runs)
        case Code():
            return not is_blank(block.text)
        case Quote():
            return any(visible(child) for child in block.blocks)
        case Rule() | List():
            return True


class _Reader:
    """Walks over the tokens of a document."""

    def __init__(self, source: str) -> None:
        self.tokens = iter(PARSER.block.parse(source, PARSER, {}, []) or [])
        self.end = source.rstrip().count("\n") + 1

    def blocks(self, until: str = "") -> Iterator[Block]:
        """The blocks up to a closing token, or to the end."""
        for token in self.tokens:
            if token.type == until:
                return
            yield from self._block(token)

    def _block(self, token: Token) -> Iterator[Block]:
        lines = _lines(token)
        match token.type:
            case "paragraph_open":
                yield Paragraph(self._runs(), lines)
            case "heading_open":
                yield Heading(int(token.tag[1:]), self._runs(), lines)
            case "fence" | "code_block":
                yield from self._code(token, lines)
            case "hr":
                yield Rule(lines)
            case "blockquote_open":
                yield Quote(tuple(self.blocks(until="blockquote_close")), lines)
            case "table_open":
                yield replace(drawn(list(self._rows())), lines=lines)
            case "bullet_list_open" | "ordered_list_open":
                yield self._list(token.type.replace("open", "close"), lines)

    def _runs(self) -> Runs:
        runs = inline_runs(next(self.tokens).content)
        next(self.tokens)
        return runs

    def _code(self, token: Token, lines: Lines) -> Iterator[Block]:
        """A block of code. What stands beside the language has no place in it, and is put above."""
        language, _, rest = one_line(token.info).partition(" ")
        text = LEADING_BLANK_LINES.sub("", token.content).rstrip()
        # An empty block has its language as text, but not at the end of a text that may still grow.
        grows = not rest and token.level == 0 and token.map is not None and token.map[0] + 1 >= self.end
        if not LANGUAGE.fullmatch(language) or (is_blank(text) and not grows):
            language, rest = "", one_line(token.info)
        if rest:
            yield Paragraph((Run(rest),))
            lines = None
        yield Code(text, language, lines)

    def _list(self, until: str, lines: Lines) -> List:
        items: list[Item] = []
        loose = False
        for token in self.tokens:
            if token.type == until:
                break
            item = Item(token.info + token.markup, (), lines=_lines(token, level=1))
            blocks: list[Block] = []
            for child in self.tokens:
                if child.type == "list_item_close":
                    break
                # markdown-it hides the paragraphs of lists that are not loose.
                loose = loose or (child.type == "paragraph_open" and not child.hidden)
                blocks.extend(self._block(child))
            items.append(_task(replace(item, blocks=tuple(filter(visible, blocks)))))
        return List(tuple(items), loose, lines)

    def _rows(self) -> Iterator[list[Runs]]:
        row: list[Runs] = []
        for token in self.tokens:
            match token.type:
                case "inline":
                    row.append(inline_runs(token.content))
                case "tr_close":
                    yield row
                    row = []
                case "table_close":
                    return


def _lines(token: Token, level: int = 0) -> Lines:
    return (token.map[0], token.map[1]) if token.map and token.level == level else None


def _task(item: Item) -> Item:
    """An entry that begins with a box becomes a task."""
    match item.blocks:
        case (Paragraph(runs=(first, *others)) as paragraph, *rest) if box := TASK.match(first.text):
            runs = merged((replace(first, text=first.text[box.end() :]), *others))
            if all(is_blank(run.text) for run in runs):
                return item
            return replace(item, blocks=(replace(paragraph, runs=runs), *rest), done=box.group(1) != " ")
    return item
