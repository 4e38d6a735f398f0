"""docs/configuration.md matches the options in the code."""

from __future__ import annotations

from tests.support.configuration_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m tests.support.configuration_page"
