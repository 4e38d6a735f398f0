"""docs/configuration.md matches the options in the code, and no page names an option or a variable that does not exist."""

from __future__ import annotations

import re

from indextables.airflow.local.server import MARK
from indextables.config import KEYS
from tests.support.configuration_page import PAGE, page
from tests.support.pages import PAGES, ROOT, without_blocks

SHIPPED = ("indextables", "jobs", "dags")


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m tests.support.configuration_page"


def test_options_in_sentences_exist() -> None:
    """`state.retention.*` stands for several, `merge.targetSize=1G` sets one."""
    names = {key.name for key in KEYS}
    groups = "|".join(sorted({name.partition(".")[0] for name in names}))
    checked = 0
    for one in PAGES:
        for found in re.findall(rf"`((?:{groups})\.[A-Za-z.]+\*?)(?:=[^`]*)?`", without_blocks(one)):
            checked += 1
            assert found in names or (found.endswith(".*") and any(name.startswith(found[:-1]) for name in names)), f"{one.name}: {found}"
    assert checked > 100


def test_every_environment_variable_is_explained() -> None:
    sources = [path.read_text("utf-8") for tree in SHIPPED for path in sorted((ROOT / tree).rglob("*.py"))]
    read = {name for text in sources for name in re.findall(r"\"(INDEXTABLES_[A-Z_]+[A-Z])\"", text)} - {MARK}  # MARK is internal
    assert len(read) >= 5
    explained = set(re.findall(r"`(INDEXTABLES_[A-Z_]+)`", PAGE.read_text("utf-8").partition("## Environment variables")[2]))
    assert read == explained
