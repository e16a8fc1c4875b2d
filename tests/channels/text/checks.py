"""What has to hold for every text, checked without the code under test where that is possible."""

import re

from channels.text.characters import is_invisible
from channels.text.parse import parse
from channels.text.telegram import Entity, Rendered
from channels.text.tree import texts

TYPES = {"bold", "italic", "strikethrough", "spoiler", "code", "pre", "text_link", "blockquote"}


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def stretch(rendered: Rendered, entity: Entity) -> str:
    """The text of an entity. Fails if the entity cuts a character in two."""
    data = rendered.text.encode("utf-16-le")
    return data[2 * entity.offset : 2 * (entity.offset + entity.length)].decode("utf-16-le")


def essence(text: str) -> str:
    """What a reader sees of a text, without white space."""
    return "".join(char for char in text if not is_invisible(char))


def shown(markdown: str) -> str:
    """What a reader sees of a Markdown text."""
    return essence("".join(text for block in parse(markdown) for text in texts(block)))


def letters(text: str) -> str:
    return "".join(char for char in text if char.isalnum() and not is_invisible(char))


def is_subsequence(needle: str, haystack: str) -> bool:
    rest = iter(haystack)
    return all(char in rest for char in needle)


def check_telegram(rendered: Rendered) -> None:
    """Telegram would take this message, and understand it as it is meant."""
    length = units(rendered.text)
    assert len(rendered.entities) <= 100
    assert rendered.text == rendered.text.rstrip()
    leading = units(rendered.text) - units(rendered.text.lstrip())
    if leading:
        assert any(entity.type == "pre" and entity.offset == 0 for entity in rendered.entities)
    for entity in rendered.entities:
        assert entity.type in TYPES
        assert entity.offset >= 0
        assert entity.length > 0
        assert entity.offset + entity.length <= length
        assert stretch(rendered, entity).strip()
        assert (entity.url is not None) == (entity.type == "text_link")
        if entity.url is not None:
            assert re.match(r"https?://|mailto:", entity.url, re.IGNORECASE)
    check_nesting(rendered.entities)


def check_nesting(entities: tuple[Entity, ...]) -> None:
    """Entities lie apart or inside each other; code and links have no others inside that Telegram forbids there."""
    stack: list[Entity] = []
    for entity in sorted(entities, key=lambda entity: (entity.offset, -entity.length)):
        while stack and stack[-1].offset + stack[-1].length <= entity.offset:
            stack.pop()
        if stack:
            assert entity.offset + entity.length <= stack[-1].offset + stack[-1].length
        around = {outer.type for outer in stack}
        assert entity.type not in around
        if entity.type in ("code", "pre"):
            assert around <= {"blockquote"}
        assert not around & {"code", "pre"}
        stack.append(entity)


def check_discord(text: str) -> None:
    """Blocks of code are whole, and nothing else looks like one."""
    fences = [match for match in re.finditer("`{3,}", text)]
    assert len(fences) % 2 == 0
    for fence in fences:
        assert len(fence.group()) == 3
        start = text.rfind("\n", 0, fence.start()) + 1
        assert re.fullmatch(r"(?:\\?> )*", text[start : fence.start()])
    assert text == text.strip()
