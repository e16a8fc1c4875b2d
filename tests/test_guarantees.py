"""Every row of the guarantees has a test, and the page that says so is up to date."""

from pathlib import Path

from tests import guarantees


def test_every_row_has_a_test() -> None:
    assert [row for row, files in guarantees.found().items() if not files] == []


def test_the_page_is_up_to_date(checkout: Path) -> None:
    page = (checkout / "docs" / "guarantees.md").read_text(encoding="utf-8")
    assert page == guarantees.render(), "run `python -m tests.guarantees > docs/guarantees.md`"
