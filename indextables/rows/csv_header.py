"""Checks whether a csv file begins with a header of comma-separated column names. Other files are refused before a table is created.

If the table exists, a first line that contains only its columns is a header. For a new table, a first line is refused if a cell is empty,
looks like a value (a number, a time, an address, a truth value, `n/a`), is repeated, or also occurs as a value in its column, as `INFO`
would. It is also refused if a cell contains a time or an address or begins a JSON object, as in a log line. A line without a comma must be
one word, because the file may have another delimiter. Strings that could be names, such as `alice,paris`, are accepted as names, with a
warning unless a column below them has only numbers or other values, which rows of data have from the first line on.

Another delimiter is refused if it splits all lines evenly, unless commas clearly separate: the lines have commas that are not part of a
number, a time or a sentence between two of the other delimiters.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from itertools import islice

from indextables.errors import SourceUnreadable
from indextables.logs import logger

HEAD_BYTES = 1 << 16  # of a file that are checked
HEAD_LINES = 100
_VALUE_CHARACTERS = 1000  # of a number, time or address
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_NULL = "no value"
_DATA = {
    "a time": r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}( .*)?|\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?",
    "an address": r"(\d{1,3}\.){3}\d{1,3}(:\d+)?|[^@\s]+@[^@\s]+\.[^@\s]+|[a-z][a-z0-9+.-]*://\S+",
    "an identifier": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "a number": r"[-+]?[$€£]?(\d[\d.,_' ]*|[.,]\d+)(e[-+]?\d+)?\s?[%$€£]?|0x[0-9a-f]+|[-+]?(nan|inf|infinity)",
    "a truth value": r"true|false",
    _NULL: r"null",
    "a note for Excel": r"sep=.?",
}
_KINDS = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _DATA.items()]
_NO_VALUE = frozenset(("n/a", "#n/a", "NA", "na", "<NA>", "None", "none", "NONE", "(null)", "\\N", "nil", "NIL", "-", "--", "?", "."))
_DOUBTFUL = frozenset(("unknown", "missing", "undefined", "not available", "tbd"))  # also names of columns, as in `yes,no,unknown`
_QUOTED = re.compile(r'(?:^|(?<=[,;\t|]))"(?:[^"]|"")*"(?=[,;\t|\r\n]|$)', re.MULTILINE)
_WITH_COMMA = re.compile(r"([^\W\d]{1,4} |[$€£])?[-+]?\d+([.,' ]\d+)*( [^\W\d]{1,4}|\s?[%$€£])?|.{1,40}:\d{2},\d+")
_INSIDE = [
    ("contains a time", re.compile(r"\d:\d{2}:\d{2}")),
    ("contains an address", re.compile(r"(?<![\d.])(\d{1,3}\.){3}\d{1,3}(?![\d.])")),
    ("begins a JSON object", re.compile(r"^\[?\s*\{")),
]
_ONE_WORD = re.compile(r"[\w.-]+")
_ADVICE = "a csv file must begin with a line of column names"
_OTHERWISE = "if it does, create the table first with `create --schema`, then append the file"


def check_header(head: str, source: str, columns: Sequence[str] | None, warn: Callable[[str], None] = logger.warning) -> None:
    """SourceUnreadable if the first line is not a header for a table with these columns, or for a new table (None).

    A line that may not be the header of a new table is taken for it with a warning.
    """
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
        doubt = _doubt(header, rows)
        if doubt is not None:
            warn(f"the first line of {source!r}, {', '.join(header)[:80]!r}, was taken as column names; {doubt}")
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
    """The delimiter used instead of commas, if any: with it the first line has several cells, and the other lines as many as the first."""
    for delimiter in _DELIMITERS:
        lines = _parsed(head, delimiter) if delimiter in head else []
        cells = len(lines[0]) if lines else 0
        fitting, others = sum(len(line) == cells for line in lines[1:]), len(lines) - 1
        if cells > by_commas == 1 and 2 * fitting >= others:  # a line without a comma: some lines may not match
            return delimiter
        if cells > 1 and fitting == others and _explains_commas(head, delimiter, more=cells > by_commas):
            return delimiter
    return None


def _explains_commas(head: str, delimiter: str, *, more: bool) -> bool:
    """Whether the commas of lines that this delimiter splits evenly, into `more` cells than commas or not, may be part of their values.

    Quoted cells do not count, so that neither a delimiter nor a comma in them is evidence.
    """
    lines = [line.split(delimiter) for line in _QUOTED.sub("", head).splitlines() if line.strip()]
    cells = len(lines[0]) if lines else 0
    if cells < 2 or any(len(line) != cells for line in lines):
        return False
    values = [cell for line in lines[1:] or lines for cell in line]
    return (more and len(lines) > 1) or all(_is_text_with_commas(cell) for cell in values if "," in cell)


def _is_text_with_commas(cell: str) -> bool:
    """Whether each comma of a cell is that of a number, a time or a sentence: `1,50`, `10:00:00,123`, `Bob, B.`."""
    text = cell.strip()
    return len(text) <= _VALUE_CHARACTERS and (_WITH_COMMA.fullmatch(text) is not None or text.count(",") == len(re.findall(r",\s", cell)))


def _not_names(header: list[str], rows: list[list[str]]) -> str | None:
    """The reason why the cells are not column names, or None if they are."""
    for at, given in enumerate(header):
        cell = given.strip()
        if not cell:
            return f"column {at + 1} has no name"
        kind = _kind(cell)
        if kind is None and cell in _NO_VALUE:
            kind = _NULL
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


def _doubt(header: list[str], rows: list[list[str]]) -> str | None:
    """Why a line of names may not be the header, or None: below a header, a column usually has only numbers, times or other values."""
    for at, cell in enumerate(header):
        if cell.strip().lower() in _DOUBTFUL:
            return f"column {at + 1} is {cell.strip()!r}, so that the file may have no header"
    columns = [[_kind(row[at]) for row in rows if at < len(row) and not _is_missing(row[at])] for at in range(len(header))]
    if any(kinds and all(kinds) for kinds in columns):
        return None
    if any(map(any, columns)):
        return "a file in which no column has only numbers or other values may have no header, or a title above it"
    return "a file with only text may have no header"


def _is_missing(cell: str) -> bool:
    text = cell.strip()
    return not text or text in _NO_VALUE or text.lower() in _DOUBTFUL or _kind(text) == _NULL


def _kind(cell: str) -> str | None:
    """What a cell is if it is a value, such as a number, rather than text. Long cells are text: to match one could take minutes."""
    text = cell.strip()
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(text)), None) if len(text) <= _VALUE_CHARACTERS else None


def _shown(head: str) -> str:
    return repr((head.lstrip().splitlines() or [""])[0][:80])
