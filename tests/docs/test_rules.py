"""Every rule whose code is cited in code or tests is defined in docs/protocol.md exactly once."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = r"[A-Z]{1,3}-\d{2}"
CITED = re.compile(rf"\b({CODE})(?: … ({CODE}|\d{{2}}))?\b")
NO_RULES = {"CRC-32", "UTF-16"}
TREES = ("indextables", "jobs", "dags", "tests")


def cited_in(text: str) -> set[str]:
    """All codes of a text; `CMP-01 … CMP-05` and `CMP-01 … 05` cite five."""
    found: set[str] = set()
    for hit in CITED.finditer(text):
        family, first = hit[1].split("-")
        last = hit[2].split("-")[-1] if hit[2] else first
        found |= {f"{family}-{number:02d}" for number in range(int(first), int(last) + 1)}
    return found - NO_RULES


def cited() -> dict[str, list[str]]:
    """Code -> the files that cite it."""
    found = defaultdict(list)
    for path in sorted(path for tree in TREES for path in (ROOT / tree).rglob("*.py") if path != Path(__file__)):
        for code in cited_in(path.read_text("utf-8")):
            found[code].append(str(path.relative_to(ROOT)))
    return found


def defined() -> Counter[str]:
    """Codes in a table cell that is followed by an explanation."""
    text = (ROOT / "docs" / "protocol.md").read_text("utf-8")
    return Counter(hit[1] for hit in re.finditer(rf"\| ({CODE}) (?=\| \S)", text))


def test_every_cited_rule_is_defined() -> None:
    known, used = defined(), cited()
    assert len(used) > 150
    assert not {code: files for code, files in used.items() if code not in known}


def test_no_rule_is_defined_twice() -> None:
    assert not [code for code, times in defined().items() if times > 1]


def test_ranges_cite_every_code_in_between() -> None:
    assert cited_in("(CMP-01 … CMP-03, C-46)") == {"CMP-01", "CMP-02", "CMP-03", "C-46"}
    assert cited_in("CCH-06 … 07, UTF-16") == {"CCH-06", "CCH-07"}
