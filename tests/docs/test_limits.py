"""docs/limits.md matches the bounds in the code."""

from __future__ import annotations

import re
from pathlib import Path

from indextables import limits

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
ROWS = re.findall(r"^\| .+ \| ([\d,]+)(?: (MiB|GiB))? \| `([A-Z_]+)` \|$", PAGE, re.MULTILINE)
UNITS = {"": 1, "MiB": limits.MIB, "GiB": limits.GIB}


def test_every_bound_matches_the_code() -> None:
    assert len(ROWS) >= 20
    shown = {name: int(number.replace(",", "")) * UNITS[unit] for number, unit, name in ROWS}
    assert shown == {name: getattr(limits, name) for name in shown}
