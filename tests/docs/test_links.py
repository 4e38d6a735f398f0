"""Links between the documents have targets, and the README stays short."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def anchor(heading: str) -> str:
    """The anchor that GitHub generates for a heading."""
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(hit[1]) for hit in re.finditer(r"^#{1,6} (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, place = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (place and place not in anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    assert not broken_links(page)


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# The `one` page\n[a](page.md#the-one-page) [b](#nothing) [c](gone.md) [d](https://example.com)\n```\n[e](f)\n```\n")
    assert broken_links(page) == ["#nothing", "gone.md"]


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


def test_the_picture_is_well_formed_svg() -> None:
    assert ElementTree.parse(ROOT / "docs" / "table.svg").getroot().tag.endswith("svg")
