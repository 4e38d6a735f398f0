"""LIKE patterns: `%` matches any run of characters, `_` any one character; both match line breaks."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from indextables.limits import LIKE_RUNS
from indextables.predicates import expressions as exp
from indextables.predicates.keys import typed_scalar
from indextables.predicates.literals import excerpt

ANY_RUN, ANY_ONE = object(), object()


def like(column: str, pattern: str, escape: str) -> exp.Expr:
    """The cheapest node equivalent to the pattern; ValueError if it is malformed or too large."""
    parts = _parts(pattern, escape)
    literal_length = next((i for i, part in enumerate(parts) if not isinstance(part, str)), len(parts))
    prefix = "".join(str(part) for part in parts[:literal_length])
    rest = parts[literal_length:]
    if not rest:
        return exp.Compare("=", column, prefix)
    only_prefix = all(part is ANY_RUN for part in rest)
    if only_prefix and not prefix:
        return exp.Always(column, True)
    runs = parts.count(ANY_RUN)
    if runs > LIKE_RUNS:
        raise ValueError(f"the pattern has {runs} '%', more than {LIKE_RUNS}")
    # RE2, which Arrow uses, never backtracks. Arrow's match_like misreads `\\` in patterns that end in % (26.0).
    pieces = [".*" if part is ANY_RUN else "." if part is ANY_ONE else re.escape(str(part)) for part in parts]
    regex = rf"(?s)\A{''.join(pieces)}\z"
    try:
        pc.match_substring_regex(typed_scalar("", pa.string()), regex)
    except pa.ArrowInvalid as cause:
        raise ValueError(f"a pattern of {len(pattern)} characters is too large") from cause
    return exp.Like(column, prefix, only_prefix, regex)


def _parts(pattern: str, escape: str) -> list[str | object]:
    if len(escape) != 1:
        raise ValueError(f"ESCAPE takes one character, not {excerpt(escape)!r}")
    parts: list[str | object] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise ValueError(f"{escape!r} may stand only before %, _ and itself")
            parts.append(escaped)
        elif character == "%":
            if not parts or parts[-1] is not ANY_RUN:
                parts.append(ANY_RUN)
        else:
            parts.append(ANY_ONE if character == "_" else character)
    return parts
