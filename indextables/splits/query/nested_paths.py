"""Paths into structs and maps, as queries write them: `attributes.user.name`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from indextables.splits.index import mapping as kinds

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def json_path(name: str, columns: Mapping[str, str]) -> str | None:
    """A path into a JSON column (the longest matching column name) in tantivy's notation; None if no JSON column matches."""
    at = name.rfind(".")
    while at > 0:
        if columns.get(name[:at]) == kinds.JSON and name[at + 1 :]:
            return name[:at].replace(".", "\\.") + name[at:]
        at = name.rfind(".", 0, at)
    return None


def typed_values(text: str) -> list[int | float | bool]:
    """The numbers and booleans that a text may represent."""
    if text.lower() in ("true", "false"):
        return [text.lower() == "true"]
    found: list[int | float | bool] = []
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        found.append(int(text))
    if _FLOAT.fullmatch(text) and abs(float(text)) < float("inf"):
        found.append(float(text) + 0.0)
    return found
