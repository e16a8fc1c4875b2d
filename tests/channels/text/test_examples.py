"""Tables and typical answers, as people will see them."""

import time

import pytest

from channels.text import discord, plain, telegram
from tests.channels.text.checks import stretch


def spans(markdown: str) -> list[tuple[str, str]]:
    rendered = telegram.render(markdown)
    return [(entity.type, stretch(rendered, entity)) for entity in rendered.entities]


@pytest.mark.req("P45")
def test_a_narrow_table_is_drawn_and_aligned_by_width() -> None:
    markdown = "| name | 数 |\n|---|---|\n| 中文 | 1 |\n| b | 22 |"
    drawn = "name  数\n────  ──\n中文  1\nb     22"
    assert telegram.render(markdown).text == drawn
    assert spans(markdown) == [("pre", drawn)]
    assert discord.render(markdown) == f"```\n{drawn}\n```"


@pytest.mark.req("P45")
def test_a_wide_table_becomes_records() -> None:
    markdown = "| Name | What it does |\n|---|---|\n| one | " + "long " * 10 + "|\n| two | x | extra |"
    text = "• Name: one\n  What it does: " + ("long " * 10).strip() + "\n• Name: two\n  What it does: x | extra"
    assert telegram.render(markdown).text == text
    assert ("bold", "Name") in spans(markdown)
    assert discord.render(markdown).startswith("- **Name**: one\n  **What it does**: long")


@pytest.mark.req("P45")
def test_pipes_in_prose_and_code_stay() -> None:
    assert plain("a | b | c and `x | y`") == "a | b | c and x | y"
    assert plain("```\n| a |\n|---|\n```") == "| a |\n|---|"


@pytest.mark.req("P45")
def test_a_table_with_links_keeps_them() -> None:
    assert spans("| a |\n|---|\n| [x](https://x.org) |") == [("bold", "a"), ("text_link", "x")]


@pytest.mark.req("P43")
@pytest.mark.parametrize(
    "text",
    [
        "if a<b and c>d",
        "Use List<int> and <tag> here",
        "<script>x</script>",
        "<!-- -->",
        "[r]: http://x.y",
        "2 * 3 * 4",
    ],
)
def test_what_looks_like_markup_stays_text(text: str) -> None:
    assert telegram.render(text).text == text
    assert plain(text) == text


@pytest.mark.req("P43")
def test_odd_links_are_text() -> None:
    assert telegram.render("[a](javascript:x) [b](tg://user?id=1)").text == "a (javascript:x) b (tg://user?id=1)"
    assert telegram.render("[a](tg://user?id=1)").entities == ()


@pytest.mark.req("P43")
def test_nothing_but_markup_is_shown_as_it_is() -> None:
    assert [telegram.render(text).text for text in ("#", ">", "```\n```")] == ["#", ">", "```\n```"]


@pytest.mark.req("P43")
def test_discord_escapes_what_it_would_misread() -> None:
    assert discord.render("a_b *x* \\*y\\* @everyone ||s|| \\# no") == "a_b *x* \\*y\\* @everyone ||s|| # no"
    assert discord.render("\\# no") == "\\# no"


@pytest.mark.req("P44")
def test_a_long_block_of_code_is_closed_and_opened_again() -> None:
    parts = discord.split("Look:\n\n```python\n" + "    x = 1\n" * 500 + "```\n\nDone.")
    assert len(parts) > 2
    assert parts[1].startswith("```python\n    x = 1")
    assert all(part.count("```") == 2 for part in parts[:-1])
    assert parts[-1].endswith("Done.")


@pytest.mark.req("P44")
def test_a_quarter_of_a_megabyte_is_split_quickly() -> None:
    prose = ("The quick **brown** fox jumps over the lazy dog. " * 10 + "\n\n") * 500
    started = time.process_time()
    parts = telegram.split(prose)
    assert len(parts) > 50
    assert time.process_time() - started < 10


@pytest.mark.req("P46")
def test_an_unclosed_fence_is_code_and_unclosed_emphasis_is_text() -> None:
    assert spans("a\n\n```py\nx = 1") == [("pre", "x = 1")]
    assert telegram.render("this is **bol").text == "this is **bol"
