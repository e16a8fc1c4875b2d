"""Texts as models write them, whole and broken, with words whose place can be checked."""

import itertools
from random import Random

from hypothesis import strategies as st

ODD = [
    "👨‍👩‍👧‍👦",
    "🇩🇪🇫🇷",
    "e\u0301\u0302",
    "مرحبا",
    "שלום",
    "中文字",
    "日本語、です。",
    "🤷🏽‍♀️",
    "\x00",
    "\x07",
    "\u200b",
    "\u202e",
    "\ud83d",
]
WORDS = [
    "alpha",
    "beta",
    "snake_case_name",
    "__init__",
    "a<b",
    "c>d",
    "List<int>",
    "x*y*z",
    "don't",
    "50%",
    "C:\\dir",
    "f(x)[0]",
]
HTML = ["<script>alert(1)</script>", "<!-- note -->", "<br>", "</div>", "&lt;", "&amp;", "<a href='x'>y</a>", "<@123>"]
LINKS = [
    "[wiki](https://en.wikipedia.org/wiki/Foo_(bar))",
    "[t](https://x.org 'title')",
    "[evil](javascript:alert(1))",
    "[user](tg://user?id=1)",
    "[rel](docs/a.md)",
    "![pic](https://x.org/p.png)",
    "[![alt](https://x.org/i.png)](https://x.org)",
    "<https://auto.example/a_b>",
    "https://bare.example/__x__/y_z.",
    "[ref][1]",
    "[^1]",
    "[`code`](https://x.org)",
    "[](https://x.org)",
    "<me@x.org>",
]
MARKS = ["**", "*", "_", "__", "~~", "||", "`", "``", "```", "~~~", "\\", "[", "](", ")", "<", ">", "&", "|", "!["]
LANGUAGES = ["", "python", "c++", "C#", "objective-c", "py title=x", "{.python}", "日本", "a`b"]

BITS = [*WORDS, *WORDS, *ODD, *HTML, *LINKS, *MARKS]
STYLES = ["**", "*", "_", "~~", "||", "`", "``", "***"]
LEAVES = ["---", "***", "#", ">", "-", "[r]: http://x.y", "    code"]
MARKERS = ["- ", "* ", "1. ", "7) ", "- [x] ", "- [ ] ", "> "]


class Writer:
    """Writes Markdown by chance. Drawing each word from hypothesis itself would take most of the tests' time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def some(self, most: int) -> range:
        return range(self.random.randint(1, most))

    def line(self) -> str:
        glue = self.random.choice([" ", " ", ""])
        return glue.join(self.styled() for _ in self.some(3))

    def styled(self) -> str:
        words = " ".join(self.random.choices(BITS, k=self.random.randint(1, 6)))
        style = self.random.choice([*STYLES, "", "", ""])
        return style + words + style

    def heading(self) -> str:
        return "#" * self.random.randint(1, 7) + " " + self.line()

    def setext(self) -> str:
        return self.line() + "\n" + self.random.choice(["===", "---"])

    def paragraph(self) -> str:
        return "\n".join(self.line() for _ in self.some(4))

    def leaf(self) -> str:
        return self.random.choice(LEAVES)

    def fence(self) -> str:
        mark = self.random.choice(["```", "~~~", "````"])
        odd = ["    indented", "", "\ttab", "``` x", "````"]
        lines = [self.random.choice([self.line(), *odd]) for _ in self.some(6)]
        closed = [mark] if self.random.random() < 0.7 else []
        return "\n".join([mark + self.random.choice(LANGUAGES), *lines, *closed])

    def table(self) -> str:
        columns = self.random.randint(1, 4)
        rows = [self.row(columns), "|" + "---|" * columns]
        rows += [self.row(self.random.randint(1, columns + 1)) for _ in self.some(5)]
        return "\n".join(rows)

    def row(self, columns: int) -> str:
        cells = ["", "1", "中文", "**b**", "a \\| b", *WORDS[:6], self.line(), self.random.choice(LINKS)]
        return "| " + " | ".join(self.random.choices(cells, k=columns)) + " |"

    def nested(self, depth: int) -> str:
        return "\n".join(self.entry(depth) for _ in self.some(4))

    def entry(self, depth: int) -> str:
        marker = self.random.choice(MARKERS)
        head, *rest = self.block(depth + 1).split("\n")
        indent = "> " if marker == "> " else " " * len(marker)
        return "\n".join([marker + head, *(indent + more for more in rest)])

    def block(self, depth: int = 0) -> str:
        kinds = [self.paragraph, self.paragraph, self.heading, self.setext, self.fence, self.table, self.leaf]
        if depth < 3 and self.random.random() < 0.4:
            return self.nested(depth)
        return self.random.choice(kinds)()

    def document(self) -> str:
        return "\n\n".join(self.block() for _ in self.some(5))

    def soup(self) -> tuple[str, list[str]]:
        """Markup thrown together, and the words in it, each of which is there once."""
        numbers = itertools.count(100)
        pieces = [next_word(numbers) if piece == "WORD" else piece for piece in self.random.choices(SOUP, k=30)]
        words = [piece for piece in pieces if piece.startswith("w")]
        return "".join(pieces) + "\n\nend", [*words, "end"]


def next_word(numbers: "itertools.count[int]") -> str:
    return f"w{next(numbers)}q"


SOUP = [
    *MARKS,
    "\n",
    "\n\n",
    " ",
    "  \n",
    "- ",
    "1. ",
    "> ",
    "# ",
    "    ",
    "\t",
    "---",
    "===",
    ":",
    "(",
    "]",
    "'",
    '"',
    "@",
    "[x]",
]
SOUP += ["WORD"] * 20

seeds = st.integers(0, 2**40)
documents = seeds.map(lambda seed: Writer(seed).document())
soups = seeds.map(lambda seed: Writer(seed).soup())
