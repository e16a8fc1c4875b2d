"""Whatever a model writes: nothing is lost, and the platforms take it."""

import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from channels.text import discord, plain, telegram
from channels.text.characters import is_blank
from channels.text.parse import normalized, parse
from channels.text.writing import write_blocks
from tests.channels.text.checks import (
    check_discord,
    check_telegram,
    essence,
    is_subsequence,
    letters,
    shown,
    stretch,
    units,
)
from tests.channels.text.strategies import documents, soups

anything = st.one_of(st.text(st.characters(), max_size=300), st.text("ab *_`~|#->\n[](){}<>!&\\1.:/é中👍", max_size=60))
# Ten thousand documents: measured line by line they take minutes; the examples show which lines are reached.
pytestmark = [pytest.mark.no_cover, pytest.mark.timeout(300)]

#: A seed has nothing to shrink.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.req("P43")
@given(documents)
@settings(max_examples=1000, deadline=None, phases=PHASES)
def test_telegram_takes_every_document(markdown: str) -> None:
    rendered = telegram.render(markdown)
    check_telegram(rendered)
    assert essence(rendered.text)


@pytest.mark.req("P43")
@given(anything)
@settings(max_examples=4000, deadline=None, phases=PHASES)
def test_every_text_is_rendered_and_its_letters_are_there(text: str) -> None:
    check_telegram(telegram.render(text))
    check_discord(discord.render(text))
    assert is_blank(normalized(text)) == is_blank(plain(text)) == is_blank(discord.render(text))
    if "&" in text or "|" in text or "~~~" in text or "```" in text or "[x]" in text:
        return  # Entities, tables and fences change letters or their order; the soups below know how.
    assert is_subsequence(letters(text), letters(plain(text)))


@pytest.mark.req("P43")
@given(soups)
@settings(max_examples=4500, deadline=None, phases=PHASES)
def test_words_between_markup_stay_in_order(soup: tuple[str, list[str]]) -> None:
    markdown, words = soup
    rendered = telegram.render(markdown)
    check_telegram(rendered)
    languages = {entity.language for entity in rendered.entities}
    text = plain(markdown)
    found = re.findall(r"w\d+q|end\b", text)
    missing = [word for word in words if word not in found]
    assert all(any(word in (language or "") for language in languages) for word in missing)
    if "|" not in markdown:
        assert [word for word in words if word in found] == found
    assert re.findall(r"w\d+q|end\b", re.sub(r"```\S+", "", discord.render(markdown))) == found


@pytest.mark.req("P43")
@given(documents)
@settings(max_examples=500, deadline=None, phases=PHASES)
def test_discord_shows_every_document(markdown: str) -> None:
    text = discord.render(markdown)
    check_discord(text)
    assert essence(text)
    assert is_subsequence(letters(shown(markdown)), letters(text))


@pytest.mark.req("P43")
@given(documents)
@settings(max_examples=300, deadline=None, phases=PHASES)
def test_plain_text_is_the_telegram_text_with_addresses(markdown: str) -> None:
    rendered = telegram.render(markdown)
    without = essence(plain(markdown))
    assert is_subsequence(essence(rendered.text), without)
    for entity in rendered.entities:
        if entity.url:
            label = stretch(rendered, entity)
            assert essence(entity.url) in without or label == entity.url.removeprefix("mailto:")


@pytest.mark.req("P44")
@given(documents, st.integers(300, 900))
@settings(max_examples=500, deadline=None, phases=PHASES)
def test_telegram_parts_fit_and_lose_nothing(markdown: str, limit: int) -> None:
    parts = telegram.split(markdown, limit)
    for part in parts:
        rendered = telegram.render(part)
        check_telegram(rendered)
        assert units(rendered.text) <= limit
        assert units(plain(part)) <= limit
        assert essence(rendered.text)
    assert "".join(map(shown, parts)) == shown(markdown)


@pytest.mark.req("P44")
@given(documents, st.integers(300, 900))
@settings(max_examples=500, deadline=None, phases=PHASES)
def test_discord_parts_fit_and_lose_nothing(markdown: str, limit: int) -> None:
    parts = discord.split(markdown, limit)
    for part in parts:
        text = discord.render(part)
        check_discord(text)
        assert len(text) <= limit
        assert essence(text)
    assert "".join(map(shown, parts)) == shown(markdown)


@pytest.mark.req("P44")
@given(anything, st.integers(1, 200))
@settings(max_examples=300, deadline=None, phases=PHASES)
def test_any_text_many_times_is_split_at_the_real_limits(text: str, times: int) -> None:
    markdown = text * times
    for part in telegram.split(markdown):
        assert 0 < units(telegram.render(part).text) <= telegram.MAX_LENGTH
    for part in discord.split(markdown):
        assert 0 < len(discord.render(part)) <= discord.MAX_LENGTH
    assert "".join(map(shown, discord.split(markdown))) == shown(markdown)


@pytest.mark.req("P44")
@given(documents)
@settings(max_examples=150, deadline=None, phases=PHASES)
def test_a_part_is_not_split_again(markdown: str) -> None:
    for part in telegram.split(markdown, 400):
        assert telegram.split(part, 400) == [part]


@pytest.mark.req("P44")
@given(documents)
@settings(max_examples=300, deadline=None, phases=PHASES)
def test_what_is_written_anew_reads_the_same(markdown: str) -> None:
    assert shown(write_blocks(parse(markdown))) == shown(markdown)


@pytest.mark.req("P46")
@given(documents, st.data())
@settings(max_examples=300, deadline=None, phases=PHASES)
def test_every_prefix_of_a_growing_text_can_be_shown(markdown: str, data: st.DataObject) -> None:
    prefix = markdown[: data.draw(st.integers(0, len(markdown)))]
    check_telegram(telegram.render(prefix))
    check_discord(discord.render(prefix))
    assert telegram.render(prefix) == telegram.render(prefix)
