"""Checks whether a csv file begins with a header of comma-separated column names. Other files are refused before a table is created.

If the table exists, a first line that contains only its columns is a header. For a new table, a first line is refused if a cell is empty,
looks like a value (a number, a time, an address, a truth value), is repeated, or also occurs as a value in its column, as `INFO` would. It
is also refused if a cell contains a time or an address or begins a JSON object, as in a log line. A line without a comma must be one word,
because the file may have another delimiter. Strings that could be names, such as `alice,paris`, are accepted, with a warning if the values
below them are strings, too: only then could a row be mistaken for a header.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from itertools import islice

from indextables.errors import SourceUnreadable
from indextables.logs import logger

HEAD_BYTES = 1 << 16  # of a file that are checked
HEAD_LINES = 100
_VALUE_CHARACTERS = 1000  # of a number, time or address
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_DATA = {
    "a time": r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}( .*)?|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?",
    "an address": r"(\d{1,3}\.){3}\d{1,3}(:\d+)?|[^@\s]+@[^@\s]+\.[^@\s]+|[a-z][a-z0-9+.-]*://\S+",
    "an identifier": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "a number": r"[-+]?[$€£]?(\d[\d.,_' ]*|[.,]\d+)(e[-+]?\d+)?\s?[%$€£]?|0x[0-9a-f]+|[-+]?(nan|inf|infinity)",
    "a truth value": r"true|false",
    "no value": r"null",
    "a note for Excel": r"sep=.?",
}
_KINDS = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _DATA.items()]
_INSIDE = [
    ("contains a time", re.compile(r"\d:\d{2}:\d{2}")),
    ("contains an address", re.compile(r"(?<![\d.])(\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    ("begins a JSON object", re.compile(r"^\[?\s*\{")),
]
_ONE_WORD = re.compile(r"[\w.-]+")
_ADVICE = "a csv file must begin with a line of column names"
_OTHERWISE = "if it does, create the table first with `create --schema`, then append the file"


def check_header(head: str, source: str, columns: Sequence[str] | None) -> None:
    """SourceUnreadable if the first line is not a header for a table with these columns, or for a new table (None)."""
    lines = _parsed(head, ",")
    if not lines or (columns is not None and set(lines[0]) <= set(columns)):
        return
    header, rows = lines[0], lines[1:]
    delimiter = _delimiter(head, len(header))
    if delimiter is not None:
        raise SourceUnreadable(
            f"{source!r} cannot be read: its first line, {_shown(head)}, is separated by {_DELIMITERS[delimiter]}, not by commas; "
            "convert the file to commas"
        )
    if columns is None:
        why = _not_names(header, rows)
        if why is not None:
            raise SourceUnreadable(f"{source!r} cannot be read: its first line is not a header: {why}; {_ADVICE} ({_OTHERWISE})")
        if not any(_kind(cell) for row in rows for cell in row):
            names = ", ".join(header)
            found = f"the first line of {source!r}, {names[:80]!r}, was taken as column names"
            logger.warning("%s; a file with only text may have no header", found)
    elif not set(header) & set(columns):
        raise SourceUnreadable(
            f"{source!r} cannot be read: its first line, {_shown(head)}, has none of the table's columns ({', '.join(columns)}); {_ADVICE}"
        )


def _parsed(head: str, delimiter: str) -> list[list[str]]:
    """The cells of the first non-empty lines; empty if they are not valid csv, which the reader reports later."""
    try:
        return list(islice(filter(None, csv.reader(io.StringIO(head, newline=""), delimiter=delimiter)), HEAD_LINES))
    except csv.Error:
        return []


def _delimiter(head: str, by_commas: int) -> str | None:
    """The delimiter used instead of commas, if any: with it the first line has more cells, and the other lines as many as the first."""
    for delimiter in _DELIMITERS:
        lines = _parsed(head, delimiter) if delimiter in head else []
        cells = len(lines[0]) if lines else 0
        if cells > by_commas:
            fitting, others = sum(len(line) == cells for line in lines[1:]), len(lines) - 1
            # If commas give one cell, a delimiter that gives several is accepted even if some lines do not match.
            if 2 * fitting >= others if by_commas == 1 else fitting == others > 0:
                return delimiter
    return None


def _not_names(header: list[str], rows: list[list[str]]) -> str | None:
    """The reason why the cells are not column names, or None if they are."""
    for at, given in enumerate(header):
        cell = given.strip()
        if not cell:
            return f"column {at + 1} has no name"
        kind = _kind(cell)
        if kind is not None:
            return f"column {at + 1} is {cell[:80]!r}, {kind}"
        for what, pattern in _INSIDE:
            if pattern.search(cell):
                return f"column {at + 1} is {cell[:80]!r}, which {what}"
        if given in header[:at]:
            return f"columns {header.index(given) + 1} and {at + 1} are both {cell[:80]!r}"
        if any(len(row) > at and row[at] == given for row in rows):
            return f"column {at + 1} is {cell[:80]!r}, which is also a value of that column"
    if len(header) == 1 and not _ONE_WORD.fullmatch(header[0].strip()):
        return f"{header[0].strip()[:80]!r} has no comma and is not one word"
    return None


def _kind(cell: str) -> str | None:
    """What a cell is if it is a value, such as a number, rather than text. Long cells are text: to match one could take minutes."""
    text = cell.strip()
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(text)), None) if len(text) <= _VALUE_CHARACTERS else None


def _shown(head: str) -> str:
    return repr((head.lstrip().splitlines() or [""])[0][:80])
