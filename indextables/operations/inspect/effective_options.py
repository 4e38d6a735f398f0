"""Every option with its effective value and the source of that value, for `indextables config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indextables.config import COLUMN_WORDS, KEYS, PREFIX, TOKENIZER_PREFIX, TYPEMAP_PREFIX, Config

# Prefix of a per-column option -> its meaning and values.
_OF_COLUMNS = {
    TYPEMAP_PREFIX: f"how this column is indexed: {', '.join(COLUMN_WORDS[TYPEMAP_PREFIX])}",
    TOKENIZER_PREFIX: f"how this text column is tokenized: {', '.join(COLUMN_WORDS[TOKENIZER_PREFIX])}",
}


def describe_options(options: Mapping[str, str], table: Mapping[str, str]) -> list[dict[str, Any]]:
    """One row for each key; per-column keys have a general row and one for each column set. Invalid values of the table are ignored."""
    config = Config.of(options, table)
    rows = []
    for key in KEYS:
        text, source = config.found(key)
        rows.append(_row(key.name, key.kind.name, "(set)" if key.private and text else text, source, key.default, key.meaning))
    for prefix, meaning in _OF_COLUMNS.items():
        rows.append(_row(f"{prefix}<column>", "word", "", "default", "", meaning))
        given = {name: (word, "table configuration") for name, word in config.table.items()}
        given |= {name: (word, "option") for name, word in config.options.items()}
        rows += [_row(name, "word", *found, "", meaning) for name, found in given.items() if name.startswith(prefix)]
    return rows


def _row(name: str, kind: str, value: str, source: str, default: str, meaning: str) -> dict[str, Any]:
    return {"key": PREFIX + name, "type": kind, "value": value, "from": source, "default": default, "meaning": meaning}
